/* SPDX-License-Identifier: ISC */
/* tests/unit/policy_match_test.c - which rule decides, which address may be dialled; and a slow
 * matcher written apart that has to agree on 10,000 generated cases */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "policy/target.h"

static const struct policy_context ctx = { .home = "/home/u", .cwd = "/work", .project = "/work" };

static struct policy *policy_of(const char *const texts[LAYER_COUNT])
{
	struct policy *p = policy_new(&ctx);
	struct err e = { 0 };

	for (size_t k = 0; k < LAYER_COUNT; k++)
		if (texts[k] &&
		    policy_add_text(p, (enum policy_layer)k, k == LAYER_USER ? "U" : "F", texts[k],
				    strlen(texts[k]), &e) < 0)
			fail_msg("%s", e.what);
	if (policy_seal(p, NULL, NULL, &e) < 0)
		fail_msg("%s", e.what);
	return p;
}

static struct policy *policy_one(const char *text)
{
	const char *texts[LAYER_COUNT] = { [LAYER_ADMIN] = "include none\n", [LAYER_USER] = text };

	return policy_of(texts);
}

static void target_of(struct target *t, const char *host, uint16_t port)
{
	if (target_parse(t, host, port) < 0)
		fail_msg("'%s' is no target", host);
}

/* ---- tables ---- */

