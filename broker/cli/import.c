/* SPDX-License-Identifier: ISC */
/* broker/cli/import.c - other tools' settings as policy text.
 * The file is a stranger's: each line that comes of it is held against the parser of policy text
 * before it is printed, and what does not pass is a comment, escaped. */
#include "broker/cli/import.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "policy/policy.h"

#define LINE_MAX_BYTES 2048

struct import {
	FILE *out;
	const char *file;
	bool srt, seen;
};

/* ---- JSONC to JSON: what is taken out becomes spaces, so that positions stay ---- */

static size_t string_end(const char *t, size_t len, size_t i)
{
	for (i++; i < len && t[i] != '"'; i++)
		if (t[i] == '\\')
			i++;
	return i;
}

static void blank(char *t, size_t from, size_t to)
{
	for (; from < to; from++)
		if (t[from] != '\n')
			t[from] = ' ';
}

static void strip_comments(char *t, size_t len)
{
	for (size_t i = 0; i + 1 < len; i++) {
		size_t end = i + 2;

		if (t[i] == '"') {
			i = string_end(t, len, i);
		} else if (t[i] == '/' && t[i + 1] == '/') {
			while (end < len && t[end] != '\n')
				end++;
			blank(t, i, end);
			i = end - 1;
		} else if (t[i] == '/' && t[i + 1] == '*') {
			while (end + 1 < len && !(t[end] == '*' && t[end + 1] == '/'))
				end++;
			end = end + 2 < len ? end + 2 : len;
			blank(t, i, end);
			i = end - 1;
		}
	}
}

static void strip_commas(char *t, size_t len)
{
	size_t comma = len;

	for (size_t i = 0; i < len; i++) {
		if (t[i] == ' ' || t[i] == '\t' || t[i] == '\n' || t[i] == '\r')
			continue;
		if ((t[i] == ']' || t[i] == '}') && comma < len)
			t[comma] = ' ';
		comma = t[i] == ',' ? i : len;
		if (t[i] == '"')
			i = string_end(t, len, i);
	}
}

static json_t *parse(const char *file, const char *text, size_t len, struct err *e)
{
	char *t = malloc(len + 1);
	size_t skip = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	json_error_t why;
	json_t *o;

	if (!t) {
		(void)err_set(e, ENOMEM, "%s", file);
		return NULL;
	}
	memcpy(t, text + skip, len - skip);
	len -= skip;
	strip_comments(t, len);
	strip_commas(t, len);
	o = json_loadb(t, len, 0, &why);
	free(t);
	if (json_is_object(o))
		return o;
	if (o)
		(void)err_set(e, 0, "%s: expected a JSON object", file);
	else
		(void)err_set(e, 0, "%s:%d:%d: not JSON: %s", file, why.line, why.column, why.text);
	json_decref(o);
	return NULL;
}

/* ---- lines ---- */

