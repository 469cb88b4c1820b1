/* SPDX-License-Identifier: ISC */
/* policy/upstream.c - the upstream line: which proxy the allowed connections go through, with which
 * credentials, and which targets go there directly. Believes nothing about the text; an URL with
 * credentials is never quoted in a message and never shown again. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/err.h"
#include "common/num.h"
#include "common/scope.h"
#include "policy/internal.h"
#include "policy/target.h"

#define USER_MAX 255 /* bytes of the user name, and of the password */
#define SCHEME "http://"

struct url {
	const char *host, *port, *user, *pass; /* user and pass are still percent-encoded */
	size_t nhost, nport, nuser, npass;
	bool is_v6, is_auth;
};

/* [USER:PASSWORD@]HOST[:PORT][/]. Return: false when it is none */
static bool url_cut(struct url *u, const char *s)
{
	size_t n = strcspn(s, "/");
	const char *at = memrchr(s, '@', n), *colon;

	*u = (struct url){ .user = s };
	if (s[n] == '/' && s[n + 1] != '\0')
		return false;
	if (at) {
		u->is_auth = true;
		colon = memchr(s, ':', (size_t)(at - s));
		u->nuser = (size_t)((colon ? colon : at) - s);
		u->pass = colon ? colon + 1 : at;
		u->npass = (size_t)(at - u->pass);
		n -= (size_t)(at + 1 - s);
		s = at + 1;
	}
	u->is_v6 = *s == '[';
	colon = u->is_v6 ? memchr(s, ']', n) : memchr(s, ':', n);
	if (u->is_v6) {
		if (!colon)
			return false;
		u->host = s + 1;
		u->nhost = (size_t)(colon - u->host);
		colon++;
		if (colon < s + n && *colon != ':')
			return false;
		if (colon == s + n)
			colon = NULL;
	} else {
		u->host = s;
		u->nhost = colon ? (size_t)(colon - s) : n;
	}
	u->port = colon ? colon + 1 : NULL;
	u->nport = colon ? (size_t)(s + n - u->port) : 0;
	return u->nhost > 0 && u->nhost <= HOST_MAX;
}

static int hex(char c)
{
	const char *digits = "0123456789abcdef", *at = strchr(digits, c | 0x20);

	return c && at ? (int)(at - digits) : -1;
}

/* Percent-decoding, RFC 3986 section 2.1. Return: bytes, or -EINVAL */
static int decode(const char *s, size_t n, char *out, size_t room)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (c == '%') {
			int high = i + 2 < n ? hex(s[i + 1]) : -1;
			int low = i + 2 < n ? hex(s[i + 2]) : -1;

			if (high < 0 || low < 0)
				return -EINVAL;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if ((unsigned char)c < ' ' || c == 0x7f || k >= room)
			return -EINVAL;
		out[k++] = c;
	}
	return (int)k;
}

/* "USER:PASSWORD" in base64, RFC 7617; a colon in the user name would end it. */
static char *auth_text(struct arena *a, const struct url *u)
{
	char plain[2 * USER_MAX + 2], text[MSG_AUTH_MAX + 1];
	int user = decode(u->user, u->nuser, plain, USER_MAX), pass;

	if (user < 0 || memchr(plain, ':', (size_t)user))
		return NULL;
	plain[user] = ':';
	pass = decode(u->pass, u->npass, plain + user + 1, USER_MAX);
	if (pass < 0)
		return NULL;
	(void)sodium_bin2base64(text, sizeof(text), (const unsigned char *)plain,
				(size_t)user + 1 + (size_t)pass, sodium_base64_VARIANT_ORIGINAL);
	sodium_memzero(plain, sizeof(plain));
	return arena_str(a, text, strlen(text));
}

/* Return: 0, or -EINVAL without a message: the caller says it, and quotes nothing */
static int url_parse(struct arena *a, const char *s, bool is_env, struct policy_upstream *up)
{
	char host[HOST_MAX + 1], digits[8] = "80";
	struct target t;
	struct url u;
	uint64_t port;

	if (strncasecmp(s, SCHEME, strlen(SCHEME)) == 0)
		s += strlen(SCHEME);
	else if (!is_env || strstr(s, "://"))
		return -EINVAL;
	if (!url_cut(&u, s) || u.nport >= sizeof(digits))
		return -EINVAL;
	memcpy(host, u.host, u.nhost);
	host[u.nhost] = '\0';
	if (u.port) {
		memcpy(digits, u.port, u.nport);
		digits[u.nport] = '\0';
	}
	if (num_u64(digits, 1, 65535, &port) < 0 ||
	    target_parse_wire(&t, host, (uint16_t)port, u.is_v6) < 0)
		return -EINVAL;
	up->port = t.port;
	up->is_addr = t.is_addr;
	up->addr = t.addr;
	up->host = arena_str(a, t.host, strlen(t.host));
	up->auth = u.is_auth ? auth_text(a, &u) : NULL;
	return up->host && (up->auth || !u.is_auth) ? 0 : -EINVAL;
}

/* ---- exceptions ---- */

static int except_add(struct policy *p, const struct place *at, const struct word *w,
		      struct policy_upstream *up, struct err *e)
{
	struct policy_except *x = arena_get(&p->arena, sizeof(*x));
	int r;

	if (!x)
		return -ENOMEM;
	/* as a deny target: as wide as it likes, every port unless it names some */
	r = pattern_parse(&p->arena, at, w, POLICY_DENY, true, &x->pattern, e);
	if (r < 0)
		return r;
	x->next = up->except;
	up->except = x;
	return 0;
}

/* NO_PROXY as curl(1) reads it: a name covers what is below it; what is no target is passed over,
 * as every reader of that variable does. */
