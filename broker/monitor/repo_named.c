/* SPDX-License-Identifier: ISC */
/* broker/monitor/repo_named.c - which files of P does a repository's configuration name?
 * Reads the text as git does, roughly, and believes none of it: a name is kept when it lies below P by
 * its spelling, and is only ever looked at there, link by link. Too many names, too deep an include and
 * too long a file end the reading.
 *   CONFIG --a value of a key that names a file--> kept; an include below P --> CONFIG again */
#include "broker/monitor/repo_named.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"

#define TEXT_MAX (64 << 10)
#define VALUE_MAX 1024
#define FILES_MAX 16 /* configuration files, with what they include */

/** struct reading - one configuration file */
struct reading {
	struct repo_named *n;
	const struct sandbox_plan *plan;
	char dir[PATH_MAX];  /* of the file, absolute */
	char tree[PATH_MAX]; /* where its hooks and programs run, absolute */
	char section[64];
};

static void file_read(struct reading *in, int at, const char *file);

/* @value, relative to @base, without "." and "..". Return: does it fit? */
static bool absolute(char out[PATH_MAX], const struct sandbox_plan *plan, const char *base,
		     const char *value)
{
	const bool home = strncmp(value, "~/", 2) == 0 && plan->home;
	char all[PATH_MAX], *rest = all;
	int k = value[0] == '/' ? snprintf(all, sizeof(all), "%s", value)
				: snprintf(all, sizeof(all), "%s/%s", home ? plan->home : base,
					   home ? value + 2 : value);
	size_t len = 0;

	if (k < 0 || (size_t)k >= sizeof(all))
		return false;
	for (char *part; (part = strsep(&rest, "/"));) {
		if (!*part || str_eq(part, "."))
			continue;
		if (str_eq(part, "..")) {
			while (len > 0 && out[--len] != '/')
				;
			continue;
		}
		out[len++] = '/';
		memcpy(out + len, part, strlen(part));
		len += strlen(part);
	}
	out[len] = '\0';
	return true;
}

/* The part of @path below P, or NULL. */
static const char *below(const struct sandbox_plan *plan, const char *path)
{
	size_t n = plan->project ? strlen(plan->project) : 0;

	return n > 0 && strncmp(path, plan->project, n) == 0 && path[n] == '/' ? path + n + 1
									       : NULL;
}

/* Return: was it not there yet? */
static bool keep(struct repo_named *n, const char *path, bool hooks)
{
	for (size_t i = 0; i < n->n; i++)
		if (n->v[i].hooks == hooks && str_eq(n->v[i].path, path))
			return false;
	if (n->n == REPO_NAMED_MAX || !(n->v[n->n].path = strdup(path)))
		return false;
	n->v[n->n++].hooks = hooks;
	return true;
}

static void hooks_found(const struct reading *in, const char *value)
{
	char path[PATH_MAX];
	const char *name;
	size_t len;

	if (!absolute(path, in->plan, in->tree, value) || !(name = below(in->plan, path)))
		return;
	(void)keep(in->n, name, true);
	len = strlen(name);
	if (len > 2 && str_eq(name + len - 2, "/_")) { /* husky: each of them runs the one beside */
		*strrchr(path, '/') = '\0';
		(void)keep(in->n, name, true);
	}
}

/* A file below P, each directory of its path opened without following a link. Return: the directory,
 * with @last, or -1 */
static int parent_open(int at, char *path, const char **last)
{
	int fd = openat(at, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char *part = path;

	for (char *slash; fd >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
		int next;

		*slash = '\0';
		next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)close(fd);
		fd = next;
	}
	*last = part;
	return fd;
}

static void include_found(const struct reading *in, const char *value)
{
	char path[PATH_MAX], name[PATH_MAX];
	struct reading *next;
	SCOPED_FD int fd = -1;
	const char *rel, *last;

	if (!absolute(path, in->plan, in->dir, value) || !(rel = below(in->plan, path)) ||
	    !keep(in->n, rel, false))
		return;
	(void)snprintf(name, sizeof(name), "%s", rel);
	fd = parent_open(in->plan->project_fd, name, &last);
	next = fd < 0 ? NULL : calloc(1, sizeof(*next));
	if (!next)
		return;
	next->n = in->n;
	next->plan = in->plan;
	memcpy(next->tree, in->tree, sizeof(next->tree));
	*strrchr(path, '/') = '\0';
	memcpy(next->dir, path, sizeof(next->dir));
	file_read(next, fd, last);
	free(next);
}

/* Each word that may be a file: a command line's first, and the script that it is given. */
static void program_found(const struct reading *in, char *value)
{
	char path[PATH_MAX];
	const char *name;

	for (char *word; (word = strsep(&value, " \t;|&()'\""));)
		if (strpbrk(word, "./") && word[0] != '-' &&
		    absolute(path, in->plan, in->tree, word[0] == '!' ? word + 1 : word) &&
		    (name = below(in->plan, path)))
			(void)keep(in->n, name, false);
}