static void comment(const struct import *im, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void comment(const struct import *im, const char *fmt, ...)
{
	char text[LINE_MAX_BYTES], line[4 * LINE_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)escape_line(line, sizeof(line), text, strlen(text));
	(void)fprintf(im->out, "# %s\n", line);
}

/* Would this line be taken from a policy file? */
static bool line_parses(const char *line, struct err *e)
{
	static char *const none[] = { NULL };
	const struct policy_context ctx = {
		.home = "/", .cwd = "/", .project = "/", .environ = none
	};
	struct policy *p = policy_new(&ctx);
	bool ok = p && policy_add_text(p, LAYER_USER, "", line, strlen(line), e) == 0;

	policy_free(p);
	return ok && !strchr(line, '\n');
}

static void line_put(const struct import *im, const char *key, const char *value, const char *line)
{
	char shown[4 * LINE_MAX_BYTES];
	struct err e = { 0 };
	const char *why;

	(void)escape_line(shown, sizeof(shown), line, strlen(line));
	if (!str_eq(shown, line)) { /* it would not be what a person sees */
		comment(im, "no equivalent: %s \"%s\": it has characters that hide or reorder text",
			key, value);
		return;
	}
	if (line_parses(line, &e)) {
		(void)fprintf(im->out, "%s\n", line);
		return;
	}
	why = strstr(e.what, ": "); /* ":1:7: 'WORD' …" */
	comment(im, "no equivalent: %s \"%s\": %s", key, value, why ? why + 2 : "not one word");
}

/* A word as policy text quotes it */
static void quote(const char *s, char *out, size_t room)
{
	size_t n = 0;
	bool plain = *s && !strpbrk(s, " \t\"\\#");

	if (plain) {
		(void)snprintf(out, room, "%s", s);
		return;
	}
	out[n++] = '"';
	for (; *s && n + 4 < room; s++) {
		if (*s == '"' || *s == '\\')
			out[n++] = '\\';
		out[n++] = *s;
	}
	out[n++] = '"';
	out[n] = '\0';
}

static void each(struct import *im, const json_t *list, const char *key,
		 void (*fn)(struct import *im, const char *key, const char *value))
{
	const json_t *v;
	size_t i;

	if (!list)
		return;
	im->seen = true;
	if (!json_is_array(list)) {
		comment(im, "no equivalent: %s is not a list", key);
		return;
	}
	json_array_foreach(list, i, v)
	{
		if (json_is_string(v) && strlen(json_string_value(v)) < LINE_MAX_BYTES / 2)
			fn(im, key, json_string_value(v));
		else
			comment(im, "no equivalent: %s has an entry that is not a string", key);
	}
}

/* srt filters by name on every port; so does the line that is as wide. */
/* A host is one word: a blank or '#' in it would be syntax of the line that is made of it. */
static bool host_is_word(const struct import *im, const char *key, const char *value)
{
	if (!strpbrk(value, " \t\n\"\\#"))
		return true;
	comment(im, "no equivalent: %s \"%s\": it is not one word", key, value);
	return false;
}

static void allow_host(struct import *im, const char *key, const char *value)
{
	char line[LINE_MAX_BYTES];
	bool local = str_eq(value, "localhost");

	if (!host_is_word(im, key, value))
		return;
	(void)snprintf(line, sizeof(line), "allow %s%s%s", value,
		       strchr(value, ':') || !im->srt ? "" : ":*", local ? " private" : "");
	line_put(im, key, value, line);
}

static void deny_host(struct import *im, const char *key, const char *value)
{
	char line[LINE_MAX_BYTES];

	if (!host_is_word(im, key, value))
		return;
	(void)snprintf(line, sizeof(line), "deny %s", value);
	line_put(im, key, value, line);
}

static bool is_pattern(const char *path)
{
	return strpbrk(path, "*?[{") != NULL;
}

static void path_put(const struct import *im, const char *keyword, const char *key,
		     const char *value)
{
	char line[LINE_MAX_BYTES], word[LINE_MAX_BYTES];

	if (is_pattern(value)) {
		comment(im, "no equivalent: %s \"%s\": a path has no wildcards here", key, value);
		return;
	}
	quote(value, word, sizeof(word));
	(void)snprintf(line, sizeof(line), "%s %.*s", keyword, LINE_MAX_BYTES - 16, word);
	line_put(im, key, value, line);
}

static void allow_write(struct import *im, const char *key, const char *value)
{
	if (str_eq(value, ".") || str_eq(value, "./")) {
		comment(im, "%s \"%s\": the project directory is writable anyway", key, value);
		return;
	}
	if (strncmp(value, "/tmp", 4) == 0 && (value[4] == '/' || value[4] == '\0')) {
		comment(im, "%s \"%s\": a private /tmp is writable anyway", key, value);
		return;
	}
	path_put(im, "write", key, value);
}

static void deny_read(struct import *im, const char *key, const char *value)
{
	path_put(im, "hide", key, value);
}

static void deny_write(struct import *im, const char *key, const char *value)
{
	comment(im,
		"no equivalent: %s \"%s\": only the project and write lines are writable; name "
		"narrower ones",
		key, value);
}

/* ---- the settings ---- */

static void unknown_keys(struct import *im, const json_t *o, const char *front,
			 const char *const *known)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		bool found = false;

		for (const char *const *k = known; *k; k++)
			found |= str_eq(*k, key);
		if (!found)
			comment(im, "no equivalent: %s%s", front, key);
	}
}

