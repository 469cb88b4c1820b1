/* SPDX-License-Identifier: ISC */
/* tests/unit/policy_parser_test.c - each malformed line says where, what and what was expected */
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

static char *const env[] = { (char[]){ "DATA=/data" }, (char[]){ "EMPTY=" },
			     (char[]){ "REL=sub/dir" }, NULL };
static const struct policy_context ctx = {
	.home = "/home/u", .cwd = "/work", .project = "/proj", .environ = env
};

static int parse(enum policy_layer layer, const char *text, size_t len, struct err *e)
{
	struct policy *p = policy_new(&ctx);
	int r = policy_add_text(p, layer, "F", text, len, e);

	policy_free(p);
	return r;
}

static const struct {
	const char *in, *what, *fix;
} bad[] = {
	/* keywords */
	{ "alow pypi.org",
	  "F:1:1: 'alow' is not a keyword: expected allow, deny, ask, include, network, read, write, "
	  "env, limit, audit or another of weir(1)",
	  "did you mean 'allow'?" },
	{ "\n\n  frobnicate x",
	  "F:3:3: 'frobnicate' is not a keyword: expected allow, deny, ask, include, network, read, write, "
	  "env, limit, audit or another of weir(1)",
	  "" },
	{ "socket", "F:1:1: 'socket' ends too early: expected a path", "" },
	{ "socket /x /y", "F:1:11: '/y': expected the end of the line", "" },
	{ "device", "F:1:1: 'device' ends too early: expected a path", "" },
	{ "device gpu 1", "F:1:12: '1': expected the end of the line", "" },
	{ "publish", "F:1:1: 'publish' alone: expected [ADDRESS:]PORT[:PORT INSIDE]", "" },
	{ "publish 0", "F:1:9: '0': expected [ADDRESS:]PORT[:PORT INSIDE]",
	  "port 0 is any port of the host; name the one inside: 0:8888" },
	{ "publish 65536", "F:1:9: '65536': expected [ADDRESS:]PORT[:PORT INSIDE]", "" },
	{ "publish localhost:80", "F:1:9: 'localhost:80': expected [ADDRESS:]PORT[:PORT INSIDE]",
	  "" },
	{ "publish 127.1:80", "F:1:9: '127.1:80': expected [ADDRESS:]PORT[:PORT INSIDE]", "" },
	{ "publish 127.0.0.1", "F:1:9: '127.0.0.1': expected [ADDRESS:]PORT[:PORT INSIDE]", "" },
	{ "publish [127.0.0.1]:80",
	  "F:1:9: '[127.0.0.1]:80': expected [ADDRESS:]PORT[:PORT INSIDE]", "" },
	{ "publish [::1]80", "F:1:9: '[::1]80': expected [ADDRESS:]PORT[:PORT INSIDE]", "" },
	{ "publish 80:0", "F:1:9: '80:0': expected [ADDRESS:]PORT[:PORT INSIDE]", "" },
	{ "publish 80:81:82", "F:1:9: '80:81:82': expected [ADDRESS:]PORT[:PORT INSIDE]", "" },
	{ "publish 80 81", "F:1:12: '81': expected the end of the line", "" },
	{ "publish 3128", "F:1:9: '3128': port 3128 inside is the sandbox's own proxy", "" },
	{ "reach 5432:0", "F:1:7: '5432:0': expected PORT[:PORT OF THE HOST]", "" },
	{ "reach 0:5432", "F:1:7: '0:5432': expected PORT[:PORT OF THE HOST]", "" },
	{ "reach 10.0.0.1:5432", "F:1:7: '10.0.0.1:5432': expected PORT[:PORT OF THE HOST]", "" },
	{ "reach 3128:80", "F:1:7: '3128:80': port 3128 inside is the sandbox's own proxy", "" },
	{ "ask *.com", "F:1:5: '*.com' is as wide as a public suffix",
	  "name a domain below it, for example *.example.com" },
	{ "ask a.example secret",
	  "F:1:15: 'secret': expected private, no-sni or the end of the line", "" },
	{ "ask-timeout",
	  "F:1:1: 'ask-timeout' ends too early: expected a number of seconds from 1 to 3600", "" },
	{ "ask-timeout 0", "F:1:13: '0': expected a number of seconds from 1 to 3600", "" },
	{ "ask-timeout 3601", "F:1:13: '3601': expected a number of seconds from 1 to 3600", "" },
	{ "ask-timeout 5s", "F:1:13: '5s': expected a number of seconds from 1 to 3600", "" },
	{ "nested maybe", "F:1:8: 'maybe': expected yes or no", "" },
	{ "audit clients",
	  "F:1:7: 'clients': expected off, syslog, journal, required, optional, client, noclient or "
	  "the path of a file",
	  "did you mean 'client'?" },
	{ "limit disk 5",
	  "F:1:7: 'disk': expected connections, idle, pids, memory or cpu, and a number", "" },
	{ "route direct", "F:1:7: 'direct': expected proxy, transparent or both", "" },
	{ "view all", "F:1:6: 'all': expected project or host", "" },
	{ "home sweet", "F:1:6: 'sweet': expected private or keep", "" },
	{ "cache on", "F:1:7: 'on': expected keep or off", "" },
	{ "hide", "F:1:1: 'hide' ends too early: expected a path, then strict or nothing", "" },
	{ "hide ~/x always", "F:1:10: 'always': expected strict, or the end of the line", "" },
	{ "dotfile ../x",
	  "F:1:9: '../x': expected a file below the home directory, such as .config/tool.toml",
	  "" },
	{ "dotfile /etc/x",
	  "F:1:9: '/etc/x': expected a file below the home directory, such as .config/tool.toml",
	  "" },
	/* words */
	{ "allow",
	  "F:1:1: 'allow' ends too early: expected a target, such as pypi.org or .ebi.ac.uk:443",
	  "" },
	{ "allow a.example privat",
	  "F:1:17: 'privat': expected private, no-sni or the end of the line",
	  "did you mean 'private'?" },
	{ "allow a.example nosni",
	  "F:1:17: 'nosni': expected private, no-sni or the end of the line",
	  "did you mean 'no-sni'?" },
	{ "deny a.example no-sni",
	  "F:1:16: 'no-sni': expected the end of the line after the target of deny", "" },
	{ "deny a.example private",
	  "F:1:16: 'private': expected the end of the line after the target of deny", "" },
	{ "network allowlst", "F:1:9: 'allowlst': expected deny, allowlist or allow",
	  "did you mean 'allowlist'?" },
	{ "network deny allow", "F:1:14: 'allow': expected the end of the line", "" },
	{ "network", "F:1:1: 'network' ends too early: expected deny, allowlist or allow", "" },
	{ "include sience", "F:1:9: 'sience' is not a preset: weir policy presets lists them",
	  "did you mean 'science'?" },
	{ "limit connections 0", "F:1:19: '0': expected a number of connections from 1 to 65536",
	  "" },
	{ "limit connections 65537",
	  "F:1:19: '65537': expected a number of connections from 1 to 65536", "" },
	{ "limit connections",
	  "F:1:7: 'connections' ends too early: expected a number of connections from 1 to 65536",
	  "" },
	{ "limit idle 5m",
	  "F:1:12: '5m': expected a number of seconds from 1 to 604800, or 0 for no limit", "" },
	{ "audit requird",
	  "F:1:7: 'requird': expected off, syslog, journal, required, optional, client, noclient or "
	  "the path of a file",
	  "did you mean 'required'?" },
	{ "audit $NOPE/f", "F:1:7: '$NOPE/f': expected a path whose variable is set", "" },
	{ "env keep", "F:1:5: 'keep' ends too early: expected keep NAME or set NAME=VALUE", "" },
	{ "env keep A=b", "F:1:10: 'A=b': expected the name of a variable", "" },
	{ "env set A", "F:1:9: 'A': expected NAME=VALUE", "" },
	{ "env set 1A=b", "F:1:9: '1A=b': expected NAME=VALUE", "" },
	{ "env set A=b c", "F:1:13: 'c': expected the end of the line", "" },
	{ "env unset A", "F:1:5: 'unset': expected keep NAME or set NAME=VALUE", "" },
	{ "lock allow",
	  "F:1:1: 'lock' may only stand in the administrator's file, /etc/weir/policy", "" },
	/* bytes */
	{ "allow a\x01.example", "F:1:8: control byte 0x01: expected printable text", "" },
	{ "allow a.example\r\n", "F:1:16: control byte 0x0d: expected printable text",
	  "save the file with LF line ends" },
	{ "\xef\xbb\xbfwallow a", "F:1:1: a byte order mark: expected a policy line",
	  "save the file as UTF-8 without a byte order mark" },
	{ "read \"~/my data", "F:1:6: '\"' is not closed: expected another '\"' on the same line",
	  "" },
	{ "read \"a\"b", "F:1:9: expected a space after the closing '\"'", "" },
	{ "read a\"b\"", "F:1:7: '\"' inside a word: expected the quotes around the whole word",
	  "" },
	/* targets */
	{ "allow *.com", "F:1:7: '*.com' is as wide as a public suffix",
	  "name a domain below it, for example *.example.com" },
	{ "allow .co.uk", "F:1:7: '.co.uk' is as wide as a public suffix",
	  "name a domain below it, for example .example.co.uk" },
	{ "allow *.ck", "F:1:7: '*.ck' is as wide as a public suffix",
	  "name a domain below it, for example *.example.ck" },
	{ "allow .kawasaki.jp", "F:1:7: '.kawasaki.jp' is as wide as a public suffix",
	  "name a domain below it, for example .example.kawasaki.jp" },
	{ "allow .xn--p1ai", "F:1:7: '.xn--p1ai' is as wide as a public suffix",
	  "name a domain below it, for example .example.xn--p1ai" },
	{ "allow .\xd1\x80\xd1\x84", "F:1:7: '.\xd1\x80\xd1\x84' is as wide as a public suffix",
	  "name a domain below it, for example .example.xn--p1ai" },
	{ "allow a..b",
	  "F:1:7: 'a..b' has an empty label: expected a host name, .NAME, *.NAME, * or an address",
	  "" },
	{ "allow **.example", "F:1:7: '**.example': '*' stands alone or as '*.' in front of a name",
	  "" },
	{ "allow a*.example", "F:1:7: 'a*.example': '*' stands alone or as '*.' in front of a name",
	  "" },
	{ "allow *.", "F:1:7: '*.' is empty: expected a host name, .NAME, *.NAME, * or an address",
	  "" },
	{ "allow 127.1",
	  "F:1:7: '127.1' ends in a number but is not an IPv4 address in its usual spelling: expected a "
	  "host name, .NAME, *.NAME, * or an address",
	  "" },
	{ "allow *.1.2.3",
	  "F:1:7: '*.1.2.3' ends in a number but is not an IPv4 address in its usual spelling: expected "
	  "a host name, .NAME, *.NAME, * or an address",
	  "" },
	{ "allow https://pypi.org/simple",
	  "F:1:7: 'https://pypi.org/simple' is a URL: expected a host name",
	  "write the host alone: pypi.org" },
	{ "allow u@pypi.org", "F:1:7: 'u@pypi.org' has a user name in it: expected a host name",
	  "write the host alone: pypi.org" },
	{ "allow fd00::1", "F:1:7: 'fd00::1' has more than one ':': expected HOST:PORTS",
	  "write an IPv6 address in brackets: [fd00::1]" },
	{ "allow [fe80::1%lo]",
	  "F:1:7: '[fe80::1%lo]' names a zone: expected an address without %ZONE", "" },
	{ "allow [1.2.3.4]",
	  "F:1:7: '[1.2.3.4]' is not an address: expected IPv6, for example [fd00::/8]:443", "" },
	{ "allow [::1",
	  "F:1:7: '[::1': expected [ADDRESS] or [ADDRESS/PREFIX], then :PORTS or nothing", "" },
	{ "allow 10.1.2.3/16",
	  "F:1:7: '10.1.2.3/16' is not an address and prefix whose other bits are zero: expected IPv4, "
	  "for example 10.1.0.0/16:22",
	  "" },
	{ "allow 10.0.0.0/33",
	  "F:1:7: '10.0.0.0/33' is not an address and prefix whose other bits are zero: expected IPv4, "
	  "for example 10.1.0.0/16:22",
	  "" },
	{ "allow pypi.org:0",
	  "F:1:16: '0' is not a port: expected 1-65535, a range such as 8000-8010, or *", "" },
	{ "allow pypi.org:65536",
	  "F:1:16: '65536' is not a port: expected 1-65535, a range such as 8000-8010, or *", "" },
	{ "allow pypi.org:",
	  "F:1:16: '' is not a port: expected 1-65535, a range such as 8000-8010, or *", "" },
	{ "allow pypi.org:443,",
	  "F:1:20: '' is not a port: expected 1-65535, a range such as 8000-8010, or *", "" },
	{ "allow pypi.org:443,+80",
	  "F:1:20: '+80' is not a port: expected 1-65535, a range such as 8000-8010, or *", "" },
	{ "allow pypi.org:90-80",
	  "F:1:16: '90-80' is not a range of ports: expected the lower one first", "" },
	{ "allow pypi.org:1-2-3",
	  "F:1:16: '1-2-3' is not a port: expected 1-65535, a range such as 8000-8010, or *", "" },
	/* paths */
	{ "read", "F:1:1: 'read' ends too early: expected a path", "" },
	{ "read ~root/x",
	  "F:1:6: '~root/x': expected ~ or ~/PATH: the homes of others are not known", "" },
	{ "read $", "F:1:6: '$': expected $NAME or ${NAME} at the start of a path", "" },
	{ "read ${A", "F:1:6: '${A': expected $NAME or ${NAME} at the start of a path", "" },
	{ "read \"\"", "F:1:6: '': expected a path", "" },
};

