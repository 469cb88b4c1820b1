/* SPDX-License-Identifier: ISC */
/* sandbox/environ.c - the table of SPEC section 6: which variables enter, and why.
 * Every value is the user's and may be a secret, code or a path that does not exist inside. What no
 * row keeps is dropped. The words of the policy come after the table, what weir sets comes last. */
#include "sandbox/environ.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/err.h"
#include "common/feature.h"
#include "common/scope.h"

enum action {
	KEEP,	   /* the value as it is, unless it looks like a secret */
	KEEP_PATH, /* the same, and only when each path in it is visible inside */
	DROP,	   /* never by the table; "env keep" may */
	NEVER,	   /* not by "env keep" either: the host's would be wrong or harmful inside */
};

/* The first row that matches decides. "X*" is everything that begins with X. */
static const struct {
	const char *pattern;
	enum action action;
	const char *why;
} table[] = {
	{ "PATH", KEEP, "what is not visible inside is passed over by every search" },
	{ "LANG", KEEP, "language of messages" },
	{ "LANGUAGE", KEEP, "language of messages" },
	{ "LC_*", KEEP, "language, numbers, sorting" },
	{ "TZ", KEEP, "time zone" },
	{ "TERM", KEEP, "what the terminal understands" },
	{ "COLORTERM", KEEP, "what the terminal understands" },
	{ "TERM_PROGRAM*", KEEP, "what the terminal understands" },
	{ "NO_COLOR", KEEP, "taste" },
	{ "CLICOLOR*", KEEP, "taste" },
	{ "FORCE_COLOR", KEEP, "taste" },
	{ "LS_COLORS", KEEP, "taste" },
	{ "COLUMNS", KEEP, "size of the terminal" },
	{ "LINES", KEEP, "size of the terminal" },
	{ "EDITOR", KEEP, "taste; a path that is absent fails by name" },
	{ "VISUAL", KEEP, "taste" },
	{ "PAGER", KEEP, "taste" },
	{ "MANPAGER", KEEP, "taste" },
	{ "LESS", KEEP, "taste" },
	{ "CI", KEEP, "programs ask no questions" },
	{ "DEBIAN_FRONTEND", KEEP, "programs ask no questions" },
	{ "SOURCE_DATE_EPOCH", KEEP, "reproducible builds" },
	{ "OMP_*", KEEP, "threads of numeric libraries" },
	{ "MKL_NUM_THREADS", KEEP, "threads of numeric libraries" },
	{ "OPENBLAS_NUM_THREADS", KEEP, "threads of numeric libraries" },
	{ "NUMEXPR_NUM_THREADS", KEEP, "threads of numeric libraries" },
	{ "PYTHONUNBUFFERED", KEEP, "a switch" },
	{ "PYTHONDONTWRITEBYTECODE", KEEP, "a switch" },
	{ "PYTHONHASHSEED", KEEP, "reproducible runs" },
	{ "PYTHONIOENCODING", KEEP, "text encoding" },
	{ "PYTHONUTF8", KEEP, "text encoding" },
	{ "PYTHONPATH", KEEP_PATH, "modules of the project" },
	{ "VIRTUAL_ENV", KEEP_PATH, "the environment in use" },
	{ "CONDA_PREFIX*", KEEP_PATH, "the environment in use" },
	{ "CONDA_EXE", KEEP_PATH, "the environment in use" },
	{ "CONDA_PYTHON_EXE", KEEP_PATH, "the environment in use" },
	{ "CONDA_DEFAULT_ENV", KEEP, "the environment in use" },
	{ "CONDA_SHLVL", KEEP, "the environment in use" },
	{ "JAVA_HOME", KEEP_PATH, "the JDK in use" },
	{ "GOPATH", KEEP_PATH, "Go's packages" },
	{ "GOROOT", KEEP_PATH, "Go itself" },
	{ "R_LIBS*", KEEP_PATH, "R's packages" },
	{ "SSL_CERT_FILE", KEEP_PATH, "authorities of one's own: OpenSSL, Go, Rust, Ruby" },
	{ "SSL_CERT_DIR", KEEP_PATH, "as SSL_CERT_FILE" },
	{ "NIX_SSL_CERT_FILE", KEEP_PATH, "as SSL_CERT_FILE" },
	{ "CURL_CA_BUNDLE", KEEP_PATH, "as SSL_CERT_FILE: curl, requests" },
	{ "REQUESTS_CA_BUNDLE", KEEP_PATH, "as SSL_CERT_FILE: Python's requests, conda" },
	{ "PIP_CERT", KEEP_PATH, "as SSL_CERT_FILE: pip" },
	{ "UV_NATIVE_TLS", KEEP, "as SSL_CERT_FILE: uv" },
	{ "NODE_EXTRA_CA_CERTS", KEEP_PATH, "as SSL_CERT_FILE: node, npm" },
	{ "NPM_CONFIG_CAFILE", KEEP_PATH, "as SSL_CERT_FILE: npm" },
	{ "npm_config_cafile", KEEP_PATH, "as SSL_CERT_FILE: npm" },
	{ "CARGO_HTTP_CAINFO", KEEP_PATH, "as SSL_CERT_FILE: cargo" },
	{ "GIT_SSL_CAINFO", KEEP_PATH, "as SSL_CERT_FILE: git" },
	{ "GIT_SSL_CAPATH", KEEP_PATH, "as SSL_CERT_FILE: git" },
	{ "AWS_CA_BUNDLE", KEEP_PATH, "as SSL_CERT_FILE: boto" },
	{ "DENO_CERT", KEEP_PATH, "as SSL_CERT_FILE: deno" },
	{ "PERL_LWP_SSL_CA_FILE", KEEP_PATH, "as SSL_CERT_FILE: LWP" },

	{ "HOME", NEVER, "set" },
	{ "USER", NEVER, "set" },
	{ "LOGNAME", NEVER, "set" },
	{ "SHELL", NEVER, "set" },
	{ "PWD", NEVER, "set" },
	{ "OLDPWD", NEVER, "may not exist inside" },
	{ "TMPDIR", NEVER, "set: /tmp is private" },
	{ "XDG_*", NEVER, "set: the directories are private; sessions and seats are the host's" },
	{ "WEIR*", NEVER, "set, or weir's own" },
	{ "HTTP_PROXY", NEVER,
	  "the host's proxy, perhaps with a password: the broker uses it, not CMD" },
	{ "HTTPS_PROXY", NEVER, "as HTTP_PROXY" },
	{ "ALL_PROXY", NEVER, "as HTTP_PROXY" },
	{ "FTP_PROXY", NEVER, "as HTTP_PROXY" },
	{ "RSYNC_PROXY", NEVER, "as HTTP_PROXY" },
	{ "NO_PROXY", NEVER, "as HTTP_PROXY" },
	{ "http_proxy", NEVER, "as HTTP_PROXY" },
	{ "https_proxy", NEVER, "as HTTP_PROXY" },
	{ "all_proxy", NEVER, "as HTTP_PROXY" },
	{ "ftp_proxy", NEVER, "as HTTP_PROXY" },
	{ "no_proxy", NEVER, "as HTTP_PROXY" },
	{ "LD_*", DROP, "code in every program" },
	{ "BASH_ENV", DROP, "code in every shell" },
	{ "ENV", DROP, "code in every shell" },
	{ "BASH_FUNC_*", DROP, "code in every shell" },
	{ "PROMPT_COMMAND", DROP, "code in every shell" },
	{ "PYTHONSTARTUP", DROP, "code in every interpreter" },
	{ "PYTHONHOME", DROP, "another interpreter's library" },
	{ "NODE_OPTIONS", DROP, "code in every node" },
	{ "PERL5*", DROP, "code in every perl" },
	{ "RUBYOPT", DROP, "code in every ruby" },
	{ "JAVA_TOOL_OPTIONS", DROP,
	  "code in every JVM; kept by name, weir's proxy stands behind it" },
	{ "GRADLE_OPTS", DROP, "as JAVA_TOOL_OPTIONS" },
	{ "GIT_*", DROP, "programs that git runs, directories outside" },
	{ "SSH_*", DROP, "the agent's socket is not there" },
	{ "GPG_*", DROP, "the agent's socket is not there" },
	{ "DBUS_*", DROP, "the bus is not there" },
	{ "DISPLAY", DROP, "the X server is not there" },
	{ "WAYLAND_*", DROP, "the compositor is not there" },
	{ "XAUTHORITY", DROP, "a key to the X server" },
	{ "MAKEFLAGS", DROP, "names descriptors that are closed" },
};

