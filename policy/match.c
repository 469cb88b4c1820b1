/* SPDX-License-Identifier: ISC */
/* policy/match.c - a target, or an address of one, to a verdict and the rule that gave it.
 * The target is canonical and the policy sealed. Cost: one look-up a label, or one a prefix length
 * in use; never a walk over all rules. Enforcement and explanation both come here. */
#include "policy/policy.h"

#include <assert.h>
#include <string.h>

#include "policy/internal.h"
#include "policy/target.h"

/** struct ports - which ports the rules on the way open and close; a bit a port */
struct ports {
	uint8_t open[8192], closed[8192];
};

struct hits {
	uint16_t port;
	struct ports *ports; /* NULL: only @port matters */
	const struct policy_rule *allow, *ask, *deny, *port_only;
	bool is_private, no_sni, ask_private, ask_no_sni;
	struct policy_said *said; /* explanation: every rule on the way; NULL: none wanted */
	size_t nsaid, max;
};

/* Exact and address rules, then the longest suffix or prefix, then "*". */
static unsigned weight(const struct policy_pattern *t)
{
	switch (t->kind) {
	case PATTERN_EXACT:
		return 0x20000;
	case PATTERN_NET:
		return 0x10000u + t->net.prefix;
	case PATTERN_SUFFIX:
	case PATTERN_BELOW:
		return 0x10000u + t->name_len;
	case PATTERN_ANY:
		return 0;
	}
	return 0;
}

static void keep_better(const struct policy_rule **best, const struct policy_rule *r)
{
	unsigned old, new;

	if (!*best) {
		*best = r;
		return;
	}
	old = weight((*best)->pattern);
	new = weight(r->pattern);
	if (new > old || (new == old && r->pattern->order > (*best)->pattern->order))
		*best = r;
}

static void say(struct hits *h, const struct policy_rule *r, bool port)
{
	for (size_t i = 0; i < h->nsaid; i++)
		if (h->said[i].rule == r)
			return;
	if (h->nsaid < h->max)
		h->said[h->nsaid++] = (struct policy_said){ .rule = r,
							    .standing = port ? SAID_BEATEN
									     : SAID_OTHER_PORT };
}

static void ports_set(uint8_t bits[8192], const struct policy_pattern *t)
{
	if (t->all_ports)
		memset(bits, 0xff, 8192);
	for (unsigned i = 0; i < t->nports; i++)
		for (unsigned port = t->ports[i].low; port <= t->ports[i].high; port++)
			bits[port / 8] |= (uint8_t)(1u << (port % 8));
}

static void hit(struct hits *h, const struct policy_rule *r)
{
	bool port = pattern_has_port(r->pattern, h->port);

	if (h->ports)
		ports_set(r->verdict == POLICY_DENY ? h->ports->closed : h->ports->open,
			  r->pattern);
	if (h->said)
		say(h, r, port);
	if (r->verdict == POLICY_DENY) {
		if (port)
			keep_better(&h->deny, r);
		return;
	}
	if (!port) {
		keep_better(&h->port_only, r);
		return;
	}
	if (r->verdict == POLICY_ASK) {
		keep_better(&h->ask, r);
		h->ask_private |= r->is_private;
		h->ask_no_sni |= r->no_sni;
		return;
	}
	keep_better(&h->allow, r);
	h->is_private |= r->is_private;
	h->no_sni |= r->no_sni;
}

/* @full: @name is the whole host, not what is behind one of its dots */
static void hit_name(const struct policy *p, struct hits *h, uint32_t hash, const char *name,
		     size_t len, bool full)
{
	for (const struct policy_rule *r = p->index[hash & p->index_mask]; r;
	     r = r->pattern->same) {
		const struct policy_pattern *t = r->pattern;

		if (t->hash != hash || t->kind == PATTERN_NET || t->name_len != len ||
		    memcmp(t->name, name, len) != 0)
			continue;
		if (full ? t->kind == PATTERN_BELOW : t->kind == PATTERN_EXACT)
			continue;
		hit(h, r);
	}
}

static void hit_names(const struct policy *p, struct hits *h, const char *host)
{
	uint32_t hash = NAME_HASH_START;
	size_t len = strlen(host);

	for (size_t i = len; i > 0; i--) {
		if (host[i - 1] == '.')
			hit_name(p, h, hash, host + i, len - i, false);
		hash = name_hash_step(hash, host[i - 1]);
	}
	hit_name(p, h, hash, host, len, true);
}

static void mask_to(struct addr_net *n, const struct addr *a, unsigned prefix)
{
	*n = (struct addr_net){ .prefix = (uint8_t)prefix };
	n->base.family = a->family;
	memcpy(n->base.b, a->b, prefix / 8);
	if (prefix % 8)
		n->base.b[prefix / 8] = (uint8_t)(a->b[prefix / 8] & (0xff00u >> (prefix % 8)));
}