static void bad_line_says_where_and_what(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };
		int r = parse(LAYER_USER, bad[i].in, strlen(bad[i].in), &e);

		if (r != -EINVAL || !str_eq(e.what, bad[i].what) || !str_eq(e.fix, bad[i].fix))
			fail_msg("'%s' gave %d\n  '%s'\n  '%s'\nwanted\n  '%s'\n  '%s'", bad[i].in,
				 r, r ? e.what : "", r ? e.fix : "", bad[i].what, bad[i].fix);
	}
}

static const char *const good[] = {
	"",
	"\n\n",
	"# nothing",
	"   # nothing",
	"\tallow\tpypi.org\t# why",
	"allow pypi.org",
	"allow PyPI.org.:443",
	"allow .ebi.ac.uk",
	"allow *.example.org:443,8000-8010",
	"allow db.lab.example:5432 private private",
	"allow 10.1.0.0/16:22",
	"allow 10.1.0.0/16:22 private",
	"allow git.example:443 no-sni",
	"allow git.lab.example:443 no-sni private",
	"allow [fd00::/8]:443",
	"allow [::1]",
	"allow [::ffff:10.0.0.1]:*",
	"allow *",
	"allow *:*",
	"allow m\xc3\xbcsli.example",
	"allow *.lab",
	"allow .internal",
	"allow com",
	"allow .github.io",
	"deny *",
	"deny .com",
	"deny *.co.uk:25",
	"deny 0.0.0.0/0",
	"include science",
	"include none",
	"network deny",
	"read ~",
	"read ~/data",
	"read $DATA/x",
	"read ${DATA}x",
	"read $NOPE/x",
	"read \"/my data\"",
	"read \"/a\\\"b\\\\c\"",
	"write ../shared-results",
	"write! .",
	"env keep CUDA_VISIBLE_DEVICES",
	"env set PIP_INDEX_URL=https://pypi.org/simple#x",
	"env set \"A=b c # d\"",
	"env set A=",
	"limit connections 4096",
	"limit idle 0",
	"audit required",
	"audit optional",
	"audit off",
	"audit ~/a.jsonl",
	"audit ./a",
	"on-unavailable warn",
	"route proxy",
	"view project",
	"home private",
};

