/* SPDX-License-Identifier: ISC */
/* policy/forward.c - publish and reach lines: a port of the sandbox on the host, and the other way.
 * Reads one word of policy text. Which of the ports are free is not known here. */
#include "policy/internal.h"

#include <errno.h>
#include <string.h>

#include "common/err.h"
#include "common/num.h"
#include "common/scope.h"

#define PROXY_PORT 3128 /* SPEC section 5: the sandbox's own */

static const char publish_expected[] = "[ADDRESS:]PORT[:PORT INSIDE]";
static const char reach_expected[] = "PORT[:PORT OF THE HOST]";

static int say(const struct place *at, const struct word *w, struct err *e, const char *expected)
{
	return place_error(at, w->column, e, "'%s': expected %s", w->s, expected);
}

/* What precedes the ports: an IPv4 address, or an IPv6 address in brackets. Only canonical spellings.
 * Return: where the ports begin, or NULL */
static const char *address_read(const char *s, struct addr *out)
{
	char text[ADDR_TEXT_MAX];
	const bool is_bracketed = *s == '[';
	const char *end = is_bracketed ? strchr(s, ']') : strchr(s, ':');
	size_t len;

	s += is_bracketed;
	if (!end || (len = (size_t)(end - s)) >= sizeof(text))
		return NULL;
	memcpy(text, s, len);
	text[len] = '\0';
	if (addr_parse(out, text) < 0 || (is_bracketed && !strchr(text, ':')))
		return NULL;
	end += is_bracketed;
	return *end == ':' ? end + 1 : NULL;
}

/* PORT or PORT:PORT. Return: 0, or -EINVAL */
static int ports_read(const char *s, bool zero, struct policy_forward *f)
{
	size_t len = strcspn(s, ":");
	uint64_t port;

	if (num_u64_n(s, len, zero ? 0 : 1, 65535, &port) < 0)
		return -EINVAL;
	f->port = f->to = (uint16_t)port;
	if (s[len] == '\0')
		return port ? 0 : -EINVAL;
	return num_port(s + len + 1, strlen(s + len + 1), &f->to);
}

static int publish_parse(const struct place *at, const struct word *w, struct policy_forward *f,
			 struct err *e)
{
	const char *ports = w->s;

	(void)addr_parse(&f->addr, "127.0.0.1");
	if (strchr(ports, '.') || *ports == '[')
		ports = address_read(ports, &f->addr);
	if (!ports || ports_read(ports, true, f) < 0) {
		(void)say(at, w, e, publish_expected);
		return ports && num_u64(ports, 0, 0, &(uint64_t){ 0 }) == 0
			       ? err_fix(e, "port 0 is any port of the host; name the one inside: "
					    "0:8888")
			       : -EINVAL;
	}
	if (f->to == PROXY_PORT)
		return place_error(at, w->column, e,
				   "'%s': port %d inside is the sandbox's own proxy", w->s,
				   PROXY_PORT);
	return 0;
}

int forward_parse(const struct place *at, const struct word *w, size_t n, struct policy_forward *f,
		  struct err *e)
{
	const bool is_reach = f->kind == FORWARD_REACH;
	const char *expected = is_reach ? reach_expected : publish_expected;

	if (n < 2)
		return place_error(at, w[0].column, e, "'%s' alone: expected %s", w[0].s, expected);
	if (n > 2)
		return place_error(at, w[2].column, e, "'%s': expected the end of the line",
				   w[2].s);
	if (!is_reach)
		return publish_parse(at, &w[1], f, e);
	(void)addr_parse(&f->addr, "127.0.0.1");
	if (ports_read(w[1].s, false, f) < 0)
		return say(at, &w[1], e, reach_expected);
	if (f->port == PROXY_PORT)
		return place_error(at, w[1].column, e,
				   "'%s': port %d inside is the sandbox's own proxy", w[1].s,
				   PROXY_PORT);
	return 0;
}
