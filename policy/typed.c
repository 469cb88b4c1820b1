/* SPDX-License-Identifier: ISC */
/* policy/typed.c - a place as a person types or pastes it: HOST, HOST:PORT, a URL.
 * Only the command line comes here; nothing from the wire does. */
#include "policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/scope.h"
#include "policy/internal.h"
#include "policy/target.h"

static const struct {
	const char *scheme;
	uint16_t port;
	bool web; /* the default ports of an allow line are its own */
} schemes[] = {
	/* Source: IANA service name and port number registry */
	{ "https", 443, true },	     { "http", 80, true },	    { "wss", 443, true },
	{ "ws", 80, true },	     { "git+https", 443, true },    { "ssh", 22, false },
	{ "sftp", 22, false },	     { "git+ssh", 22, false },	    { "git", 9418, false },
	{ "ftp", 21, false },	     { "ftps", 990, false },	    { "rsync", 873, false },
	{ "postgres", 5432, false }, { "postgresql", 5432, false }, { "mysql", 3306, false },
	{ "redis", 6379, false },    { "ldap", 389, false },	    { "ldaps", 636, false },
	{ "imaps", 993, false },     { "smtp", 25, false },
};

/* struct url - the parts of SCHEME://[USER@]HOST[:PORT][/…] [WORDS], all inside one string */
struct url {
	const char *host, *words;
	size_t host_len; /* with the port, if any */
	bool has_port, web;
	uint16_t port; /* the scheme's */
};

static int scheme_find(const char *arg, size_t len, struct url *u)
{
	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		if (strlen(schemes[i].scheme) != len ||
		    strncasecmp(schemes[i].scheme, arg, len) != 0)
			continue;
		u->port = schemes[i].port;
		u->web = schemes[i].web;
		return 0;
	}
	return -ENOENT;
}

/* Return: 1 a URL, 0 none, -EINVAL */
static int url_cut(const char *arg, struct url *u, struct err *e)
{
	const char *colon = strstr(arg, "://"), *end, *at = NULL;
	int known;

	*u = (struct url){ .port = 443, .web = true };
	if (!colon || colon == arg || strcspn(arg, " [/") < (size_t)(colon - arg))
		return 0;
	known = scheme_find(arg, (size_t)(colon - arg), u);
	u->host = colon + 3;
	end = u->host + strcspn(u->host, "/?# ");
	for (const char *c = u->host; c < end; c++)
		if (*c == '@')
			at = c;
	if (at)
		u->host = at + 1;
	u->host_len = (size_t)(end - u->host);
	u->words = strchr(end, ' ') ? strchr(end, ' ') : "";
	for (const char *c = end; c > u->host && *(c - 1) != ']'; c--)
		if (*(c - 1) == ':')
			u->has_port = true;
	if (u->host_len == 0)
		return err_set(e, 0, "'%s' is a URL without a host", arg);
	if (known < 0 && !u->has_port) {
		(void)err_set(e, 0, "'%s': the usual port of '%.*s' is not known", arg,
			      (int)(colon - arg), arg);
		return err_fix(e, "write the host and its port: %.*s:PORT", (int)u->host_len,
			       u->host);
	}
	return 1;
}

int policy_target_words(const char *arg, char out[POLICY_WORDS_TEXT_MAX], struct err *e)
{
	const char *colon = strchr(arg, ':'), *at = strchr(arg, '@');
	struct url u;
	int n, r = url_cut(arg, &u, e);

	if (r < 0)
		return r;
	if (r == 0 && at && colon && at < colon &&
	    (colon[1] < '0' || colon[1] > '9')) { /* git@HOST:PATH */
		(void)err_set(e, 0, "'%s' is an ssh address: expected a host", arg);
		return err_fix(e, "write the host and its port: %.*s:22", (int)(colon - at - 1),
			       at + 1);
	}
	if (r == 0)
		n = snprintf(out, POLICY_WORDS_TEXT_MAX, "%s", arg);
	else if (u.has_port || u.web)
		n = snprintf(out, POLICY_WORDS_TEXT_MAX, "%.*s%s", (int)u.host_len, u.host,
			     u.words);
	else
		n = snprintf(out, POLICY_WORDS_TEXT_MAX, "%.*s:%u%s", (int)u.host_len, u.host,
			     u.port, u.words);
	if (n < 0 || n >= POLICY_WORDS_TEXT_MAX)
		return err_set(e, 0, "'%.60s…' is longer than %u bytes", arg,
			       POLICY_WORDS_TEXT_MAX - 1);
	return 0;
}

static int one_place(const struct policy_pattern *p, uint16_t otherwise, const char *arg,
		     struct target *t, struct err *e)
{
	bool six = p->kind == PATTERN_NET && p->net.base.family == 6;
	bool host = p->kind == PATTERN_EXACT ||
		    (p->kind == PATTERN_NET && p->net.prefix == (six ? 128 : 32));
	char ports[PORTS_TEXT_MAX], addr[ADDR_TEXT_MAX];

	if (!host)
		return err_set(e, 0, "'%s' is more than one host: expected HOST or HOST:PORT", arg);
	if (*pattern_ports_format(p, POLICY_ALLOW, ports) == '\0')
		t->port = otherwise;
	else if (!p->all_ports && p->nports == 1 && p->ports[0].low == p->ports[0].high)
		t->port = p->ports[0].low;
	else
		return err_set(e, 0, "'%s' names more than one port: expected HOST:PORT", arg);
	return target_parse(t, p->kind == PATTERN_NET ? addr_format(&p->net.base, addr) : p->name,
			    t->port) < 0
		       ? err_set(e, 0, "'%s' is not a host", arg)
		       : 0;
}

int policy_target_parse(const char *arg, struct target *t, struct err *e)
{
	const struct place at = { .file = "target", .layer = LAYER_FLAG };
	char words[POLICY_WORDS_TEXT_MAX];
	struct policy_pattern *p;
	struct word w = { .s = words };
	struct target found = { .port = 0 };
	struct arena arena = { .top = NULL };
	struct addr bare;
	struct url u;
	int r = url_cut(arg, &u, e);

	if (r >= 0)
		r = policy_target_words(arg, words, e);
	if (r < 0)
		return r;
	if (addr_parse(&bare, words) == 0) /* ::1 without brackets is plain enough here */
		return target_parse(t, words, 443);
	w.len = strlen(words);
	r = pattern_parse(&arena, &at, &w, POLICY_ALLOW, false, &p, e);
	if (r == 0)
		r = one_place(p, u.port, arg, &found, e);
	arena_free(&arena);
	if (r == 0)
		*t = found;
	return r;
}
