/* SPDX-License-Identifier: ISC */
/* policy/show.c - the merged policy for people and for programs, each line with where it stands.
 * The text form is itself a policy (but for values that only an option can hold): what does not
 * count is behind "#". */
#include "policy/policy.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "common/escape.h"
#include "common/scope.h"
#include "policy/internal.h"

#define SHOW_MAX 8192 /* bytes of one printed line */
#define ORIGIN_COLUMN 40

static const char *const layer_names[] = {
	[LAYER_BUILTIN] = "builtin", [LAYER_ADMIN] = "administrator", [LAYER_USER] = "user",
	[LAYER_ANSWERS] = "answers", [LAYER_PROJECT] = "project",     [LAYER_FILE] = "file",
	[LAYER_FLAG] = "flag",
};
static_assert(ARRAY_LEN(layer_names) == LAYER_COUNT, "each layer has its name");

const char *policy_layer_name(enum policy_layer layer)
{
	return layer_names[layer];
}

/* ---- which lines count ---- */

enum standing { STANDS, LOCKED, INACTIVE, OVERRIDDEN };

static enum standing line_standing(const struct policy *p, const struct line *l)
{
	if (l->locked_by)
		return LOCKED;
	switch (l->key) {
	case KEY_READ:
	case KEY_WRITE:
	case KEY_HIDE:
	case KEY_SOCKET:
	case KEY_DEVICE:
		return l->u.grant.inactive ? INACTIVE : STANDS;
	case KEY_INCLUDE:
		return l->origin.layer == LAYER_BUILTIN && !l->from && p->no_default ? OVERRIDDEN
										     : STANDS;
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
		return p->set[l->u.set.what] == l ? STANDS : OVERRIDDEN;
	case KEY_ALLOW:
	case KEY_DENY:
	case KEY_ASK:
	case KEY_ENV:
	case KEY_DOTFILE:
	case KEY_PUBLISH:
	case KEY_REACH:
	case KEY_LOCK:
	case KEY_COUNT:
		break;
	}
	return STANDS;
}

/* Does the line, which stands, open more than public hosts? */
static bool line_is_hole(const struct line *l)
{
	switch (l->key) {
	case KEY_ALLOW:
	case KEY_ASK:
		return l->u.rule.is_private;
	case KEY_READ:
	case KEY_WRITE:
	case KEY_SOCKET:
	case KEY_DEVICE:
	case KEY_PUBLISH:
	case KEY_REACH:
		return true;
	case KEY_NETWORK:
		return l->u.set.number == NETWORK_ALLOW;
	case KEY_ON_UNAVAILABLE:
		return l->u.set.number != UNAVAILABLE_ERROR;
	case KEY_VIEW:
		return l->u.set.number == VIEW_HOST;
	case KEY_NESTED:
		return l->u.set.number;
	case KEY_DENY:
	case KEY_ASK_TIMEOUT:
	case KEY_INCLUDE:
	case KEY_HIDE:
	case KEY_DOTFILE:
	case KEY_ENV:
	case KEY_LIMIT:
	case KEY_AUDIT:
	case KEY_ROUTE:
	case KEY_HOME:
	case KEY_CACHE:
	case KEY_UPSTREAM:
	case KEY_LOCK:
	case KEY_COUNT:
		break;
	}
	return false;
}

void policy_holes(const struct policy *p,
		  void (*tell)(void *arg, const struct policy_origin *origin), void *arg)
{
	for (size_t k = 0; k < LAYER_COUNT; k++)
		for (const struct line *l = p->lines[k].first; l; l = l->next) {
			const struct line *in = l->key == KEY_LOCK ? l->u.lock.value : l;

			if (in && line_standing(p, in) == STANDS && line_is_hole(in))
				tell(arg, &in->origin);
		}
}

/* ---- text ---- */

static void note_text(const struct policy *p, const struct line *l, char *buf, size_t room)
{
	const struct policy_origin *by = NULL;
	const char *word = "";
	char where[1100];

	*buf = '\0';
	switch (line_standing(p, l)) {
	case STANDS:
		if (!l->repeats && !l->dead_by)
			return;
		word = l->repeats ? "says no more than " : "never applies: denied by ";
		by = l->repeats ? &l->repeats->origin : &l->dead_by->origin;
		break;
	case LOCKED:
		word = "locked by ";
		by = &l->locked_by->origin;
		break;
	case INACTIVE:
		(void)snprintf(buf, room, ", inactive: %s",
			       l->u.grant.path[0] != '$' ? "no such path"
							 : "its variable is not set");
		return;
	case OVERRIDDEN:
		word = "overridden by ";
		by = l->key == KEY_INCLUDE ? &p->no_default->origin
					   : &p->set[l->u.set.what]->origin;
		break;
	}
	(void)policy_origin_where(by, where, sizeof(where));
	(void)snprintf(buf, room, ", %s%s", word, where);
}

