/* SPDX-License-Identifier: ISC */
/* policy/pattern.c - the targets of allow and deny lines: names, suffixes, *, networks, ports.
 * Policy text only, never the wire: here alone Unicode is taken (IDNA2008) and the width of a
 * wildcard is held against the public suffix list, which is built into libpsl. */
#include "policy/internal.h"

#include <assert.h>
#include <errno.h>
#include <idn2.h>
#include <libpsl.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"
#include "common/num.h"

/* struct spec - a target as written, cut into its parts; nothing of it is judged yet */
struct spec {
	const struct place *at;
	const struct word *w;
	struct err *e;
	const char *host, *ports; /* ports NULL: none given */
	size_t host_len;
	bool bracket;
};

static unsigned column_of(const struct spec *s, const char *p)
{
	return s->w->column + (unsigned)(p - s->w->s) + (s->w->quoted ? 1 : 0);
}

static int bad_port(const struct spec *s, const char *p, size_t len)
{
	return place_error(
		s->at, column_of(s, p), s->e,
		"'%.*s' is not a port: expected 1-65535, a range such as 8000-8010, or *", (int)len,
		p);
}

/* One "N" or "N-M" */
static int range_parse(const struct spec *s, const char *p, size_t len, struct port_range *r)
{
	const char *dash = memchr(p, '-', len);
	size_t first = dash ? (size_t)(dash - p) : len;

	if (num_port(p, first, &r->low) < 0)
		return bad_port(s, p, len);
	r->high = r->low;
	if (dash && num_port(dash + 1, len - first - 1, &r->high) < 0)
		return bad_port(s, p, len);
	if (r->high < r->low)
		return place_error(s->at, column_of(s, p), s->e,
				   "'%.*s' is not a range of ports: expected the lower one first",
				   (int)len, p);
	return 0;
}

static int ports_keep(struct arena *a, struct policy_pattern *p, const struct port_range *r,
		      size_t n)
{
	p->ports = arena_get(a, n * sizeof(*r));
	if (!p->ports)
		return -ENOMEM;
	memcpy(p->ports, r, n * sizeof(*r));
	p->nports = (uint8_t)n;
	return 0;
}

static int ports_default(struct arena *a, struct policy_pattern *p, enum policy_verdict verdict)
{
	static const struct port_range web[] = { { 80, 80 }, { 443, 443 } };

	p->all_ports = verdict == POLICY_DENY;
	return p->all_ports ? 0 : ports_keep(a, p, web, 2);
}

static int ports_parse(const struct spec *s, struct arena *a, struct policy_pattern *p,
		       enum policy_verdict verdict)
{
	struct port_range r[POLICY_PORTS_MAX];
	const char *from = s->ports;
	size_t n = 0;

	if (!from)
		return ports_default(a, p, verdict);
	if (strcmp(from, "*") == 0) {
		p->all_ports = true;
		return 0;
	}
	for (;;) {
		size_t len = strcspn(from, ",");
		int err;

		if (n == POLICY_PORTS_MAX)
			return place_error(s->at, column_of(s, from), s->e,
					   "more than %u ports on one line", POLICY_PORTS_MAX);
		err = range_parse(s, from, len, &r[n++]);
		if (err < 0)
			return err;
		if (from[len] == '\0')
			return ports_keep(a, p, r, n);
		from += len + 1;
	}
}

static int cut_bracket(struct spec *s)
{
	const char *end = strchr(s->w->s, ']');

	s->bracket = true;
	s->host = s->w->s + 1;
	if (!end || (end[1] != '\0' && end[1] != ':'))
		return place_error(
			s->at, s->w->column, s->e,
			"'%s': expected [ADDRESS] or [ADDRESS/PREFIX], then :PORTS or nothing",
			s->w->s);
	s->host_len = (size_t)(end - s->host);
	s->ports = end[1] == ':' ? end + 2 : NULL;
	return 0;
}

static int cut_url(const struct spec *s, const char *scheme_end)
{
	const char *host = scheme_end + 3;

	(void)place_error(s->at, s->w->column, s->e, "'%s' is a URL: expected a host name",
			  s->w->s);
	return err_fix(s->e, "write the host alone: %.*s", (int)strcspn(host, "/:?#"), host);
}

static int cut_colons(const struct spec *s)
{
	struct addr_net net;

	(void)place_error(s->at, s->w->column, s->e,
			  "'%s' has more than one ':': expected HOST:PORTS", s->w->s);
	if (addr_net_parse(&net, s->w->s) == 0)
		return err_fix(s->e, "write an IPv6 address in brackets: [%s]", s->w->s);
	return err_fix(s->e, "write an IPv6 address in brackets, for example [fd00::/8]:443");
}