static void value_found(struct reading *in, const char *key, char *value)
{
	static const char *const programs[] = {
		"fsmonitor",	     "editor",		"pager",
		"sshcommand",	     "askpass",		"gitproxy",
		"program",	     "command",		"cmd",
		"textconv",	     "clean",		"smudge",
		"process",	     "driver",		"helper",
		"external",	     "packobjectshook", "difffilter",
		"uploadpack",	     "receivepack",	"attributesfile",
		"defaultkeycommand",
	};
	const bool core = strcasecmp(in->section, "core") == 0;

	if (core && strcasecmp(key, "worktree") == 0)
		(void)absolute(in->tree, in->plan, in->dir, value);
	else if (core && strcasecmp(key, "hookspath") == 0)
		hooks_found(in, value);
	else if (strncasecmp(in->section, "include", 7) == 0 && strcasecmp(key, "path") == 0)
		include_found(in, value);
	else if (strcasecmp(in->section, "alias") == 0 || strcasecmp(in->section, "pager") == 0)
		program_found(in, value);
	else
		for (size_t i = 0; i < ARRAY_LEN(programs); i++)
			if (strcasecmp(key, programs[i]) == 0)
				program_found(in, value);
}

/* ---- the text ---- */

/* A value as git reads it, quotes and escapes taken away, up to its end. Return: what follows it */
static const char *value_read(const char *s, char out[VALUE_MAX])
{
	bool quoted = false;
	size_t n = 0, end = 0;

	s += strspn(s, " \t");
	for (; *s && *s != '\n' && (quoted || (*s != '#' && *s != ';')); s++) {
		if (*s == '"') {
			quoted = !quoted;
			continue;
		}
		if (*s == '\\' && s[1] == '\r' && s[2] == '\n')
			s++;
		if (*s == '\\' && s[1] && *++s == '\n')
			continue;
		if (n + 1 < VALUE_MAX)
			out[n++] = *s;
		if (quoted || !isspace((unsigned char)*s))
			end = n;
	}
	out[end] = '\0';
	return s + strcspn(s, "\n");
}

/* [section "of this"], of which the first word is kept. Return: what follows it */
static const char *section_read(struct reading *in, const char *s)
{
	size_t n = strcspn(s, "] \t\".\n");

	(void)snprintf(in->section, sizeof(in->section), "%.*s", (int)(n < 63 ? n : 63), s);
	for (bool quoted = false; *s && *s != '\n' && (quoted || *s != ']'); s++) {
		if (*s == '"')
			quoted = !quoted;
		else if (*s == '\\' && s[1])
			s++;
	}
	return *s == ']' ? s + 1 : s;
}

static void text_read(struct reading *in, const char *s)
{
	char key[64], value[VALUE_MAX];

	while (*(s += strspn(s, " \t\r\n"))) {
		size_t n = strspn(
			s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");

		if (*s == '[') {
			s = section_read(in, s + 1);
			continue;
		}
		(void)snprintf(key, sizeof(key), "%.*s", (int)(n < 63 ? n : 63), s);
		s += n;
		s += strspn(s, " \t");
		if (n == 0 || *s != '=') {
			s += strcspn(s, "\n");
			continue;
		}
		s = value_read(s + 1, value);
		if (*value)
			value_found(in, key, value);
	}
}

static void file_read(struct reading *in, int at, const char *file)
{
	SCOPED_FD int fd = -1;
	char *text = NULL;
	struct stat st;
	ssize_t n;

	if (in->n->files++ >= FILES_MAX)
		return;
	fd = openat(at, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(text = malloc(TEXT_MAX)))
		return;
	n = read(fd, text, TEXT_MAX - 1);
	if (n > 0) {
		text[n] = '\0';
		text_read(in, text);
	}
	free(text);
}

/* ---- the files ---- */

static struct reading *reading_new(struct repo_named *n, const struct sandbox_plan *plan)
{
	struct reading *in = plan->project && plan->project_fd >= 0 ? calloc(1, sizeof(*in)) : NULL;

	if (!in)
		return NULL;
	in->n = n;
	in->plan = plan;
	return in;
}

void repo_named_read(struct repo_named *n, const struct sandbox_plan *plan, int git,
		     const char *path, const char *file)
{
	struct reading *in = reading_new(n, plan);
	const char *slash;

	if (!in)
		return;
	if (absolute(in->dir, plan, plan->project, *path ? path : ".") &&
	    absolute(in->tree, plan, plan->project,
		     path[0] == '/' ? "."
		     : *path	    ? path
				    : ".")) {
		slash = strrchr(in->tree, '/');
		if (slash && str_eq(slash, "/.git"))
			in->tree[slash - in->tree] = '\0';
		file_read(in, git, file);
	}
	free(in);
}

void repo_named_read_common(struct repo_named *n, const struct sandbox_plan *plan, int git)
{
	SCOPED_FD int fd = openat(git, "commondir", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	SCOPED_FD int dir = -1;
	char line[PATH_MAX], path[PATH_MAX];
	ssize_t k = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	if (k <= 0)
		return;
	line[k] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	dir = openat(git, line, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0 && absolute(path, plan, plan->gitdir, line))
		repo_named_read(n, plan, dir, path, "config");
}

void repo_named_free(struct repo_named *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n; i++)
		free(n->v[i].path);
	free(n);
}