static void good_line_is_taken(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct err e = { 0 };

		if (parse(LAYER_USER, good[i], strlen(good[i]), &e) != 0)
			fail_msg("'%s': %s", good[i], e.what);
	}
}

static void nul_byte_is_refused(void **state)
{
	static const char text[] = "allow pypi.org\nallow a\0b.example\n";
	struct err e = { 0 };

	(void)state;
	assert_int_equal(parse(LAYER_USER, text, sizeof(text) - 1, &e), -EINVAL);
	assert_string_equal(e.what, "F:2:8: control byte 0x00: expected printable text");
}

static void line_longer_than_4096_bytes_is_refused(void **state)
{
	static char text[4200];
	struct err e = { 0 };

	(void)state;
	memset(text, '#', sizeof(text));
	assert_int_equal(parse(LAYER_USER, text, 4096, &e), 0);
	assert_int_equal(parse(LAYER_USER, text, 4097, &e), -EINVAL);
	assert_string_equal(e.what, "F:1:4097: the line is longer than 4096 bytes");
}

static void more_than_100000_rules_are_refused(void **state)
{
	static const char line[] = "deny a\n";
	const size_t n = sizeof(line) - 1, count = 100001;
	SCOPED_FREE char *text = malloc(n * count);
	struct err e = { 0 };

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < count; i++)
		memcpy(text + n * i, line, n);
	assert_int_equal(parse(LAYER_USER, text, n * (count - 1), &e), 0);
	assert_int_equal(parse(LAYER_USER, text, n * count, &e), -EINVAL);
	assert_string_equal(e.what,
			    "F:100001:1: more than 100000 lines in all policy files together");
}