/* HOST[:PORTS], [ADDRESS][:PORTS] */
static int spec_cut(struct spec *s)
{
	const char *text = s->w->s, *colon = strrchr(text, ':'), *url = strstr(text, "://");

	if (text[0] == '[')
		return cut_bracket(s);
	if (url)
		return cut_url(s, url);
	if (strchr(text, '@')) {
		(void)place_error(s->at, s->w->column, s->e,
				  "'%s' has a user name in it: expected a host name", text);
		return err_fix(s->e, "write the host alone: %s", strrchr(text, '@') + 1);
	}
	if (colon && strchr(text, ':') != colon)
		return cut_colons(s);
	s->host = text;
	s->host_len = colon ? (size_t)(colon - text) : strlen(text);
	s->ports = colon ? colon + 1 : NULL;
	return 0;
}

static int bad_name(const struct spec *s, enum name_fault f)
{
	return place_error(s->at, s->w->column, s->e,
			   "'%s' %s: expected a host name, .NAME, *.NAME, * or an address", s->w->s,
			   name_fault_text(f));
}

static bool is_ascii(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] >= 0x80)
			return false;
	return true;
}

/* Unicode to A-labels; the result is held against the same rules as any other name. */
static int idna_name(const struct spec *s, const char *name, size_t len, char out[HOST_MAX + 1])
{
	char utf8[4 * HOST_MAX + 1];
	uint8_t *ascii = NULL;
	enum name_fault f;
	int r;

	if (len >= sizeof(utf8))
		return bad_name(s, NAME_TOO_LONG);
	memcpy(utf8, name, len);
	utf8[len] = '\0';
	r = idn2_lookup_u8((const uint8_t *)utf8, &ascii, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);
	if (r != IDN2_OK)
		return place_error(s->at, s->w->column, s->e, "'%s' is not an IDNA2008 name: %s",
				   s->w->s, idn2_strerror(r));
	f = name_canon((const char *)ascii, strlen((const char *)ascii), out);
	idn2_free(ascii);
	return f == NAME_OK ? 0 : bad_name(s, f);
}

static int name_keep(const struct spec *s, struct arena *a, struct policy_pattern *p,
		     const char *name, size_t len)
{
	char canon[HOST_MAX + 1];
	enum name_fault f;
	int r = 0;

	if (is_ascii(name, len)) {
		f = name_canon(name, len, canon);
		r = f == NAME_OK ? 0 : bad_name(s, f);
	} else {
		r = idna_name(s, name, len, canon);
	}
	if (r < 0)
		return r;
	p->name_len = (uint8_t)strlen(canon);
	p->name = arena_str(a, canon, p->name_len);
	return p->name ? 0 : -ENOMEM;
}

static int width_check(const struct spec *s, const struct policy_pattern *p)
{
	const psl_ctx_t *psl = psl_builtin();

	if (!psl)
		return place_error(s->at, s->w->column, s->e,
				   "'%s': this build has no public suffix list to judge it by",
				   s->w->s);
	if (!psl_is_public_suffix2(psl, p->name, PSL_TYPE_ICANN | PSL_TYPE_NO_STAR_RULE))
		return 0;
	(void)place_error(s->at, s->w->column, s->e, "'%s' is as wide as a public suffix", s->w->s);
	return err_fix(s->e, "name a domain below it, for example %sexample.%s",
		       p->kind == PATTERN_BELOW ? "*." : ".", p->name);
}

/* The text between the brackets, or of what could be IPv4. Return: 1 an address or network, 0 no */
static int net_parse(const struct spec *s, struct policy_pattern *p)
{
	char text[ADDR_TEXT_MAX + 4];

	assert(s->host);
	if (s->host_len >= sizeof(text))
		return 0;
	memcpy(text, s->host, s->host_len);
	text[s->host_len] = '\0';
	if (s->bracket && !strchr(text, ':'))
		return 0;
	if (addr_net_parse(&p->net, text) < 0)
		return 0;
	p->kind = PATTERN_NET;
	return 1;
}

static int bad_net(const struct spec *s)
{
	const char *slash = memchr(s->host, '/', s->host_len);
	char host[HOST_MAX + 1];

	if (memchr(s->host, '%', s->host_len))
		return place_error(s->at, s->w->column, s->e,
				   "'%s' names a zone: expected an address without %%ZONE",
				   s->w->s);
	if (slash && !s->bracket &&
	    name_canon(s->host, (size_t)(slash - s->host), host) == NAME_OK) {
		(void)place_error(s->at, s->w->column, s->e,
				  "'%s' has a path: expected a host name", s->w->s);
		return err_fix(s->e, "write the host alone: %s", host);
	}
	return place_error(s->at, s->w->column, s->e, "'%s' is not an address%s: expected %s",
			   s->w->s, slash ? " and prefix whose other bits are zero" : "",
			   s->bracket ? "IPv6, for example [fd00::/8]:443"
				      : "IPv4, for example 10.1.0.0/16:22");
}