/* An include stands as the lines it brought, a lock as what it struck; "include none" is neither. */
static bool is_said_again(const struct line *l)
{
	if (l->key == KEY_INCLUDE)
		return str_eq(l->u.preset->name, "none");
	return l->key != KEY_LOCK;
}

static void show_line(const struct policy *p, const struct line *l, FILE *out)
{
	char text[SHOW_MAX], where[1100], why[1200];
	bool stands = line_standing(p, l) == STANDS && is_said_again(l);

	(void)escape_line(text, sizeof(text), l->origin.text, strlen(l->origin.text));
	(void)policy_origin_where(&l->origin, where, sizeof(where));
	note_text(p, l, why, sizeof(why));
	(void)fprintf(out, "%s%-*s # %s%s\n", stands ? "" : "# ",
		      stands ? ORIGIN_COLUMN : ORIGIN_COLUMN - 2, text, where, why);
}

static void show_default(const struct policy *p, enum setting s, const char *line, FILE *out)
{
	if (!p->set[s])
		(void)fprintf(out, "%-*s # default\n", ORIGIN_COLUMN, line);
}

void policy_show(const struct policy *p, FILE *out)
{
	show_default(p, SET_NETWORK, "network allowlist", out);
	show_default(p, SET_ROUTE, "route both", out);
	show_default(p, SET_VIEW, "view project", out);
	show_default(p, SET_HOME, "home private", out);
	show_default(p, SET_NESTED, "nested no", out);
	show_default(p, SET_CACHE, "cache keep", out);
	show_default(p, SET_ON_UNAVAILABLE, "on-unavailable error", out);
	show_default(p, SET_CONNECTIONS, "limit connections 4096", out);
	show_default(p, SET_IDLE, "limit idle 0", out);
	show_default(p, SET_ASK_TIMEOUT, "ask-timeout 60", out);
	show_default(p, SET_PIDS, "limit pids 0", out);
	show_default(p, SET_MEMORY, "limit memory 0", out);
	show_default(p, SET_CPU, "limit cpu 0", out);
	show_default(p, SET_AUDIT_REQUIRED, "audit optional", out);
	show_default(p, SET_AUDIT_CLIENT, "audit noclient", out);
	for (size_t k = 0; k < LAYER_COUNT; k++)
		for (const struct line *l = p->lines[k].first; l; l = l->next) {
			show_line(p, l, out);
			if (l->key == KEY_LOCK && l->u.lock.value)
				show_line(p, l->u.lock.value, out);
		}
}

/* ---- JSON ---- */

/* JSON is UTF-8; a path need not be. */
static json_t *json_text(const char *s)
{
	char text[SHOW_MAX];
	json_t *j;

	if (!s)
		return json_null();
	j = json_string(s);
	if (j)
		return j;
	(void)escape_line(text, sizeof(text), s, strlen(s));
	return json_string(text);
}