static const struct {
	enum policy_layer layer;
	const char *in, *want; /* want NULL: refused; "": inactive */
} paths[] = {
	{ LAYER_USER, "read /a/b", "/a/b" },
	{ LAYER_USER, "read ~", "/home/u" },
	{ LAYER_USER, "read ~/x", "/home/u/x" },
	{ LAYER_USER, "read .", "/work/." },
	{ LAYER_USER, "read x/y", "/work/x/y" },
	{ LAYER_PROJECT, "read x/y", "/proj/x/y" },
	{ LAYER_PROJECT, "write ../out", "/proj/../out" },
	{ LAYER_FILE, "read x", "/work/x" },
	{ LAYER_ADMIN, "read x", NULL },
	{ LAYER_ADMIN, "read ./x", NULL },
	{ LAYER_ADMIN, "read /x", "/x" },
	{ LAYER_ADMIN, "read ~/x", "/home/u/x" },
	{ LAYER_ADMIN, "read $REL", NULL },
	{ LAYER_USER, "read $DATA", "/data" },
	{ LAYER_USER, "read $DATA/x", "/data/x" },
	{ LAYER_USER, "read ${DATA}/x", "/data/x" },
	{ LAYER_USER, "read $REL/x", "/work/sub/dir/x" },
	{ LAYER_USER, "read a$DATA", "/work/a$DATA" },
	{ LAYER_USER, "read $NOPE/x", "" },
	{ LAYER_USER, "read $EMPTY/x", "" },
	{ LAYER_USER, "read \"/with space\"", "/with space" },
};