/* Names whose values are secrets. */
static const char *const secret_parts[] = { "token",	  "secret", "passw",   "passphrase",
					    "credential", "apikey", "api_key", "private_key" };
/* Beginnings of keys that services hand out. */
static const char *const secret_starts[] = {
	"ghp_",	 "gho_", "ghs_", "github_pat_", "glpat-", "sk-",   "xoxb-",	"xoxp-",
	"xoxa-", "AKIA", "ASIA", "hf_",		"npm_",	  "pypi-", "-----BEGIN"
};

/* How a JVM is told: docs.oracle.com, "Networking Properties" */
#define JAVA_PROXY                                                                                 \
	"-Dhttp.proxyHost=" ENVIRON_PROXY_HOST " -Dhttp.proxyPort=" ENVIRON_PROXY_PORT             \
	" -Dhttps.proxyHost=" ENVIRON_PROXY_HOST " -Dhttps.proxyPort=" ENVIRON_PROXY_PORT

struct build {
	const struct environ_in *in;
	char **v;
	size_t n;
};

static bool pattern_is(const char *pattern, const char *name, size_t len)
{
	size_t n = strlen(pattern);

	if (n && pattern[n - 1] == '*')
		return len >= n - 1 && strncmp(pattern, name, n - 1) == 0;
	return len == n && strncmp(pattern, name, n) == 0;
}

