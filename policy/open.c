/* SPDX-License-Identifier: ISC */
/* policy/open.c - what the rules of a policy may open at all: its ports, its networks.
 * For whoever must make sockets and routes before the first question is asked; no verdict. */
#include "policy/policy.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "policy/internal.h"

/* Put @port into the ascending list. Return: how many there are then; more than @max: no room */
static size_t port_add(uint16_t *out, size_t n, size_t max, uint16_t port)
{
	size_t at = 0;

	while (at < n && out[at] < port)
		at++;
	if (at < n && out[at] == port)
		return n;
	if (n == max)
		return max + 1;
	memmove(&out[at + 1], &out[at], (n - at) * sizeof(out[0]));
	out[at] = port;
	return n + 1;
}

int policy_open_ports(const struct policy *p, uint16_t *out, size_t max,
		      const struct policy_rule **wide)
{
	size_t n = 0;

	assert(p->sealed);
	for (const struct policy_rule *r = p->rules; r; r = r->next) {
		const struct policy_pattern *t = r->pattern;

		if (r->verdict == POLICY_DENY)
			continue;
		*wide = r;
		if (t->all_ports)
			return -E2BIG;
		for (unsigned i = 0; i < t->nports; i++)
			for (unsigned port = t->ports[i].low; port <= t->ports[i].high; port++)
				if ((n = port_add(out, n, max, (uint16_t)port)) > max)
					return -E2BIG;
	}
	*wide = NULL;
	return (int)n;
}

int policy_open_nets(const struct policy *p, struct addr_net *out, size_t max)
{
	size_t n = 0;

	assert(p->sealed);
	for (const struct policy_rule *r = p->rules; r; r = r->next) {
		size_t i = 0;

		if (r->verdict == POLICY_DENY || r->pattern->kind != PATTERN_NET)
			continue;
		while (i < n && !(out[i].prefix == r->pattern->net.prefix &&
				  addr_eq(&out[i].base, &r->pattern->net.base)))
			i++;
		if (i < n)
			continue;
		if (n == max)
			return -E2BIG;
		out[n++] = r->pattern->net;
	}
	return (int)n;
}