static const struct {
	const char *policy, *host;
	unsigned port;
	enum policy_verdict verdict;
	enum reason reason;
	unsigned line; /* of the rule, 0: none */
	bool is_private;
} verdicts[] = {
	/* exact */
	{ "allow a.example", "a.example", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow a.example", "A.Example.", 80, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow A.Example.", "a.example", 80, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow a.example", "b.a.example", 443, POLICY_DENY, REASON_NO_RULE, 0, false },
	{ "allow a.example", "example", 443, POLICY_DENY, REASON_NO_RULE, 0, false },
	{ "allow a.example", "xa.example", 443, POLICY_DENY, REASON_NO_RULE, 0, false },
	{ "allow a.example", "a.example.evil.example", 443, POLICY_DENY, REASON_NO_RULE, 0, false },
	/* suffixes */
	{ "allow .ebi.ac.uk", "ebi.ac.uk", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow .ebi.ac.uk", "www.ebi.ac.uk", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow .ebi.ac.uk", "a.b.c.ebi.ac.uk", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow .ebi.ac.uk", "evilebi.ac.uk", 443, POLICY_DENY, REASON_NO_RULE, 0, false },
	{ "allow *.ebi.ac.uk", "ebi.ac.uk", 443, POLICY_DENY, REASON_NO_RULE, 0, false },
	{ "allow *.ebi.ac.uk", "www.ebi.ac.uk", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow *.ebi.ac.uk", "a.b.ebi.ac.uk", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	/* ports */
	{ "allow a.example", "a.example", 22, POLICY_DENY, REASON_PORT, 1, false },
	{ "allow a.example:443,8000-8010", "a.example", 8000, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow a.example:443,8000-8010", "a.example", 8010, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow a.example:443,8000-8010", "a.example", 8011, POLICY_DENY, REASON_PORT, 1, false },
	{ "allow a.example:443,8000-8010", "a.example", 80, POLICY_DENY, REASON_PORT, 1, false },
	{ "allow a.example:*", "a.example", 65535, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow a.example\nallow .example:22", "a.example", 22, POLICY_ALLOW, REASON_RULE, 2,
	  false },
	{ "allow *\nallow a.example:22", "a.example", 25, POLICY_DENY, REASON_PORT, 2, false },
	/* ask: beaten by both others, from wherever they come */
	{ "ask *:443", "a.example", 443, POLICY_ASK, REASON_ASK, 1, false },
	{ "ask *:443", "a.example", 80, POLICY_DENY, REASON_PORT, 1, false },
	{ "ask a.example private\nallow *", "a.example", 443, POLICY_ALLOW, REASON_RULE, 2, false },
	{ "ask a.example\ndeny *", "a.example", 443, POLICY_DENY, REASON_DENIED, 2, false },
	{ "ask *\nask .example private\nask a.example", "a.example", 443, POLICY_ASK, REASON_ASK, 3,
	  true },
	{ "ask 10.0.0.0/8:22", "10.1.2.3", 22, POLICY_ASK, REASON_ASK, 1, false },
	{ "ask *", "localhost", 443, POLICY_DENY, REASON_PRIVATE_ADDRESS, 1, false },
	{ "ask localhost private", "localhost", 443, POLICY_ASK, REASON_ASK, 1, true },
	/* this machine: known not to be public, whatever the port */
	{ "allow a.example", "localhost", 8080, POLICY_DENY, REASON_PRIVATE_ADDRESS, 0, false },
	{ "allow a.example", "x.localhost", 1, POLICY_DENY, REASON_PRIVATE_ADDRESS, 0, false },
	{ "allow localhost", "localhost", 1, POLICY_DENY, REASON_PRIVATE_ADDRESS, 1, false },
	{ "allow localhost:2 private", "localhost", 1, POLICY_DENY, REASON_PORT, 1, false },
	{ "deny localhost", "localhost", 1, POLICY_DENY, REASON_DENIED, 1, false },
	{ "allow a.example", "xlocalhost", 1, POLICY_DENY, REASON_NO_RULE, 0, false },
	/* any */
	{ "allow *", "a.example", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow *:22", "a.example", 443, POLICY_DENY, REASON_PORT, 1, false },
	/* deny */
	{ "allow *\ndeny a.example", "a.example", 443, POLICY_DENY, REASON_DENIED, 2, false },
	{ "deny a.example\nallow a.example", "a.example", 443, POLICY_DENY, REASON_DENIED, 1,
	  false },
	{ "deny .example\nallow a.example", "a.example", 443, POLICY_DENY, REASON_DENIED, 1,
	  false },
	{ "deny *\nallow a.example", "a.example", 443, POLICY_DENY, REASON_DENIED, 1, false },
	{ "deny a.example:80\nallow a.example", "a.example", 443, POLICY_ALLOW, REASON_RULE, 2,
	  false },
	{ "deny a.example:80", "a.example", 443, POLICY_DENY, REASON_NO_RULE, 0, false },
	{ "deny a.example", "a.example", 1, POLICY_DENY, REASON_DENIED, 1, false },
	{ "deny .example\ndeny a.example\ndeny *", "a.example", 1, POLICY_DENY, REASON_DENIED, 2,
	  false },
	/* the most specific is named, words add up */
	{ "allow *\nallow .b.example\nallow .example\nallow a.b.example", "a.b.example", 443,
	  POLICY_ALLOW, REASON_RULE, 4, false },
	{ "allow *\nallow .b.example\nallow .example", "a.b.example", 443, POLICY_ALLOW,
	  REASON_RULE, 2, false },
	{ "allow .example private\nallow a.example", "a.example", 443, POLICY_ALLOW, REASON_RULE, 2,
	  true },
	{ "allow .example:22 private\nallow a.example", "a.example", 443, POLICY_ALLOW, REASON_RULE,
	  2, false },
	{ "allow a.example\nallow a.example", "a.example", 443, POLICY_ALLOW, REASON_RULE, 2,
	  false },
	/* addresses */
	{ "allow 10.1.0.0/16:22", "10.1.2.3", 22, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow 10.1.0.0/16:22", "10.2.2.3", 22, POLICY_DENY, REASON_NO_RULE, 0, false },
	{ "allow 10.1.0.0/16:22", "10.1.2.3", 80, POLICY_DENY, REASON_PORT, 1, false },
	{ "allow [fd00::/8]:443", "fd12::1", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow [fd00::/8]:443", "fe12::1", 443, POLICY_DENY, REASON_NO_RULE, 0, false },
	{ "allow [::ffff:10.0.0.1]", "10.0.0.1", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow 10.0.0.1", "::ffff:10.0.0.1", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow 0.0.0.0/0", "192.0.2.1", 443, POLICY_ALLOW, REASON_RULE, 1, false },
	{ "allow 10.0.0.0/8\nallow 10.1.0.0/16\nallow *", "10.1.2.3", 80, POLICY_ALLOW, REASON_RULE,
	  2, false },
	{ "allow 10.0.0.0/8\ndeny 10.1.2.3", "10.1.2.3", 80, POLICY_DENY, REASON_DENIED, 2, false },
	{ "allow *\ndeny 10.0.0.0/8", "10.1.2.3", 80, POLICY_DENY, REASON_DENIED, 2, false },
	{ "allow *", "93.184.216.34", 443, POLICY_ALLOW, REASON_RULE, 1, false },
};

static void deciding_rule_is_the_documented_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(verdicts); i++) {
		struct policy *p = policy_one(verdicts[i].policy);
		struct policy_match m;
		struct target t;

		target_of(&t, verdicts[i].host, (uint16_t)verdicts[i].port);
		policy_match(p, &t, &m);
		if (m.verdict != verdicts[i].verdict || m.reason != verdicts[i].reason ||
		    (m.rule ? m.rule->origin->line : 0) != verdicts[i].line ||
		    m.is_private != verdicts[i].is_private)
			fail_msg("'%s' for %s:%u gave %d %s line %u private %d", verdicts[i].policy,
				 verdicts[i].host, verdicts[i].port, m.verdict,
				 reason_name(m.reason), m.rule ? m.rule->origin->line : 0,
				 m.is_private);
		policy_free(p);
	}
}

static const struct {
	const char *policy, *host, *addr;
	unsigned port;
	bool own;
	enum reason want;
	unsigned by; /* line of the deny rule */
} addrs[] = {
	/* a plain rule keeps public answers only */
	{ "allow a.example", "a.example", "93.184.216.34", 443, false, REASON_NONE, 0 },
	{ "allow a.example", "a.example", "10.0.0.1", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	{ "allow a.example", "a.example", "127.0.0.1", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	{ "allow a.example", "a.example", "::1", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	{ "allow a.example", "a.example", "169.254.169.254", 443, false, REASON_PRIVATE_ADDRESS,
	  0 },
	{ "allow a.example", "a.example", "93.184.216.34", 443, true, REASON_PRIVATE_ADDRESS, 0 },
	{ "allow *", "a.example", "10.0.0.1", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	/* private */
	{ "allow a.example private", "a.example", "10.0.0.1", 443, false, REASON_NONE, 0 },
	{ "allow a.example private", "a.example", "100.64.0.1", 443, false, REASON_NONE, 0 },
	{ "allow a.example private", "a.example", "127.0.0.1", 443, false, REASON_NONE, 0 },
	{ "allow a.example private", "a.example", "fd00::1", 443, false, REASON_NONE, 0 },
	{ "allow a.example private", "a.example", "::1", 443, false, REASON_NONE, 0 },
	{ "allow a.example private", "a.example", "93.184.216.34", 443, true, REASON_NONE, 0 },
	{ "allow a.example private", "a.example", "169.254.169.254", 443, false,
	  REASON_PRIVATE_ADDRESS, 0 },
	{ "allow a.example private", "a.example", "fd00:ec2::254", 443, false,
	  REASON_PRIVATE_ADDRESS, 0 },
	{ "allow a.example private", "a.example", "0.0.0.0", 443, false, REASON_PRIVATE_ADDRESS,
	  0 },
	{ "allow a.example private", "a.example", "224.0.0.1", 443, false, REASON_PRIVATE_ADDRESS,
	  0 },
	{ "allow a.example private", "a.example", "192.0.2.1", 443, false, REASON_PRIVATE_ADDRESS,
	  0 },
	/* other classes: the name rule and an address rule over address and port */
	{ "allow a.example\nallow 169.254.169.254", "a.example", "169.254.169.254", 443, false,
	  REASON_NONE, 0 },
	{ "allow a.example\nallow 169.254.169.254:80", "a.example", "169.254.169.254", 443, false,
	  REASON_PRIVATE_ADDRESS, 0 },
	/* an address rule does not replace "private" on a name */
	{ "allow a.example\nallow 10.0.0.0/8", "a.example", "10.0.0.1", 443, false,
	  REASON_PRIVATE_ADDRESS, 0 },
	{ "allow a.example\nallow 127.0.0.1", "a.example", "127.0.0.1", 443, false,
	  REASON_PRIVATE_ADDRESS, 0 },
	/* deny rules strike what names resolve to */
	{ "allow a.example private\ndeny 10.9.0.0/16", "a.example", "10.9.1.1", 443, false,
	  REASON_DENIED, 2 },
	{ "allow a.example private\ndeny 10.9.0.0/16", "a.example", "10.8.1.1", 443, false,
	  REASON_NONE, 0 },
	{ "allow a.example private\ndeny 10.9.0.0/16:22", "a.example", "10.9.1.1", 443, false,
	  REASON_NONE, 0 },
	{ "allow a.example\ndeny 93.184.216.34", "a.example", "93.184.216.34", 443, false,
	  REASON_DENIED, 2 },
	{ "allow a.example private\ndeny 10.9.0.0/16", "a.example", "64:ff9b::a09:101", 443, false,
	  REASON_DENIED, 2 },
	{ "allow a.example private\ndeny 10.9.0.0/16", "a.example", "2002:a09:101::1", 443, false,
	  REASON_DENIED, 2 },
	/* and ask rules ask about it, unless an allow rule names the address */
	{ "allow a.example private\nask 10.9.0.0/16", "a.example", "10.9.1.1", 443, false,
	  REASON_ASK, 2 },
	{ "allow a.example private\nask 10.9.0.0/16\nallow 10.9.1.1", "a.example", "10.9.1.1", 443,
	  false, REASON_NONE, 0 },
	{ "allow a.example private\nask 10.9.0.0/16:22", "a.example", "10.9.1.1", 443, false,
	  REASON_NONE, 0 },
	{ "allow a.example\nask 93.184.216.34", "a.example", "93.184.216.34", 443, false,
	  REASON_ASK, 2 },
	{ "allow a.example private\nask 10.9.0.0/16", "a.example", "64:ff9b::a09:101", 443, false,
	  REASON_ASK, 2 },
	{ "allow a.example\nask 10.9.0.0/16", "a.example", "10.9.1.1", 443, false,
	  REASON_PRIVATE_ADDRESS, 0 },
	{ "allow a.example\nask 169.254.169.254:443", "a.example", "169.254.169.254", 443, false,
	  REASON_ASK, 2 },
	{ "ask 10.1.0.0/16", "10.1.2.3", "10.1.2.3", 443, false, REASON_NONE, 0 },
	{ "ask *", "10.1.2.3", "10.1.2.3", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	{ "ask a.example", "a.example", "10.1.2.3", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	/* localhost is the host's own */
	{ "allow localhost:8080", "localhost", "127.0.0.1", 8080, false, REASON_PRIVATE_ADDRESS,
	  0 },
	{ "allow localhost:8080 private", "localhost", "127.0.0.1", 8080, false, REASON_NONE, 0 },
	/* typed addresses: an address rule names them; * only when public */
	{ "allow 10.1.0.0/16:22", "10.1.2.3", "10.1.2.3", 22, false, REASON_NONE, 0 },
	{ "allow 127.0.0.1", "127.0.0.1", "127.0.0.1", 443, true, REASON_NONE, 0 },
	{ "allow 169.254.169.254", "169.254.169.254", "169.254.169.254", 80, false, REASON_NONE,
	  0 },
	{ "allow *", "93.184.216.34", "93.184.216.34", 443, false, REASON_NONE, 0 },
	{ "allow *", "93.184.216.34", "93.184.216.34", 443, true, REASON_PRIVATE_ADDRESS, 0 },
	{ "allow *", "10.0.0.1", "10.0.0.1", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	{ "allow *", "127.0.0.1", "127.0.0.1", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	{ "allow *", "::1", "::1", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	{ "allow * private", "10.0.0.1", "10.0.0.1", 443, false, REASON_PRIVATE_ADDRESS, 0 },
	{ "allow *\nallow 10.0.0.1:22", "10.0.0.1", "10.0.0.1", 443, false, REASON_PRIVATE_ADDRESS,
	  0 },
};

static void address_may_be_dialled_only_as_documented(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(addrs); i++) {
		struct policy *p = policy_one(addrs[i].policy);
		const struct policy_rule *by = NULL;
		struct policy_match m;
		struct target t;
		struct addr a;
		enum reason r;

		target_of(&t, addrs[i].host, (uint16_t)addrs[i].port);
		policy_match(p, &t, &m);
		assert_int_not_equal(m.verdict, POLICY_DENY);
		assert_int_equal(addr_parse(&a, addrs[i].addr), 0);
		r = policy_judge_addr(p, &t, &m, &a, addrs[i].own, &by);
		if (r != addrs[i].want || (by ? by->origin->line : 0) != addrs[i].by)
			fail_msg("'%s' %s at %s own %d gave %s", addrs[i].policy, addrs[i].host,
				 addrs[i].addr, addrs[i].own, reason_name(r));
		policy_free(p);
	}
}

static void address_of_a_refused_target_is_refused(void **state)
{
	struct policy *p = policy_one("allow a.example");
	struct policy_match m;
	struct target t;
	struct addr a;

	(void)state;
	target_of(&t, "b.example", 443);
	policy_match(p, &t, &m);
	assert_int_equal(addr_parse(&a, "93.184.216.34"), 0);
	assert_int_equal(policy_judge_addr(p, &t, &m, &a, false, NULL), REASON_NO_RULE);
	policy_free(p);
}

static void candidates_are_needed_for_private_and_address_rules_only(void **state)
{
	static const struct {
		const char *policy;
		bool want;
	} cases[] = {
		{ "allow a.example", false },
		{ "allow a.example private", true },
		{ "allow a.example\ndeny 10.0.0.0/8", true },
		{ "allow a.example\nallow b.example private", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct policy *p = policy_one(cases[i].policy);
		struct policy_match m;
		struct target t;

		target_of(&t, "a.example", 443);
		policy_match(p, &t, &m);
		assert_int_equal(policy_needs_candidates(p, &m), cases[i].want);
		policy_free(p);
	}
}

static void deny_beats_allow_from_every_layer(void **state)
{
	(void)state;
	for (size_t d = LAYER_ADMIN; d < LAYER_COUNT; d++)
		for (size_t a = LAYER_ADMIN; a < LAYER_COUNT; a++) {
			const char *texts[LAYER_COUNT] = { NULL };
			struct policy *p;
			struct policy_match m;
			struct target t;

			texts[d] = "deny .example\n";
			texts[a] = d == a ? "deny .example\nallow a.example\n"
					  : "allow a.example\n";
			p = policy_of(texts);
			target_of(&t, "a.example", 443);
			policy_match(p, &t, &m);
			assert_int_equal(m.reason, REASON_DENIED);
			policy_free(p);
		}
}

static void tie_goes_to_the_later_layer(void **state)
{
	const char *texts[LAYER_COUNT] = {
		[LAYER_USER] = "allow a.example\n", [LAYER_FILE] = "allow a.example\n"
	};
	struct policy *p = policy_of(texts);
	struct policy_match m;
	struct target t;

	(void)state;
	target_of(&t, "a.example", 443);
	policy_match(p, &t, &m);
	assert_int_equal(m.rule->origin->layer, LAYER_FILE);
	policy_free(p);
}

/* ---- the slow matcher ---- */

static uint32_t seed = 20240611;

static unsigned pick(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % n;
}

struct gen {
	bool deny, ask, is_private;
	int kind; /* 0 name, 1 .name, 2 *.name, 3 *, 4 network */
	char name[64];
	uint32_t net;
	unsigned prefix, low, high; /* low 0: default ports; 1-65535 of all: high 65535 */
	int layer;
	unsigned line;
};

static void gen_name(char *to, size_t room)
{
	static const char *const tops[] = { "lab", "x.lab", "y.lab" };
	size_t n = 0;

	to[0] = '\0';
	for (unsigned k = pick(4); k > 0; k--)
		n += (size_t)snprintf(to + n, room - n, "%c.", "abx"[pick(3)]);
	(void)snprintf(to + n, room - n, "%s", tops[pick(3)]);
}

static uint32_t gen_addr(void)
{
	static const uint32_t base[] = { 0x0a000000, 0x5db80000, 0x7f000000, 0xa9fe0000 };

	return base[pick(4)] + pick(4) * 256 + pick(4);
}

static void gen_rule(struct gen *g)
{
	static const unsigned prefixes[] = { 0, 8, 16, 22, 24, 30, 31, 32 };
	static const unsigned ports[] = { 22, 80, 443, 8000 };

	*g = (struct gen){ .deny = pick(4) == 0, .kind = (int)pick(5) };
	if (g->kind == 3 && pick(3))
		g->kind = 0;
	g->ask = !g->deny && pick(3) == 0;
	g->is_private = !g->deny && pick(4) == 0;
	gen_name(g->name, sizeof(g->name));
	g->prefix = prefixes[pick(8)];
	g->net = g->prefix ? gen_addr() & (0xffffffffu << (32 - g->prefix)) : 0;
	if (pick(2)) {
		g->low = ports[pick(4)];
		g->high = g->low + (pick(2) ? 0 : pick(500));
	}
}

static int gen_text(const struct gen *g, char *to, size_t room)
{
	static const char *const sign[] = { "", ".", "*.", "*", "" };
	char host[96], ports[32] = "";

	if (g->kind == 4)
		(void)snprintf(host, sizeof(host), "%u.%u.%u.%u/%u", g->net >> 24,
			       g->net >> 16 & 255, g->net >> 8 & 255, g->net & 255, g->prefix);
	else
		(void)snprintf(host, sizeof(host), "%s%s", sign[g->kind],
			       g->kind == 3 ? "" : g->name);
	if (g->low)
		(void)snprintf(ports, sizeof(ports), ":%u-%u", g->low, g->high);
	return snprintf(to, room, "%s %s%s%s\n",
			g->deny	 ? "deny"
			: g->ask ? "ask"
				 : "allow",
			host, ports, g->is_private ? " private" : "");
}

static bool slow_port(const struct gen *g, unsigned port)
{
	if (g->low)
		return port >= g->low && port <= g->high;
	return g->deny || port == 80 || port == 443;
}

static bool slow_net(const struct gen *g, uint32_t a)
{
	for (unsigned bit = 0; bit < g->prefix; bit++)
		if ((a >> (31 - bit) & 1) != (g->net >> (31 - bit) & 1))
			return false;
	return true;
}

static bool slow_names(const struct gen *g, const char *host, bool is_addr, uint32_t a)
{
	size_t h = strlen(host), n = strlen(g->name);

	if (g->kind == 3)
		return true;
	if (is_addr)
		return g->kind == 4 && slow_net(g, a);
	if (g->kind == 4)
		return false;
	if (g->kind != 2 && strcmp(host, g->name) == 0)
		return true;
	return g->kind != 0 && h > n && host[h - n - 1] == '.' &&
	       strcmp(host + h - n, g->name) == 0;
}

static unsigned slow_weight(const struct gen *g)
{
	switch (g->kind) {
	case 0:
		return 1000;
	case 3:
		return 0;
	case 4:
		return 1 + g->prefix;
	default:
		return 1 + (unsigned)strlen(g->name);
	}
}

static const struct gen *slow_best(const struct gen *best, const struct gen *g)
{
	return !best || slow_weight(g) >= slow_weight(best) ? g : best;
}

static int slow_class(uint32_t a)
{
	switch (a >> 24) {
	case 0x0a:
	case 0x7f:
		return 1;
	case 0xa9:
		return 2;
	default:
		return 0;
	}
}

struct slow {
	enum reason reason;
	const struct gen *rule;
	bool is_private;
};

/* @gens in the order of layers and lines */
static struct slow slow_match(const struct gen *gens, size_t n, const char *host, bool is_addr,
			      uint32_t a, unsigned port)
{
	const struct gen *allow = NULL, *ask = NULL, *deny = NULL, *other = NULL;
	bool is_private = false, ask_private = false;

	for (size_t i = 0; i < n; i++) {
		if (!slow_names(&gens[i], host, is_addr, a))
			continue;
		if (!slow_port(&gens[i], port)) {
			other = gens[i].deny ? other : slow_best(other, &gens[i]);
		} else if (gens[i].deny) {
			deny = slow_best(deny, &gens[i]);
		} else if (gens[i].ask) {
			ask = slow_best(ask, &gens[i]);
			ask_private |= gens[i].is_private;
		} else {
			allow = slow_best(allow, &gens[i]);
			is_private |= gens[i].is_private;
		}
	}
	if (deny)
		return (struct slow){ REASON_DENIED, deny, false };
	if (allow)
		return (struct slow){ REASON_RULE, allow, is_private };
	if (ask)
		return (struct slow){ REASON_ASK, ask, ask_private };
	return (struct slow){ other ? REASON_PORT : REASON_NO_RULE, other, false };
}

static enum reason slow_judge(const struct gen *gens, size_t n, const struct slow *s, bool is_addr,
			      uint32_t a, unsigned port)
{
	bool named = false, asked = false;

	for (size_t i = 0; i < n; i++) {
		if (gens[i].kind != 4 || !slow_net(&gens[i], a) || !slow_port(&gens[i], port))
			continue;
		if (gens[i].deny)
			return REASON_DENIED;
		named |= !gens[i].ask;
		asked |= gens[i].ask;
	}
	if (!is_addr && slow_class(a) == 1 && !s->is_private)
		return REASON_PRIVATE_ADDRESS;
	if ((is_addr ? slow_class(a) != 0 : slow_class(a) == 2) && !named && !asked)
		return REASON_PRIVATE_ADDRESS;
	return asked && !named && !is_addr ? REASON_ASK : REASON_NONE;
}

#define GENS 24
static const enum policy_layer gen_layers[] = { LAYER_ADMIN, LAYER_USER, LAYER_FILE };

static struct policy *gen_policy(struct gen *gens)
{
	const char *texts[LAYER_COUNT] = { NULL };
	static char text[3][4096];
	size_t at = 0;

	for (int k = 0; k < 3; k++) {
		size_t n = 0;
		unsigned line = 1;

		text[k][0] = '\0';
		if (k == 0) {
			n = (size_t)snprintf(text[k], sizeof(text[k]), "include none\n");
			line++;
		}
		for (size_t i = 0; i < GENS / 3; i++, at++) {
			gen_rule(&gens[at]);
			gens[at].layer = (int)gen_layers[k];
			gens[at].line = line++;
			n += (size_t)gen_text(&gens[at], text[k] + n, sizeof(text[k]) - n);
		}
		texts[gen_layers[k]] = text[k];
	}
	return policy_of(texts);
}

/* What why says: the same deciding rule, first, and every other rule that names the target. */
static void compare_why(const struct policy *p, const struct target *t,
			const struct policy_match *m, const struct gen *gens, const char *host,
			bool is_addr, uint32_t a)
{
	struct policy_said said[GENS + 1];
	size_t n = policy_matching(p, t, said, ARRAY_LEN(said)), named = 0, decides = 0;

	for (size_t i = 0; i < GENS; i++)
		named += slow_names(&gens[i], host, is_addr, a);
	for (size_t i = 0; i < n; i++) {
		decides += said[i].standing == SAID_DECIDES;
		if (said[i].standing == SAID_DECIDES && (i > 0 || said[i].rule != m->rule))
			fail_msg("%s:%u: '%s' is said to decide, '%s' does", host, t->port,
				 said[i].rule->origin->text, m->rule ? m->rule->origin->text : "");
	}
	if (n != named || decides != (m->reason == REASON_RULE || m->reason == REASON_ASK ||
				      m->reason == REASON_DENIED))
		fail_msg("%s:%u: %zu rules are said, %zu name it, %zu decide", host, t->port, n,
			 named, decides);
}

static void compare_one(const struct policy *p, const struct gen *gens, size_t number)
{
	static const uint16_t ports[] = { 22, 80, 443, 8000, 450, 1 };
	bool is_addr = pick(4) == 0;
	uint32_t typed = gen_addr(), resolved = is_addr ? typed : gen_addr();
	uint16_t port = ports[pick(6)];
	char host[64], name[32];
	struct policy_match m;
	struct target t;
	struct slow s;
	struct addr a;

	gen_name(host, sizeof(host));
	if (is_addr)
		(void)snprintf(host, sizeof(host), "%u.%u.%u.%u", typed >> 24, typed >> 16 & 255,
			       typed >> 8 & 255, typed & 255);
	target_of(&t, host, port);
	policy_match(p, &t, &m);
	s = slow_match(gens, GENS, host, is_addr, typed, port);
	if (m.reason != s.reason || (m.verdict == POLICY_ALLOW) != (s.reason == REASON_RULE) ||
	    (m.rule != NULL) != (s.rule != NULL) || m.is_private != s.is_private ||
	    (s.rule &&
	     (m.rule->origin->line != s.rule->line || (int)m.rule->origin->layer != s.rule->layer)))
		fail_msg("case %zu: %s:%u is %s by '%s', the slow matcher says %s line %u", number,
			 host, port, reason_name(m.reason), m.rule ? m.rule->origin->text : "",
			 reason_name(s.reason), s.rule ? s.rule->line : 0);
	compare_why(p, &t, &m, gens, host, is_addr, typed);
	if (m.verdict == POLICY_DENY)
		return;
	(void)snprintf(name, sizeof(name), "%u.%u.%u.%u", resolved >> 24, resolved >> 16 & 255,
		       resolved >> 8 & 255, resolved & 255);
	assert_int_equal(addr_parse(&a, name), 0);
	if (policy_judge_addr(p, &t, &m, &a, false, NULL) !=
	    slow_judge(gens, GENS, &s, is_addr, resolved, port))
		fail_msg("case %zu: %s:%u at %s", number, host, port, name);
}

static void index_why_and_slow_matcher_agree_on_10000_cases(void **state)
{
	struct gen gens[GENS];

	(void)state;
	for (size_t i = 0; i < 500; i++) {
		struct policy *p = gen_policy(gens);

		for (size_t k = 0; k < 20; k++)
			compare_one(p, gens, 20 * i + k);
		policy_free(p);
	}
}

static const struct {
	const char *policy, *host;
	unsigned port; /* 0: none */
} any_ports[] = {
	{ "allow a.example", "a.example", 80 },
	{ "allow a.example:22", "a.example", 22 },
	{ "allow a.example:*", "a.example", 1 },
	{ "allow a.example:65535", "a.example", 65535 },
	{ "allow .example:8000-8010\ndeny .example:8000-8009", "a.example", 8010 },
	{ "allow .example\ndeny a.example:443", "a.example", 80 },
	{ "allow .example\ndeny a.example:80,443", "a.example", 0 },
	{ "allow .example:*\ndeny a.example", "a.example", 0 },
	{ "allow *", "a.example", 80 },
	{ "allow b.example", "a.example", 0 },
	{ "deny a.example:80", "a.example", 0 },
	{ "allow 10.0.0.0/8:*", "a.example", 0 },
};

static void a_name_is_open_on_its_lowest_port_that_no_rule_denies(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(any_ports); i++) {
		struct policy *p = policy_one(any_ports[i].policy);
		struct target t;
		bool r;

		assert_int_equal(target_parse(&t, any_ports[i].host, 7), 0);
		r = policy_any_port(p, &t);
		if (r != (any_ports[i].port > 0) || t.port != (r ? any_ports[i].port : 7))
			fail_msg("%s: %s gave %d, port %u", any_ports[i].policy, any_ports[i].host,
				 r, t.port);
		policy_free(p);
	}
}

static void what_rules_may_open_is_listed_once_and_in_order(void **state)
{
	struct policy *p = policy_one(
		"allow a.example\nallow .b.example:22,80\nallow c.example:8000-8002\n"
		"deny d.example:1-65535\nallow 10.1.0.0/16:22\nallow [fd00::/8]:5\n"
		"allow 10.1.0.0/16:23\ndeny 10.9.0.0/16\n");
	static const uint16_t want[] = { 5, 22, 23, 80, 443, 8000, 8001, 8002 };
	const struct policy_rule *wide = NULL;
	struct addr_net nets[2];
	uint16_t ports[8];

	(void)state;
	assert_int_equal(policy_open_ports(p, ports, ARRAY_LEN(ports), &wide), ARRAY_LEN(want));
	assert_memory_equal(ports, want, sizeof(want));
	assert_null(wide);
	assert_int_equal(policy_open_ports(p, ports, 3, &wide), -E2BIG);
	assert_string_equal(wide->origin->text, "allow c.example:8000-8002");
	assert_int_equal(policy_open_nets(p, nets, ARRAY_LEN(nets)), 2);
	assert_int_equal(nets[0].prefix + nets[1].prefix, 16 + 8);
	assert_int_equal(policy_open_nets(p, nets, 1), -E2BIG);
	policy_free(p);
	p = policy_one("allow a.example\nallow b.example:*");
	assert_int_equal(policy_open_ports(p, ports, ARRAY_LEN(ports), &wide), -E2BIG);
	assert_string_equal(wide->origin->text, "allow b.example:*");
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deciding_rule_is_the_documented_one),
		cmocka_unit_test(address_may_be_dialled_only_as_documented),
		cmocka_unit_test(address_of_a_refused_target_is_refused),
		cmocka_unit_test(candidates_are_needed_for_private_and_address_rules_only),
		cmocka_unit_test(a_name_is_open_on_its_lowest_port_that_no_rule_denies),
		cmocka_unit_test(what_rules_may_open_is_listed_once_and_in_order),
		cmocka_unit_test(deny_beats_allow_from_every_layer),
		cmocka_unit_test(tie_goes_to_the_later_layer),
		cmocka_unit_test(index_why_and_slow_matcher_agree_on_10000_cases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
