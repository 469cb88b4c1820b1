/* SPDX-License-Identifier: ISC */
/* tests/bench/policy_bench.c - what a verdict costs under few and many rules, and how long a policy of
 * 10,000 rules takes to parse, merge and index. Prints medians; asserts nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/err.h"
#include "policy/policy.h"
#include "policy/target.h"

#define ROUNDS 31
#define ASKS 20000
#define NAMES 997 /* targets asked about, one after the other */

static double now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), order);
	return v[n / 2];
}

/* Names, suffixes, ports, deny lines and networks, as large policies have them */
static char *text_of(unsigned rules, size_t *len)
{
	size_t room = (size_t)rules * 64 + 32, n = 0;
	char *text = malloc(room);

	if (!text)
		abort();
	n += (size_t)snprintf(text, room, "include none\n");
	for (unsigned i = 0; i < rules; i++) {
		static const char *const forms[] = {
			"allow host%u.example.org\n",
			"allow .zone%u.example.net:443,8000-8010\n",
			"deny tracker%u.example.com\n",
			"allow *.below%u.example.org:* private\n",
		};

		if (i % 10 == 9)
			n += (size_t)snprintf(text + n, room - n, "deny 10.%u.%u.0/24\n",
					      i / 256 % 256, i % 256);
		else
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			n += (size_t)snprintf(text + n, room - n, forms[i % 4], i);
#pragma GCC diagnostic pop
	}
	*len = n;
	return text;
}

static struct policy *load(const char *text, size_t len)
{
	const struct policy_context ctx = { .home = "/h", .cwd = "/c", .project = "/p" };
	struct policy *p = policy_new(&ctx);
	struct err e = { 0 };

	if (!p || policy_add_text(p, LAYER_USER, "F", text, len, &e) < 0 ||
	    policy_seal(p, NULL, NULL, &e) < 0) {
		(void)fprintf(stderr, "policy_bench: %s\n", e.what);
		exit(1);
	}
	return p;
}

static double verdict_ns(const struct policy *p)
{
	static struct target t[NAMES];
	double v[ROUNDS];
	unsigned allowed = 0;

	for (unsigned i = 0; i < NAMES; i++) {
		char host[64];

		(void)snprintf(host, sizeof(host),
			       i % 3 ? "host%u.example.org" : "a.b.zone%u.example.net",
			       i % 3 ? i * 4 : i * 4 + 1);
		if (target_parse(&t[i], host, 443) < 0)
			abort();
	}
	for (size_t k = 0; k < ROUNDS; k++) {
		double from = now_ns();

		for (unsigned i = 0; i < ASKS; i++) {
			struct policy_match m;

			policy_match(p, &t[i % NAMES], &m);
			allowed += m.verdict == POLICY_ALLOW;
		}
		v[k] = (now_ns() - from) / ASKS;
	}
	if (allowed == 0)
		abort();
	return median(v, ROUNDS);
}

static double load_ms(unsigned rules)
{
	size_t len;
	char *text = text_of(rules, &len);
	double v[ROUNDS];

	for (size_t k = 0; k < ROUNDS; k++) {
		double from = now_ns();
		struct policy *p = load(text, len);

		v[k] = (now_ns() - from) / 1e6;
		policy_free(p);
	}
	free(text);
	return median(v, ROUNDS);
}

static double verdict_under(unsigned rules)
{
	size_t len;
	char *text = text_of(rules, &len);
	struct policy *p = load(text, len);
	double ns = verdict_ns(p);

	policy_free(p);
	free(text);
	return ns;
}

int main(void)
{
	double few = verdict_under(10), many = verdict_under(10000);

	(void)printf("verdict under 10 rules        %8.0f ns\n", few);
	(void)printf("verdict under 10,000 rules    %8.0f ns   ratio %.2f (at most 2)\n", many,
		     many / few);
	(void)printf("parse and merge 10,000 rules  %8.2f ms   (under 20)\n", load_ms(10000));
	return 0;
}