static enum action action_of(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (pattern_is(table[i].pattern, name, len))
			return table[i].action;
	return DROP;
}

static bool part_in(const char *text, size_t len, const char *part)
{
	size_t n = strlen(part);

	for (size_t i = 0; i + n <= len; i++)
		if (strncasecmp(text + i, part, n) == 0)
			return true;
	return false;
}

static bool name_ends(const char *name, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && strncasecmp(name + len - n, end, n) == 0;
}

/* "scheme://user:password@" anywhere */
static bool url_password(const char *value)
{
	for (const char *p = value; (p = strstr(p, "://")); p++) {
		const char *user = p + 3;
		size_t n = strcspn(user, "/@ \t\n");
		const char *colon = memchr(user, ':', n);

		if (user[n] == '@' && colon && colon > user && colon + 1 < user + n)
			return true;
	}
	return false;
}

static bool secret_like(const char *name, size_t len, const char *value)
{
	for (size_t i = 0; i < ARRAY_LEN(secret_parts); i++) {
		size_t n = strlen(secret_parts[i]);

		if (part_in(name, len, secret_parts[i]))
			return true;
		for (const char *p = value; (p = strcasestr(p, secret_parts[i])); p++) {
			size_t space = strspn(p + n, " \t");

			if (p[n + space] == '=' || p[n + space] == ':')
				return true;
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(secret_starts); i++)
		if (strncmp(value, secret_starts[i], strlen(secret_starts[i])) == 0)
			return true;
	return name_ends(name, len, "_KEY") || name_ends(name, len, "_PAT") || url_password(value);
}

static bool paths_visible(const struct environ_in *in, const char *value)
{
	char path[4096];

	for (const char *p = value;; p++) {
		size_t n = strcspn(p, ":");

		if (n && p[0] == '/') {
			if (n >= sizeof(path))
				return false;
			memcpy(path, p, n);
			path[n] = '\0';
			if (!in->visible || !in->visible(in->arg, path))
				return false;
		}
		p += n;
		if (!*p)
			return true;
	}
}

static bool name_valid(const char *name, size_t len)
{
	if (len == 0 || isdigit((unsigned char)name[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '_')
			return false;
	return true;
}

/* Put NAME=VALUE in, in place of an older NAME. */
static int put(struct build *b, const char *name, size_t len, const char *value)
{
	char *s = NULL;

	if (asprintf(&s, "%.*s=%s", (int)len, name, value) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++)
		if (strncmp(b->v[i], s, len + 1) == 0) {
			explicit_bzero(b->v[i], strlen(b->v[i]));
			free(b->v[i]);
			b->v[i] = s;
			return 0;
		}
	if (b->n >= ENVIRON_MAX) {
		free(s);
		return -E2BIG;
	}
	b->v[b->n++] = s;
	return 0;
}

static int put_one(struct build *b, const char *name, const char *value)
{
	return put(b, name, strlen(name), value);
}

static void tell(const struct build *b, const char *name, size_t len, const char *why)
{
	char text[128];

	if (!b->in->dropped)
		return;
	(void)snprintf(text, sizeof(text), "%.*s", (int)len, name);
	b->in->dropped(b->in->arg, text, why);
}

static int host_keep(struct build *b)
{
	for (char *const *v = b->in->host; v && *v; v++) {
		const char *eq = strchr(*v, '=');
		size_t len = eq ? (size_t)(eq - *v) : 0;
		enum action a;
		int r;

		if (!eq || !name_valid(*v, len))
			continue;
		a = feature_off("environ") ? KEEP : action_of(*v, len);
		if (a != KEEP && a != KEEP_PATH)
			continue;
		if (!feature_off("environ") && secret_like(*v, len, eq + 1)) {
			tell(b, *v, len, "its value looks like a secret");
			continue;
		}
		if (a == KEEP_PATH && !paths_visible(b->in, eq + 1)) {
			tell(b, *v, len, "it names a path that is not visible inside");
			continue;
		}
		if ((r = put(b, *v, len, eq + 1)) < 0)
			return r;
	}
	return 0;
}

static const char *host_value(const struct environ_in *in, const char *name)
{
	size_t len = strlen(name);

	for (char *const *v = in->host; v && *v; v++)
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
			return *v + len + 1;
	return NULL;
}

/* What a person named is kept even when it looks like a secret: that is why it was named. */
static int words_keep(struct build *b, struct err *e)
{
	for (size_t i = 0; i < b->in->nwords; i++) {
		const struct environ_word *w = &b->in->words[i];
		const char *value = w->set ? NULL : host_value(b->in, w->name);
		int r;

		if (!name_valid(w->name, strlen(w->name)))
			return err_set(e, 0, "'%s' cannot be the name of a variable", w->name);
		if (!value)
			continue;
		if (action_of(w->name, strlen(w->name)) == NEVER) {
			tell(b, w->name, strlen(w->name), "weir sets it, or keeps it outside");
			continue;
		}
		if ((r = put_one(b, w->name, value)) < 0)
			return r;
	}
	return 0;
}

static int words_set(struct build *b)
{
	for (size_t i = 0; i < b->in->nwords; i++) {
		const struct environ_word *w = &b->in->words[i];
		int r;

		if (w->set && (r = put_one(b, w->name, w->value ? w->value : "")) < 0)
			return r;
	}
	return 0;
}

static int own_set(struct build *b)
{
	const struct environ_in *in = b->in;
	char run[40];
	const char *const vars[][2] = {
		{ "HOME", in->home },	    { "USER", in->user }, { "LOGNAME", in->user },
		{ "SHELL", in->shell },	    { "PWD", in->cwd },	  { "TMPDIR", "/tmp" },
		{ "XDG_RUNTIME_DIR", run },
	};
	static const char *const xdg[][2] = { { "XDG_CONFIG_HOME", "/.config" },
					      { "XDG_DATA_HOME", "/.local/share" },
					      { "XDG_STATE_HOME", "/.local/state" },
					      { "XDG_CACHE_HOME", "/.cache" } };
	int r;

	(void)snprintf(run, sizeof(run), "/run/user/%u", in->uid);
	for (size_t i = 0; i < ARRAY_LEN(vars); i++)
		if ((r = put_one(b, vars[i][0], vars[i][1])) < 0)
			return r;
	for (size_t i = 0; i < ARRAY_LEN(xdg); i++) {
		char *path SCOPED_FREE = NULL;

		if (asprintf(&path, "%s%s", in->home, xdg[i][1]) < 0)
			return -ENOMEM;
		if ((r = put_one(b, xdg[i][0], path)) < 0)
			return r;
	}
	if (!host_value(in, "PATH"))
		return put_one(b, "PATH",
			       "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
	return 0;
}

static const char *value_now(const struct build *b, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < b->n; i++)
		if (strncmp(b->v[i], name, len) == 0 && b->v[i][len] == '=')
			return b->v[i] + len + 1;
	return NULL;
}

/* Behind what "env keep" kept: the option that is said last counts. */
static int java_append(struct build *b, const char *name, const char *more)
{
	const char *now = value_now(b, name);
	char *value SCOPED_FREE = NULL;

	if (asprintf(&value, "%s%s" JAVA_PROXY "%s", now ? now : "", now ? " " : "", more) < 0) {
		value = NULL;
		return -ENOMEM;
	}
	return put_one(b, name, value);
}

/* Downloads of tools that keep them elsewhere by default go to ~/.cache, which may be kept. */
static int caches_set(struct build *b)
{
	static const char *const dirs[][2] = { { "CARGO_HOME", "/.cache/cargo" },
					       { "GOMODCACHE", "/.cache/go-mod" },
					       { "npm_config_cache", "/.cache/npm" } };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		char *path SCOPED_FREE = NULL;
		int r;

		if (value_now(b, dirs[i][0]))
			continue; /* kept by a word of the policy */
		if (asprintf(&path, "%s%s", b->in->home, dirs[i][1]) < 0)
			return -ENOMEM;
		if ((r = put_one(b, dirs[i][0], path)) < 0)
			return r;
	}
	return 0;
}

static int proxy_set(struct build *b)
{
	static const char *const names[] = { "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
					     "http_proxy", "https_proxy", "all_proxy" };
	int r;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if ((r = put_one(b, names[i], ENVIRON_PROXY)) < 0)
			return r;
	if ((r = put_one(b, "NO_PROXY", "localhost,127.0.0.1,::1")) < 0 ||
	    (r = put_one(b, "no_proxy", "localhost,127.0.0.1,::1")) < 0)
		return r;
	/* Gradle looks at the options of its own JVM, not at net.properties. Its scripts evaluate the words,
	 * so the list of hosts stays out: a JVM's default is the same. */
	if ((r = java_append(b, "GRADLE_OPTS", "")) < 0 ||
	    (b->in->java && (r = java_append(b, "JAVA_TOOL_OPTIONS",
					     " -Dhttp.nonProxyHosts=localhost|127.*|[::1]")) < 0))
		return r;
	return put_one(b, "NODE_USE_ENV_PROXY", "1");
}

static int marks_set(struct build *b)
{
	int r = put_one(b, "WEIR", "1");

	return r < 0 ? r : put_one(b, "WEIR_SANDBOX", b->in->id);
}

static int fill(struct build *b, struct err *e)
{
	int r;

	if ((r = host_keep(b)) < 0 || (r = words_keep(b, e)) < 0 || (r = own_set(b)) < 0 ||
	    (r = caches_set(b)) < 0)
		return r;
	if (b->in->proxy && (r = proxy_set(b)) < 0)
		return r;
	if ((r = words_set(b)) < 0)
		return r;
	return marks_set(b); /* not even "env set" pretends to be another sandbox, or none */
}

int environ_build(const struct environ_in *in, char ***envp, struct err *e)
{
	struct build b = { .in = in, .v = reallocarray(NULL, ENVIRON_MAX + 1, sizeof(char *)) };
	int r;

	if (!b.v)
		return err_set(e, ENOMEM, "make the environment");
	r = fill(&b, e);
	if (r == -ENOMEM || r == -E2BIG)
		(void)err_set(e, -r, "make the environment");
	if (r < 0) {
		for (size_t i = 0; i < b.n; i++) {
			explicit_bzero(b.v[i], strlen(b.v[i]));
			free(b.v[i]);
		}
		free(b.v);
		return r;
	}
	b.v[b.n] = NULL;
	*envp = b.v;
	return 0;
}
