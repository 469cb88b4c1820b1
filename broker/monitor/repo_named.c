/* SPDX-License-Identifier: ISC */
/* broker/monitor/repo_named.c - which files that the command may write does git's configuration name?
 * Of the repository, of the user and of the system, with what they include wherever that lies. Reads the
 * text as git does, roughly, and believes none of it: a name is kept when it lies in P or in a write grant
 * by its spelling, or by where its links lead now, and is only ever looked at there, link by link. Too
 * many names, too deep an include and too long a file end the reading.
 *   CONFIG --a value of a key that names a file--> kept; an include --> CONFIG again */
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
	bool user; /* not of the repository, which a stranger may have made: it may include what it likes */
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

/* @path relative to the directory @dir, "." for that itself; NULL: it lies elsewhere */
static const char *below(const char *dir, const char *path)
{
	size_t n = dir ? strlen(dir) : 0;

	if (n == 0 || strncmp(path, dir, n) != 0)
		return NULL;
	return path[n] == '/' ? path + n + 1 : path[n] ? NULL : ".";
}

const struct plan_grant *repo_named_grant(const struct sandbox_plan *plan, const char *path)
{
	for (size_t i = 0; i < plan->ngrants; i++) {
		const struct plan_grant *g = &plan->grants[i];

		if (g->write && g->is_dir && !g->guard && below(g->path, path))
			return g;
	}
	return NULL;
}

/* @path as it is kept: relative to P, or absolute in a write grant; NULL: the command cannot write there */
static const char *place_of(const struct sandbox_plan *plan, const char *path)
{
	const char *name = below(plan->project, path);

	return name || !repo_named_grant(plan, path) ? name : path;
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

/* @path as it is spelled, and where its links lead now. */
static void keep_both(struct repo_named *n, const struct sandbox_plan *plan, const char *path,
		      bool hooks)
{
	const char *name = place_of(plan, path);
	char real[PATH_MAX];

	if (name)
		(void)keep(n, name, hooks);
	if (realpath(path, real) && (name = place_of(plan, real)))
		(void)keep(n, name, hooks);
}

static void hooks_found(const struct reading *in, const char *value)
{
	char path[PATH_MAX];
	size_t len;

	if (!absolute(path, in->plan, in->tree, value))
		return;
	keep_both(in->n, in->plan, path, true);
	len = strlen(path);
	if (len > 2 && str_eq(path + len - 2, "/_")) { /* husky: each of them runs the one beside */
		path[len - 2] = '\0';
		keep_both(in->n, in->plan, path, true);
	}
}

/* Read where its links lead, as git does; whoever changes them meanwhile has another file read, of which
 * nothing is told but names in P. */
static void include_found(const struct reading *in, const char *value)
{
	char path[PATH_MAX], real[PATH_MAX];
	struct reading *next;

	if (!absolute(path, in->plan, in->dir, value))
		return;
	keep_both(in->n, in->plan, path, false);
	if (!realpath(path, real) || (!in->user && !place_of(in->plan, real)))
		return;
	next = calloc(1, sizeof(*next));
	if (!next)
		return;
	next->user = in->user;
	next->n = in->n;
	next->plan = in->plan;
	memcpy(next->tree, in->tree, sizeof(next->tree));
	*strrchr(path, '/') = '\0';
	memcpy(next->dir, path, sizeof(next->dir));
	file_read(next, AT_FDCWD, real);
	free(next);
}

/* Each word that may be a file: a command line's first, and the script that it is given. */
static void program_found(const struct reading *in, char *value)
{
	char path[PATH_MAX];

	for (char *word; (word = strsep(&value, " \t;|&()'\""));)
		if (strpbrk(word, "./") && word[0] != '-' &&
		    absolute(path, in->plan, in->tree, word[0] == '!' ? word + 1 : word))
			keep_both(in->n, in->plan, path, false);
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

/* ~/.gitconfig and its like: what they name by a relative path, each repository has. */
void repo_named_read_user(struct repo_named *n, const struct sandbox_plan *plan)
{
	const char *home = plan->home ? plan->home : "/nonexistent";
	const char *xdg = getenv("XDG_CONFIG_HOME"), *other = getenv("GIT_CONFIG_GLOBAL");
	char files[3][PATH_MAX] = { "/etc/gitconfig" }, real[PATH_MAX];

	if (other && *other) {
		(void)snprintf(files[1], PATH_MAX, "%s", other);
	} else {
		(void)snprintf(files[1], PATH_MAX, "%s%s/git/config",
			       xdg && xdg[0] == '/' ? xdg : home,
			       xdg && xdg[0] == '/' ? "" : "/.config");
		(void)snprintf(files[2], PATH_MAX, "%s/.gitconfig", home);
	}
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct reading *in = files[i][0] == '/' ? reading_new(n, plan) : NULL;

		if (in && realpath(files[i], real) &&
		    absolute(in->tree, plan, plan->project, ".")) {
			*strrchr(files[i], '/') = '\0';
			memcpy(in->dir, files[i], sizeof(in->dir));
			in->user = true;
			file_read(in, AT_FDCWD, real);
		}
		free(in);
	}
}

void repo_named_free(struct repo_named *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n; i++)
		free(n->v[i].path);
	free(n);
}