static void hit_prefix(const struct policy *p, struct hits *h, const struct addr *a,
		       unsigned prefix)
{
	struct addr_net n;
	uint32_t hash;

	mask_to(&n, a, prefix);
	hash = net_hash(&n);
	for (const struct policy_rule *r = p->index[hash & p->index_mask]; r; r = r->pattern->same)
		if (r->pattern->kind == PATTERN_NET && r->pattern->hash == hash &&
		    r->pattern->net.prefix == prefix && addr_eq(&r->pattern->net.base, &n.base))
			hit(h, r);
}

static void hit_nets(const struct policy *p, struct hits *h, const struct addr *a)
{
	const uint64_t *bits = a->family == 4 ? p->prefixes4 : p->prefixes6;
	unsigned most = a->family == 4 ? 32 : 128;

	for (unsigned k = 0; p->has_nets && k <= most; k++)
		if (bits[k / 64] >> (k % 64) & 1)
			hit_prefix(p, h, a, k);
}

static void hit_any(const struct policy *p, struct hits *h)
{
	for (const struct policy_rule *r = p->any; r; r = r->pattern->same)
		hit(h, r);
}

/* An IPv6 address that a gateway turns into this IPv4 one: a rule that denies the one denies the
 * other. 64:ff9b::/96 RFC 6052, 2002::/16 RFC 3056, 2001::/32 RFC 4380 (every bit turned). */
static bool inner4(const struct addr *a, struct addr *in)
{
	static const uint8_t nat64[12] = { 0x00, 0x64, 0xff, 0x9b };
	static const uint8_t teredo[4] = { 0x20, 0x01 };
	bool turn = memcmp(a->b, teredo, sizeof(teredo)) == 0;

	*in = (struct addr){ .family = 4 };
	if (a->family != 6)
		return false;
	if (a->b[0] == 0x20 && a->b[1] == 0x02)
		memcpy(in->b, a->b + 2, 4);
	else if (turn || memcmp(a->b, nat64, sizeof(nat64)) == 0)
		memcpy(in->b, a->b + 12, 4);
	else
		return false;
	for (size_t i = 0; turn && i < 4; i++)
		in->b[i] ^= 0xff;
	return true;
}

/* The most specific deny rule over an address, by itself or by the IPv4 inside it */
static const struct policy_rule *addr_denied(const struct policy *p, const struct addr *a,
					     uint16_t port)
{
	struct hits h = { .port = port }, in = { .port = port };
	struct addr four;

	hit_nets(p, &h, a);
	if (!h.deny && inner4(a, &four)) {
		hit_nets(p, &in, &four);
		return in.deny;
	}
	return h.deny;
}

static void hit_all(const struct policy *p, const struct target *t, struct hits *h)
{
	if (t->is_addr) {
		hit_nets(p, h, &t->addr);
		if (!h->deny)
			h->deny = addr_denied(p, &t->addr, t->port);
	} else {
		hit_names(p, h, t->host);
	}
	hit_any(p, h);
}

static void verdict(struct policy_match *m, const struct hits *h, const struct target *t)
{
	*m = (struct policy_match){ .verdict = POLICY_DENY, .reason = REASON_NO_RULE };
	if (h->deny) {
		m->reason = REASON_DENIED;
		m->rule = h->deny;
	} else if (h->allow) {
		m->verdict = POLICY_ALLOW;
		m->reason = REASON_RULE;
		m->rule = h->allow;
		m->is_private = h->is_private;
		m->no_sni = h->no_sni;
	} else if (h->ask) {
		m->verdict = POLICY_ASK;
		m->reason = REASON_ASK;
		m->rule = h->ask;
		m->is_private = h->ask_private;
		m->no_sni = h->ask_no_sni;
	} else if (h->port_only) {
		m->reason = REASON_PORT;
		m->rule = h->port_only;
	}
	/* SPEC section 4: it is known where it leads, without a look-up and whatever the port */
	if (!h->deny && !h->allow && target_is_localhost(t) && !h->ask_private &&
	    !(m->rule && m->rule->is_private)) {
		m->verdict = POLICY_DENY;
		m->reason = REASON_PRIVATE_ADDRESS;
	}
}

void policy_match(const struct policy *p, const struct target *t, struct policy_match *m)
{
	struct hits h = { .port = t->port };

	assert(p->sealed);
	hit_all(p, t, &h);
	verdict(m, &h, t);
}

bool policy_any_port(const struct policy *p, struct target *t)
{
	struct ports ports = { 0 };
	struct hits h = { .ports = &ports };

	assert(p->sealed);
	hit_all(p, t, &h);
	for (unsigned port = 1; port <= UINT16_MAX; port++) {
		unsigned left = ports.open[port / 8] & ~(unsigned)ports.closed[port / 8];

		if (left == 0) {
			port |= 7; /* none of these eight */
		} else if (left >> (port % 8) & 1) {
			t->port = (uint16_t)port;
			return true;
		}
	}
	return false;
}

/* ---- explanation ---- */

