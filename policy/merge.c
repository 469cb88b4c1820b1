/* SPDX-License-Identifier: ISC */
/* policy/merge.c - the layers become one policy: locks, includes, settings, rules, index.
 * Reads parsed lines only. The later layer wins a setting; rules, grants and environment lines add
 * up; what the administrator locks, later layers cannot say. */
#include "policy/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/scope.h"

#define PRESETS_MAX 32

struct merge {
	struct policy *p;
	void (*warn)(void *arg, const char *text);
	void *arg;
	struct err *e;
	bool included[PRESETS_MAX];
	const struct line *admin_required; /* the administrator's "audit required" */
	struct {
		size_t n;
		const struct line *first;
	} struck[KEY_COUNT];
	uint32_t order;
};

static const char builtin_text[] = "include default\n";

/* ---- locks ---- */

static void locks_find(struct policy *p)
{
	for (const struct line *l = p->lines[LAYER_ADMIN].first; l; l = l->next)
		if (l->key == KEY_LOCK && !p->locks[l->u.lock.key])
			p->locks[l->u.lock.key] = l;
}

/* Return: 1 when the line is struck, 0 when it stands, -EINVAL for a flag that is locked */
static int line_lock(struct merge *m, struct line *l)
{
	const struct line *lock = m->p->locks[l->key];

	if (!lock || l->origin.layer <= LAYER_ADMIN)
		return 0;
	if (l->origin.layer == LAYER_FLAG && !m->p->live) {
		(void)err_set(m->e, 0, "%s: '%s' is locked by %s:%u", l->origin.file,
			      keyword_name(l->key), lock->origin.file, lock->origin.line);
		return err_fix(m->e, "leave the option out, or ask the administrator");
	}
	l->locked_by = lock;
	if (m->struck[l->key].n++ == 0)
		m->struck[l->key].first = l;
	return 1;
}

static void locks_tell(const struct merge *m)
{
	char text[512];

	for (size_t k = 0; k < KEY_COUNT && m->warn; k++) {
		const struct line *first = m->struck[k].first, *lock = m->p->locks[k];
		size_t n = m->struck[k].n;

		if (n == 0)
			continue;
		(void)snprintf(text, sizeof(text),
			       "%s:%u: '%s' is locked by %s:%u: %zu line%s ignored",
			       first->origin.file, first->origin.line,
			       keyword_name((enum keyword)k), lock->origin.file, lock->origin.line,
			       n, n == 1 ? " is" : "s are");
		m->warn(m->arg, text);
	}
}

/* ---- includes ---- */

static void default_find(struct policy *p)
{
	for (size_t k = 0; k < LAYER_COUNT; k++)
		for (const struct line *l = p->lines[k].first; l; l = l->next)
			if (l->key == KEY_INCLUDE && str_eq(l->u.preset->name, "none") &&
			    !(p->locks[KEY_INCLUDE] && k > LAYER_ADMIN))
				p->no_default = l;
}

/* A preset's lines stand right behind the line that includes them, once. */
static int include_expand(struct merge *m, enum policy_layer layer, struct line *l)
{
	size_t i = (size_t)(l->u.preset - policy_presets());
	struct line_list sub = { .first = NULL, .last = &sub.first };
	struct place at = { .layer = layer, .preset = l->u.preset };
	char name[64];
	int r;

	if (i >= PRESETS_MAX)
		return err_set(m->e, 0, "preset %s: more than %u presets", l->u.preset->name,
			       PRESETS_MAX);
	if (m->included[i])
		return 0;
	m->included[i] = true;
	(void)snprintf(name, sizeof(name), "preset %s", l->u.preset->name);
	at.file = at.shared_file = arena_str(&m->p->arena, name, strlen(name));
	if (!at.file)
		return err_set(m->e, ENOMEM, "%s", name);
	r = parse_text(m->p, &at, l->u.preset->text, strlen(l->u.preset->text), &sub, m->e);
	if (r < 0 || !sub.first)
		return r;
	*sub.last = l->next;
	if (!l->next)
		m->p->lines[layer].last = sub.last;
	l->next = sub.first;
	return 0;
}

/* ---- lines ---- */

static void rule_add(struct merge *m, struct policy_rule *r)
{
	r->pattern->order = m->order++;
	r->next = NULL;
	*m->p->rules_end = r;
	m->p->rules_end = &r->next;
	if (r->pattern->kind == PATTERN_NET)
		m->p->has_nets = true;
}

/* Return: 1 when the line is struck (only live: what runs cannot be refused any more), 0 when it
 * stands, -EINVAL */
static int audit_check(const struct merge *m, struct line *l)
{
	const struct line *by = m->admin_required;
	bool weaker = (l->u.set.what == SET_AUDIT_SINK && l->u.set.number == AUDIT_OFF) ||
		      (l->u.set.what == SET_AUDIT_REQUIRED && !l->u.set.number);
	struct place at = { .file = l->origin.file, .line = l->origin.line };

	if (!by || !weaker)
		return 0;
	if (m->p->live) {
		l->locked_by = by;
		return 1;
	}
	return place_error(&at, l->column, m->e, "'%s': %s:%u says 'audit required'", l->u.set.word,
			   by->origin.file, by->origin.line);
}

static int setting_add(struct merge *m, struct line *l)
{
	int r = audit_check(m, l);

	if (r != 0)
		return r < 0 ? r : 0;
	m->p->set[l->u.set.what] = l;
	if (l->u.set.what == SET_AUDIT_REQUIRED && l->u.set.number &&
	    l->origin.layer == LAYER_ADMIN)
		m->admin_required = l;
	return 0;
}