static void path_means_the_same_place_everywhere_in_its_layer(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct policy *p = policy_new(&ctx);
		struct err e = { 0 };
		const struct policy_grant *g;
		int r = policy_add_text(p, paths[i].layer, "F", paths[i].in, strlen(paths[i].in),
					&e);

		if ((r == 0) != (paths[i].want != NULL))
			fail_msg("'%s' gave %d %s", paths[i].in, r, e.what);
		if (r == 0) {
			assert_int_equal(policy_seal(p, NULL, NULL, &e), 0);
			g = policy_grants(p);
			assert_non_null(g);
			if (g->inactive != (paths[i].want[0] == '\0') ||
			    (!g->inactive && !str_eq(g->path, paths[i].want)))
				fail_msg("'%s' gave '%s' inactive %d", paths[i].in, g->path,
					 g->inactive);
		}
		policy_free(p);
	}
}

static const struct {
	const char *flag, *keyword, *value, *what; /* what NULL: taken */
} flags[] = {
	{ "--allow", "allow", "db.example:5432 private", NULL },
	{ "--allow", "allow", "", "--allow: '' is empty: expected a target" },
	{ "--allow", "allow", "*.com", "--allow: '*.com' is as wide as a public suffix" },
	{ "--allow", "allow", "a.example # note",
	  "--allow: '#': expected private, no-sni or the end of the line" },
	{ "--allow", "allow", "a\nallow b", "--allow: control byte 0x0a: expected printable text" },
	{ "--ask", "ask", "*.com", "--ask: '*.com' is as wide as a public suffix" },
	{ "--preset", "include", "nope",
	  "--preset: 'nope' is not a preset: weir policy presets lists them" },
	{ "--read", "read", "/my data # x", NULL },
	{ "--read", "read", "", "--read: '': expected a path" },
	{ "--read", "read", "$NOPE/x", "--read: '$NOPE/x': $NOPE is not set" },
	{ "--env", "env", "set A=b c\nd", NULL },
	{ "--env", "env", "set A", "--env: 'A': expected NAME=VALUE" },
	{ "--keep-env", "env", "keep A B", "--keep-env: 'A B': expected the name of a variable" },
	{ "--network", "network", "allow", NULL },
	{ "--network", "network", "on", "--network: 'on': expected deny, allowlist or allow" },
	{ "--audit", "audit", "/my log.jsonl", NULL },
};