/* One pattern by itself, for lines that are in no index: those that a lock strikes. */
static bool pattern_names(const struct policy_pattern *t, const struct target *target)
{
	size_t len = strlen(target->host), n = t->name_len;
	bool tail = !target->is_addr && len >= n && t->kind != PATTERN_NET &&
		    t->kind != PATTERN_ANY && memcmp(target->host + len - n, t->name, n) == 0;

	switch (t->kind) {
	case PATTERN_ANY:
		return true;
	case PATTERN_NET:
		return target->is_addr && addr_net_contains(&t->net, &target->addr);
	case PATTERN_EXACT:
		return tail && len == n;
	case PATTERN_BELOW:
		return tail && len > n && target->host[len - n - 1] == '.';
	case PATTERN_SUFFIX:
		return tail && (len == n || target->host[len - n - 1] == '.');
	}
	return false;
}

static void say_locked(const struct policy *p, const struct target *t, struct hits *h)
{
	for (size_t k = 0; k < LAYER_COUNT; k++)
		for (const struct line *l = p->lines[k].first; l; l = l->next) {
			if (!l->locked_by ||
			    (l->key != KEY_ALLOW && l->key != KEY_DENY && l->key != KEY_ASK) ||
			    !pattern_names(l->u.rule.pattern, t) || h->nsaid == h->max)
				continue;
			h->said[h->nsaid++] = (struct policy_said){ .rule = &l->u.rule,
								    .standing = SAID_LOCKED,
								    .lock = &l->locked_by->origin };
		}
}

/* Deny beats allow beats ask. */
static unsigned rank(const struct policy_rule *r)
{
	return r->verdict == POLICY_DENY ? 0 : r->verdict == POLICY_ALLOW ? 1 : 2;
}

/* The deciding rule first, then by the order in which rules win */
static void say_order(struct policy_said *said, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct policy_said s = said[i];
		size_t k = i;

		for (; k > 0; k--) {
			const struct policy_said *o = &said[k - 1];
			unsigned a = weight(s.rule->pattern), b = weight(o->rule->pattern);

			if (s.standing != o->standing ? s.standing > o->standing
			    : s.rule->verdict != o->rule->verdict
				    ? rank(s.rule) > rank(o->rule)
				    : a < b || (a == b &&
						s.rule->pattern->order <= o->rule->pattern->order))
				break;
			said[k] = *o;
		}
		said[k] = s;
	}
}

size_t policy_matching(const struct policy *p, const struct target *t, struct policy_said *out,
		       size_t max)
{
	struct hits h = { .port = t->port, .said = out, .max = max };
	struct policy_match m;

	assert(p->sealed);
	hit_all(p, t, &h);
	verdict(&m, &h, t);
	if (m.rule && m.reason != REASON_PORT) {
		say(&h, m.rule, true); /* a deny rule for the IPv4 inside an address */
		for (size_t i = 0; i < h.nsaid; i++)
			if (out[i].rule == m.rule)
				out[i].standing = SAID_DECIDES;
	}
	say_locked(p, t, &h);
	say_order(out, h.nsaid);
	return h.nsaid;
}

const struct policy_origin *policy_locked(const struct policy *p, const char *keyword)
{
	for (size_t k = 0; k < KEY_COUNT; k++)
		if (p->locks[k] && strcmp(keyword, keyword_name((enum keyword)k)) == 0)
			return &p->locks[k]->origin;
	return NULL;
}

/* The allow or ask rule that names this address and port, whatever its class: allow beats ask. An
 * ask rule holds for the IPv4 inside, too. */
static const struct policy_rule *addr_named(const struct policy *p, const struct addr *a,
					    uint16_t port)
{
	struct hits h = { .port = port }, in = { .port = port };
	struct addr four;

	hit_nets(p, &h, a);
	if (h.allow || h.ask)
		return h.allow ? h.allow : h.ask;
	if (inner4(a, &four))
		hit_nets(p, &in, &four);
	return in.ask;
}

/* May it be dialled, but for what an address rule asks? */
static bool addr_class_ok(const struct target *t, const struct policy_match *m,
			  enum addr_class class, const struct policy_rule *named)
{
	if (class == ADDR_PUBLIC)
		return true;
	if (!t->is_addr && addr_class_is_private(class))
		return m->is_private;
	return named != NULL;
}

enum reason policy_judge_addr(const struct policy *p, const struct target *t,
			      const struct policy_match *m, const struct addr *a, bool own,
			      const struct policy_rule **by)
{
	enum addr_class class = own ? ADDR_LOOPBACK : addr_class_of(a);
	const struct policy_rule *deny = addr_denied(p, a, t->port);

	const struct policy_rule *named;

	if (m->verdict == POLICY_DENY)
		return m->reason;
	if (deny) {
		if (by)
			*by = deny;
		return REASON_DENIED;
	}
	named = addr_named(p, a, t->port);
	if (!addr_class_ok(t, m, class, named))
		return REASON_PRIVATE_ADDRESS;
	if (t->is_addr || !named || named->verdict == POLICY_ALLOW)
		return REASON_NONE; /* a target that is an address was judged by those rules itself */
	if (by)
		*by = named;
	return REASON_ASK;
}

bool policy_needs_candidates(const struct policy *p, const struct policy_match *m)
{
	return m->is_private || p->has_nets;
}