/* Kind and name; the longest sign first */
static int host_parse(const struct spec *s, struct arena *a, struct policy_pattern *p)
{
	const char *h = s->host;
	size_t len = s->host_len, skip = 0;

	if (net_parse(s, p) > 0)
		return 0;
	if (s->bracket || memchr(h, '/', len))
		return bad_net(s);
	p->kind = PATTERN_EXACT;
	if (len == 1 && h[0] == '*') {
		p->kind = PATTERN_ANY;
		return 0;
	}
	if (len >= 2 && h[0] == '*' && h[1] == '.') {
		p->kind = PATTERN_BELOW;
		skip = 2;
	} else if (len >= 1 && h[0] == '.') {
		p->kind = PATTERN_SUFFIX;
		skip = 1;
	}
	if (memchr(h + skip, '*', len - skip))
		return place_error(s->at, s->w->column, s->e,
				   "'%s': '*' stands alone or as '*.' in front of a name", s->w->s);
	return name_keep(s, a, p, h + skip, len - skip);
}

int pattern_parse(struct arena *a, const struct place *at, const struct word *w,
		  enum policy_verdict verdict, bool checked, struct policy_pattern **out,
		  struct err *e)
{
	struct spec s = { .at = at, .w = w, .e = e };
	struct policy_pattern *p = arena_get(a, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	r = spec_cut(&s);
	if (r == 0)
		r = host_parse(&s, a, p);
	if (r == 0)
		r = ports_parse(&s, a, p, verdict);
	if (r == 0 && checked && verdict != POLICY_DENY &&
	    (p->kind == PATTERN_SUFFIX || p->kind == PATTERN_BELOW))
		r = width_check(&s, p);
	if (r < 0)
		return r;
	*out = p;
	return 0;
}

bool pattern_has_port(const struct policy_pattern *p, uint16_t port)
{
	if (p->all_ports)
		return true;
	for (size_t i = 0; i < p->nports; i++)
		if (port >= p->ports[i].low && port <= p->ports[i].high)
			return true;
	return false;
}

bool pattern_same(const struct policy_pattern *a, const struct policy_pattern *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == PATTERN_NET)
		return a->net.prefix == b->net.prefix && addr_eq(&a->net.base, &b->net.base);
	return a->name_len == b->name_len &&
	       (a->name_len == 0 || memcmp(a->name, b->name, a->name_len) == 0);
}

enum ports_relation pattern_ports(const struct policy_pattern *a, const struct policy_pattern *b)
{
	bool both = false, only_a = false, only_b = false;

	if (a->all_ports && b->all_ports)
		return PORTS_SAME;
	for (unsigned port = 1; port <= 65535; port++) {
		bool in_a = pattern_has_port(a, (uint16_t)port);
		bool in_b = pattern_has_port(b, (uint16_t)port);

		both |= in_a && in_b;
		only_a |= in_a && !in_b;
		only_b |= in_b && !in_a;
	}
	if (!both)
		return PORTS_APART;
	if (only_a)
		return PORTS_OVERLAP;
	return only_b ? PORTS_COVERED : PORTS_SAME;
}

const char *pattern_ports_format(const struct policy_pattern *p, enum policy_verdict verdict,
				 char buf[PORTS_TEXT_MAX])
{
	size_t n = 0;

	buf[0] = '\0';
	if (p->all_ports) {
		(void)snprintf(buf, PORTS_TEXT_MAX, "%s", verdict == POLICY_DENY ? "" : ":*");
		return buf;
	}
	if (verdict != POLICY_DENY && p->nports == 2 && p->ports[0].low == 80 &&
	    p->ports[0].high == 80 && p->ports[1].low == 443 && p->ports[1].high == 443)
		return buf;
	for (size_t i = 0; i < p->nports; i++) {
		n = text_add(buf, PORTS_TEXT_MAX, n, "%c%u", i ? ',' : ':', p->ports[i].low);
		if (p->ports[i].high != p->ports[i].low)
			n = text_add(buf, PORTS_TEXT_MAX, n, "-%u", p->ports[i].high);
	}
	return buf;
}

const char *pattern_format(const struct policy_pattern *p, char buf[PATTERN_TEXT_MAX])
{
	static const char *const sign[] = {
		[PATTERN_EXACT] = "", [PATTERN_SUFFIX] = ".", [PATTERN_BELOW] = "*.",
		[PATTERN_ANY] = "*",  [PATTERN_NET] = "",
	};
	char addr[ADDR_TEXT_MAX];
	bool six = p->net.base.family == 6, whole = p->net.prefix == (six ? 128 : 32);
	size_t n = 0;

	if (p->kind != PATTERN_NET) {
		(void)snprintf(buf, PATTERN_TEXT_MAX, "%s%s", sign[p->kind],
			       p->name ? p->name : "");
		return buf;
	}
	n = text_add(buf, PATTERN_TEXT_MAX, n, "%s%s", six ? "[" : "",
		     addr_format(&p->net.base, addr));
	if (!whole)
		n = text_add(buf, PATTERN_TEXT_MAX, n, "/%u", p->net.prefix);
	if (six)
		(void)text_add(buf, PATTERN_TEXT_MAX, n, "]");
	return buf;
}