static int line_add(struct merge *m, struct line *l)
{
	switch (l->key) {
	case KEY_ALLOW:
	case KEY_DENY:
	case KEY_ASK:
		rule_add(m, &l->u.rule);
		return 0;
	case KEY_READ:
	case KEY_WRITE:
	case KEY_HIDE:
	case KEY_SOCKET:
	case KEY_DEVICE:
		*m->p->grants_end = &l->u.grant;
		m->p->grants_end = &l->u.grant.next;
		return 0;
	case KEY_DOTFILE:
		*m->p->dotfiles_end = &l->u.grant;
		m->p->dotfiles_end = &l->u.grant.next;
		return 0;
	case KEY_ENV:
		*m->p->envs_end = &l->u.env;
		m->p->envs_end = &l->u.env.next;
		return 0;
	case KEY_PUBLISH:
	case KEY_REACH:
		*m->p->forwards_end = &l->u.forward;
		m->p->forwards_end = &l->u.forward.next;
		return 0;
	case KEY_INCLUDE:
		if (l->origin.layer == LAYER_BUILTIN && !l->from && m->p->no_default)
			return 0;
		return include_expand(m, l->origin.layer, l);
	case KEY_NETWORK:
	case KEY_LIMIT:
	case KEY_ASK_TIMEOUT:
	case KEY_AUDIT:
	case KEY_ON_UNAVAILABLE:
	case KEY_ROUTE:
	case KEY_VIEW:
	case KEY_HOME:
	case KEY_NESTED:
	case KEY_CACHE:
	case KEY_UPSTREAM:
		return setting_add(m, l);
	case KEY_LOCK: /* its value: lock_values() */
	case KEY_COUNT:
		return 0;
	}
	return 0;
}

/* "lock network deny" stands above every other line of the administrator's own file. */
static int lock_values(struct merge *m)
{
	for (const struct line *l = m->p->lines[LAYER_ADMIN].first; l; l = l->next) {
		int r = l->key == KEY_LOCK && l->u.lock.value ? setting_add(m, l->u.lock.value) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static int layer_add(struct merge *m, enum policy_layer layer)
{
	for (struct line *l = m->p->lines[layer].first; l; l = l->next) {
		int r = line_lock(m, l);

		if (r == 0)
			r = line_add(m, l);
		if (r < 0)
			return r;
	}
	return layer == LAYER_ADMIN ? lock_values(m) : 0;
}

/* The two lines may stand in different layers, so this is known only at the end. */
static int audit_contradiction(const struct merge *m)
{
	const struct line *off = m->p->set[SET_AUDIT_SINK], *req = m->p->set[SET_AUDIT_REQUIRED];
	struct place at;

	if (!off || off->u.set.number != AUDIT_OFF || !req || !req->u.set.number)
		return 0;
	at = (struct place){ .file = off->origin.file, .line = off->origin.line };
	if (req->origin.line == 0)
		return place_error(&at, off->column, m->e,
				   "'off' contradicts 'audit required' (%s)", req->origin.file);
	return place_error(&at, off->column, m->e, "'off' contradicts 'audit required' (%s:%u)",
			   req->origin.file, req->origin.line);
}

/* ---- index ---- */

uint32_t net_hash(const struct addr_net *n)
{
	uint32_t h = NAME_HASH_START ^ (n->base.family * 16777619u) ^ n->prefix;

	for (size_t i = 0; i < sizeof(n->base.b); i++)
		h = name_hash_step(h, (char)n->base.b[i]);
	return h;
}

static uint32_t name_hash(const char *name, size_t len)
{
	uint32_t h = NAME_HASH_START;

	while (len > 0)
		h = name_hash_step(h, name[--len]);
	return h;
}

static void index_add(struct policy *p, struct policy_rule *r)
{
	struct policy_pattern *t = r->pattern;
	struct policy_rule **slot;

	if (t->kind == PATTERN_ANY) {
		slot = &p->any;
	} else if (t->kind == PATTERN_NET) {
		uint64_t *bits = t->net.base.family == 4 ? p->prefixes4 : p->prefixes6;

		bits[t->net.prefix / 64] |= 1ull << (t->net.prefix % 64);
		t->hash = net_hash(&t->net);
		slot = &p->index[t->hash & p->index_mask];
	} else {
		t->hash = name_hash(t->name, t->name_len);
		slot = &p->index[t->hash & p->index_mask];
	}
	t->same = *slot;
	*slot = r;
}

static int index_build(struct merge *m)
{
	struct policy *p = m->p;
	size_t slots = 16;

	while (slots < 2 * (size_t)m->order)
		slots *= 2;
	p->index = arena_get(&p->arena, slots * sizeof(void *));
	if (!p->index)
		return err_set(m->e, ENOMEM, "policy");
	p->index_mask = (uint32_t)(slots - 1);
	for (struct policy_rule *r = p->rules; r; r = r->next)
		index_add(p, r);
	return 0;
}

int policy_seal(struct policy *p, void (*warn)(void *arg, const char *text), void *arg,
		struct err *e)
{
	struct merge m = { .p = p, .warn = warn, .arg = arg, .e = e };
	int r = policy_add_text(p, LAYER_BUILTIN, "builtin", builtin_text, sizeof(builtin_text) - 1,
				e);

	if (r < 0)
		return r;
	locks_find(p);
	default_find(p);
	for (size_t k = 0; k < LAYER_COUNT; k++) {
		r = layer_add(&m, (enum policy_layer)k);
		if (r < 0)
			return r;
	}
	r = audit_contradiction(&m);
	if (r == 0)
		r = index_build(&m);
	if (r < 0)
		return r;
	p->sealed = true;
	locks_tell(&m);
	return 0;
}