static void import_srt(struct import *im, const json_t *net, const json_t *fs)
{
	static const char *const net_known[] = { "allowedDomains", "deniedDomains", NULL };
	static const char *const fs_known[] = { "allowWrite", "denyRead", "denyWrite", NULL };

	im->srt = true;
	if (net) /* there what is not named is denied: weir's default preset would be wider */
		(void)fprintf(im->out, "include none\n");
	each(im, json_object_get(net, "allowedDomains"), "network.allowedDomains", allow_host);
	each(im, json_object_get(net, "deniedDomains"), "network.deniedDomains", deny_host);
	each(im, json_object_get(fs, "allowWrite"), "filesystem.allowWrite", allow_write);
	each(im, json_object_get(fs, "denyRead"), "filesystem.denyRead", deny_read);
	each(im, json_object_get(fs, "denyWrite"), "filesystem.denyWrite", deny_write);
	if (net)
		unknown_keys(im, net, "network.", net_known);
	if (fs)
		unknown_keys(im, fs, "filesystem.", fs_known);
}

static void import_word(struct import *im, const json_t *box, const char *key, const char *keyword)
{
	const json_t *v = json_object_get(box, key);
	char line[LINE_MAX_BYTES];

	if (!v)
		return;
	im->seen = true;
	if (!json_is_string(v)) {
		comment(im, "no equivalent: sandbox.%s is not a word", key);
		return;
	}
	(void)snprintf(line, sizeof(line), "%s %.*s", keyword, 1024, json_string_value(v));
	line_put(im, key, json_string_value(v), line);
}

static void import_block(struct import *im, const json_t *box)
{
	static const char *const known[] = { "enabled",	   "network",	    "allowHosts",
					     "allowWrite", "onUnavailable", NULL };

	im->srt = false;
	if (json_is_false(json_object_get(box, "enabled"))) {
		im->seen = true;
		comment(im,
			"no equivalent: sandbox.enabled is false: weir runs only what it is asked to");
	}
	import_word(im, box, "network", "network");
	import_word(im, box, "onUnavailable", "on-unavailable");
	each(im, json_object_get(box, "allowHosts"), "sandbox.allowHosts", allow_host);
	each(im, json_object_get(box, "allowWrite"), "sandbox.allowWrite", allow_write);
	unknown_keys(im, box, "sandbox.", known);
}

static int nothing(const char *file, struct err *e)
{
	(void)err_set(e, 0, "'%s' has no settings that weir knows", file);
	return err_fix(e,
		       "expected network.allowedDomains, filesystem.allowWrite, or a \"sandbox\" "
		       "block with allowHosts");
}

int import_settings(const char *file, const char *text, size_t len, FILE *out, struct err *e)
{
	struct import im = { .file = file };
	SCOPED_FREE char *made = NULL;
	size_t made_len = 0;
	json_t *o = parse(file, text, len, e);
	const json_t *net = json_object_get(o, "network"), *fs = json_object_get(o, "filesystem");
	const json_t *box = json_object_get(o, "sandbox");

	if (!o)
		return -EINVAL;
	im.out = open_memstream(&made, &made_len);
	if (!im.out) {
		json_decref(o);
		return err_set(e, ENOMEM, "%s", file);
	}
	comment(&im, "from %s", file);
	import_srt(&im, json_is_object(net) ? net : NULL, json_is_object(fs) ? fs : NULL);
	if (json_is_object(box))
		import_block(&im, box);
	json_decref(o);
	(void)fclose(im.out);
	if (!im.seen)
		return nothing(file, e);
	if (made)
		(void)fwrite(made, 1, made_len, out);
	return 0;
}