static void flag_is_a_policy_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		struct policy *p = policy_new(&ctx);
		struct err e = { 0 };
		int r = policy_add_flag(p, flags[i].flag, flags[i].keyword, flags[i].value, &e);

		if (flags[i].what ? r != -EINVAL || !str_eq(e.what, flags[i].what) : r != 0)
			fail_msg("%s '%s' gave %d '%s'", flags[i].flag, flags[i].value, r, e.what);
		policy_free(p);
	}
}

static void project_file_may_not_say_on_unavailable(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(parse(LAYER_PROJECT, "on-unavailable warn", 19, &e), -EINVAL);
	assert_string_equal(e.what, "F:1:1: 'on-unavailable' may not stand in a project's file");
}

static void every_preset_would_pass_the_checks_it_is_spared(void **state)
{
	(void)state;
	for (const struct policy_preset *k = policy_presets(); k->name; k++) {
		struct err e = { 0 };

		if (parse(LAYER_USER, k->text, strlen(k->text), &e) != 0)
			fail_msg("preset %s: %s", k->name, e.what);
		assert_true(k->summary[0] != '\0');
	}
}

static void every_preset_line_says_why_it_is_there(void **state)
{
	(void)state;
	for (const struct policy_preset *k = policy_presets(); k->name; k++)
		for (const char *s = k->text; *s; s += strcspn(s, "\n") + 1)
			if (!memchr(s, '#', strcspn(s, "\n")))
				fail_msg("preset %s: no comment on '%.*s'", k->name,
					 (int)strcspn(s, "\n"), s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_line_says_where_and_what),
		cmocka_unit_test(good_line_is_taken),
		cmocka_unit_test(nul_byte_is_refused),
		cmocka_unit_test(line_longer_than_4096_bytes_is_refused),
		cmocka_unit_test(more_than_100000_rules_are_refused),
		cmocka_unit_test(path_means_the_same_place_everywhere_in_its_layer),
		cmocka_unit_test(flag_is_a_policy_line),
		cmocka_unit_test(project_file_may_not_say_on_unavailable),
		cmocka_unit_test(every_preset_would_pass_the_checks_it_is_spared),
		cmocka_unit_test(every_preset_line_says_why_it_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