static json_t *json_ports(const struct policy_pattern *t)
{
	json_t *list;

	if (t->all_ports)
		return json_string("*");
	list = json_array();
	for (size_t i = 0; i < t->nports; i++)
		if (json_array_append_new(list, json_pack("[i,i]", t->ports[i].low,
							  t->ports[i].high)) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static int json_detail(json_t *o, const struct line *l)
{
	char name[PATTERN_TEXT_MAX];
	int r = 0;

	if (l->key == KEY_ALLOW || l->key == KEY_DENY || l->key == KEY_ASK) {
		r |= json_object_set_new(o, "target",
					 json_text(pattern_format(l->u.rule.pattern, name)));
		r |= json_object_set_new(o, "ports", json_ports(l->u.rule.pattern));
		r |= json_object_set_new(o, "private", json_boolean(l->u.rule.is_private));
		r |= json_object_set_new(o, "no_sni", json_boolean(l->u.rule.no_sni));
	} else if (l->key == KEY_READ || l->key == KEY_WRITE || l->key == KEY_HIDE ||
		   l->key == KEY_SOCKET || l->key == KEY_DEVICE || l->key == KEY_DOTFILE) {
		r |= json_object_set_new(o, "path", json_text(l->u.grant.path));
	} else if (l->key == KEY_PUBLISH || l->key == KEY_REACH) {
		r |= json_object_set_new(o, "port", json_integer(l->u.forward.port));
		r |= json_object_set_new(o, "to", json_integer(l->u.forward.to));
	}
	return r;
}

static json_t *json_line(const struct policy *p, const struct line *l)
{
	static const char *const standings[] = { [STANDS] = "in force",
						 [LOCKED] = "locked",
						 [INACTIVE] = "inactive",
						 [OVERRIDDEN] = "overridden" };
	json_t *o = json_object();
	enum standing s = line_standing(p, l);
	int r = 0;

	r |= json_object_set_new(o, "keyword", json_string(keyword_name(l->key)));
	r |= json_object_set_new(o, "text", json_text(l->origin.text));
	r |= json_object_set_new(o, "layer", json_string(layer_names[l->origin.layer]));
	r |= json_object_set_new(o, "file", json_text(l->origin.file));
	r |= json_object_set_new(o, "line", json_integer(l->origin.line));
	r |= json_object_set_new(o, "state", json_string(standings[s]));
	if (s == LOCKED) {
		r |= json_object_set_new(o, "locked_by", json_text(l->locked_by->origin.file));
		r |= json_object_set_new(o, "locked_by_line",
					 json_integer(l->locked_by->origin.line));
	}
	if (l->repeats || l->dead_by) {
		const struct line *by = l->repeats ? l->repeats : l->dead_by;

		r |= json_object_set_new(o, l->repeats ? "repeats" : "denied_by",
					 json_text(by->origin.file));
		r |= json_object_set_new(o, l->repeats ? "repeats_line" : "denied_by_line",
					 json_integer(by->origin.line));
	}
	r |= json_detail(o, l);
	if (r == 0)
		return o;
	json_decref(o);
	return NULL;
}

static json_t *json_upstream(const struct policy_upstream *up)
{
	return up ? json_pack("{s:s, s:i, s:b}", "host", up->host, "port", (int)up->port,
			      "credentials", up->auth != NULL)
		  : json_null();
}

static json_t *json_settings(const struct policy *p)
{
	static const char *const networks[] = { "deny", "allowlist", "allow" };
	static const char *const unavailable[] = { "error", "warn", "allow" };
	static const char *const views[] = { "project", "host" };
	static const char *const homes[] = { "private", "keep" };
	static const char *const caches[] = { "keep", "off" };
	json_t *o = json_object();
	static const char *const sinks[] = { [AUDIT_FILE] = "file",
					     [AUDIT_SYSLOG] = "syslog",
					     [AUDIT_JOURNAL] = "journal",
					     [AUDIT_OFF] = "off" };
	int r = 0;

	r |= json_object_set_new(o, "network", json_string(networks[policy_network(p)]));
	r |= json_object_set_new(o, "route", json_string(policy_route_name(policy_route(p))));
	r |= json_object_set_new(o, "nested", json_boolean(policy_nested(p) != NULL));
	r |= json_object_set_new(o, "view", json_string(views[policy_view(p)]));
	r |= json_object_set_new(o, "home", json_string(homes[policy_home(p)]));
	r |= json_object_set_new(o, "cache", json_string(caches[policy_cache(p)]));
	r |= json_object_set_new(o, "on-unavailable",
				 json_string(unavailable[policy_unavailable(p)]));
	r |= json_object_set_new(o, "connections", json_integer(policy_connections(p)));
	r |= json_object_set_new(o, "idle", json_integer(policy_idle_s(p)));
	r |= json_object_set_new(o, "ask_timeout", json_integer(policy_ask_timeout_s(p)));
	r |= json_object_set_new(o, "pids", json_integer(policy_pids(p)));
	r |= json_object_set_new(o, "memory_mib", json_integer(policy_memory_mib(p)));
	r |= json_object_set_new(o, "cpu_percent", json_integer(policy_cpu_percent(p)));
	r |= json_object_set_new(o, "audit", json_string(sinks[policy_audit_sink(p)]));
	r |= json_object_set_new(o, "audit_file", json_text(policy_audit_file(p)));
	r |= json_object_set_new(o, "audit_required", json_boolean(policy_audit_required(p)));
	r |= json_object_set_new(o, "audit_client", json_boolean(policy_audit_client(p)));
	r |= json_object_set_new(o, "upstream", json_upstream(policy_upstream(p)));
	if (r == 0)
		return o;
	json_decref(o);
	return NULL;
}

static int json_lines(const struct policy *p, json_t *list)
{
	for (size_t k = 0; k < LAYER_COUNT; k++)
		for (const struct line *l = p->lines[k].first; l; l = l->next)
			if (json_array_append_new(list, json_line(p, l)) < 0)
				return -ENOMEM;
	return 0;
}

static json_t *json_fixed(const struct policy_fixed *f)
{
	json_t *list = json_array();

	for (; f && f->list; f++)
		(void)json_array_append_new(list,
					    json_pack("{s:s, s:o, s:s}", "list", f->list, "path",
						      json_text(f->path), "what", f->what));
	return list;
}

int policy_show_json(const struct policy *p, const struct policy_fixed *fixed, FILE *out)
{
	json_t *o = json_object(), *list = json_array();
	int r = json_lines(p, list);

	if (json_object_set_new(o, "settings", json_settings(p)) < 0)
		r = -ENOMEM;
	if (json_object_set_new(o, "lines", list) < 0)
		r = -ENOMEM;
	if (json_object_set_new(o, "fixed", json_fixed(fixed)) < 0)
		r = -ENOMEM;
	if (r == 0 && json_dumpf(o, out, JSON_INDENT(2)) < 0)
		r = -ENOMEM;
	if (r == 0)
		(void)fputc('\n', out);
	json_decref(o);
	return r;
}