static void except_env(struct policy *p, const struct place *at, const char *list,
		       struct policy_upstream *up)
{
	char text[HOST_MAX + 16];
	struct err ignored;

	while (*list) {
		size_t n = strcspn(list, ", ");
		struct addr_net net;
		bool dot = list[0] == '.' || list[0] == '*';

		if (n > 0 && n + 2 < sizeof(text)) {
			(void)snprintf(text, sizeof(text), "%.*s", (int)n, list);
			if (!dot && addr_net_parse(&net, text) < 0)
				(void)snprintf(text, sizeof(text), ".%.*s", (int)n, list);
			(void)except_add(p, at, &(struct word){ .s = text, .len = strlen(text) },
					 up, &ignored);
		}
		list += n;
		list += strspn(list, ", ");
	}
}

static const char *env_first(const struct policy_context *c, const char *const *names)
{
	for (; *names; names++) {
		for (char *const *v = c->environ; v && *v; v++) {
			size_t n = strlen(*names);

			if (strncmp(*v, *names, n) == 0 && (*v)[n] == '=' && (*v)[n + 1])
				return *v + n + 1;
		}
	}
	return NULL;
}

static int from_env(struct policy *p, const struct place *at, unsigned column,
		    struct policy_upstream *up, struct err *e)
{
	static const char *const urls[] = { "https_proxy", "HTTPS_PROXY", "http_proxy",
					    "HTTP_PROXY",  "all_proxy",	  "ALL_PROXY",
					    NULL };
	static const char *const lists[] = { "no_proxy", "NO_PROXY", NULL };
	const char *url = env_first(&p->ctx, urls), *list = env_first(&p->ctx, lists);

	if (!url)
		return 0; /* none is set: none is meant */
	if (url_parse(&p->arena, url, true, up) < 0) {
		(void)place_error(
			at, column, e,
			"'upstream env': the proxy variables do not name an http:// proxy");
		return err_fix(e, "set https_proxy to http://HOST:PORT, or write: upstream none");
	}
	if (list)
		except_env(p, at, list, up);
	return 0;
}

int upstream_parse(struct policy *p, const struct place *at, const struct word *w, size_t n,
		   struct policy_upstream **out, struct err *e)
{
	static const char expected[] = "expected http://[USER:PASSWORD@]HOST[:PORT], env or none";
	struct policy_upstream *up = arena_get(&p->arena, sizeof(*up));
	int r = 0;

	if (!up)
		return -ENOMEM;
	if (n < 2)
		return place_error(at, w[0].column, e, "'upstream' ends too early: %s", expected);
	if (str_eq(w[1].s, "env"))
		r = from_env(p, at, w[1].column, up, e);
	else if (!str_eq(w[1].s, "none") && url_parse(&p->arena, w[1].s, false, up) < 0)
		r = place_error(at, w[1].column, e, "'upstream': %s", expected);
	if (r < 0)
		return r;
	if (n > 2 && (!str_eq(w[2].s, "except") || n == 3 || str_eq(w[1].s, "none")))
		return place_error(at, w[2].column, e,
				   "'%s': expected except TARGET… or the end of the line", w[2].s);
	for (size_t i = 3; i < n && r == 0; i++)
		r = except_add(p, at, &w[i], up, e);
	*out = up;
	return r;
}

char *upstream_redact(struct arena *a, const char *text)
{
	const char *at = strrchr(text, '@'), *from = at ? strstr(text, "://") : NULL;
	char out[POLICY_LINE_MAX + 8];

	if (!at || !from || from > at)
		return arena_str(a, text, strlen(text));
	(void)snprintf(out, sizeof(out), "%.*s://***%s", (int)(from - text), text, at);
	return arena_str(a, out, strlen(out));
}

/* ---- answers ---- */

static const struct policy_upstream *upstream_of(const struct policy *p)
{
	const struct line *l = p->set[SET_UPSTREAM];

	return l && l->u.set.upstream->host ? l->u.set.upstream : NULL;
}

const struct policy_upstream *policy_upstream(const struct policy *p)
{
	return upstream_of(p);
}

static bool name_ends(const char *host, const struct policy_pattern *t, bool is_below)
{
	size_t n = strlen(host), k = t->name_len;

	if (n == k)
		return !is_below && memcmp(host, t->name, k) == 0;
	return n > k && host[n - k - 1] == '.' && memcmp(host + n - k, t->name, k) == 0;
}

static bool except_hits(const struct policy_pattern *t, const struct target *to)
{
	if (!pattern_has_port(t, to->port))
		return false;
	switch (t->kind) {
	case PATTERN_ANY:
		return true;
	case PATTERN_NET:
		return to->is_addr && addr_net_contains(&t->net, &to->addr);
	case PATTERN_EXACT:
		return !to->is_addr && str_eq(to->host, t->name);
	case PATTERN_SUFFIX:
	case PATTERN_BELOW:
		return !to->is_addr && name_ends(to->host, t, t->kind == PATTERN_BELOW);
	}
	return false;
}

/* This machine under another name is still this machine: only the broker can lead there. */
static bool is_here(const struct target *t, bool own)
{
	if (t->is_addr)
		return own || addr_class_of(&t->addr) == ADDR_LOOPBACK ||
		       addr_class_of(&t->addr) == ADDR_LINK_LOCAL;
	return target_is_localhost(t);
}

bool policy_goes_upstream(const struct policy *p, const struct target *t, bool own)
{
	const struct policy_upstream *up = upstream_of(p);

	if (!up || is_here(t, own))
		return false;
	for (const struct policy_except *x = up->except; x; x = x->next) {
		if (except_hits(x->pattern, t))
			return false;
	}
	return true;
}

bool policy_rule_names(const struct policy_rule *r, const char *host)
{
	return r && r->pattern->kind == PATTERN_EXACT && str_eq(r->pattern->name, host);
}
