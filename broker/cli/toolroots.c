/* SPDX-License-Identifier: ISC */
/* broker/cli/toolroots.c - the toolchains that PATH, the environment, P/.venv and CMD lead to.
 * Runs as the user, before anything is inside. PATH and the variables are the user's own; what lies in
 * P is a stranger's, so what a link, a pyvenv.cfg or a first line of it names is shared only where the
 * table or the shape of a toolchain says that it is one, and only where a read grant could be given. */
#include "broker/cli/toolroots.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/mounts.h"
#include "broker/cli/places.h"
#include "broker/cli/plan.h"
#include "broker/cli/plan_parts.h"
#include "broker/cli/visible.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"
#include "sandbox/toolroots.h"

#define ROOTS_MAX 24  /* toolchains of one sandbox: each is a mount */
#define NESTS_MAX 64  /* toolchains within one whose credentials are hidden by name */
#define FOLLOW_MAX 3  /* from CMD to its interpreter and on */
#define TEXT_MAX 4096 /* of a pyvenv.cfg or a first line */

/** struct roots - on the way; @n counts what was added; @stranger: a file of P leads here, so that bin and
 * lib side by side, which any project may have, is not enough */
struct roots {
	struct sandbox_plan *p;
	const struct judge *j;
	struct mounts *m;
	const struct plan_in *in;
	unsigned n;
	bool stranger;
	bool command; /* it is CMD that is followed */
	struct err *e;
};

static void tell(const struct roots *r, const char *path, const char *what)
{
	if (r->in->verbose && !r->in->quiet)
		note("toolchain '%s': %s", path, what);
}

static bool join(char out[PATH_MAX], const char *a, const char *b)
{
	int n = snprintf(out, PATH_MAX, "%s/%s", a, b);

	return n > 0 && n < PATH_MAX;
}

static bool dir_of(const char *path, char out[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return false;
	(void)snprintf(out, PATH_MAX, "%.*s", (int)(slash - path), path);
	return true;
}

/* ---- what is added ---- */

static int secrets_hide(struct roots *r, const char *root)
{
	char path[PATH_MAX];
	int n = 0;

	for (const char *const *s = toolroot_secrets; *s && n == 0; s++)
		if (join(path, root, *s))
			n = plan_hide(r->p, path);
	return n < 0 ? err_set(r->e, -n, "hide the credentials below '%s'", root) : 0;
}

static bool is_plain_dir(const char *path)
{
	char real[PATH_MAX];
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && realpath(path, real) &&
	       str_eq(path, real);
}

static int nests_hide(struct roots *r, const char *root)
{
	char pattern[PATH_MAX];
	int n = 0;

	for (const char *const *s = toolroot_nests; *s && n == 0; s++) {
		glob_t found = { 0 };

		if (!join(pattern, root, *s) || strcspn(root, "*?[\\") != strlen(root) ||
		    glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
			continue;
		for (size_t i = 0; i < found.gl_pathc && i < NESTS_MAX && n == 0; i++)
			if (is_plain_dir(found.gl_pathv[i])) /* else where it leads is one */
				n = secrets_hide(r, found.gl_pathv[i]);
		globfree(&found);
	}
	return n;
}

/* A way out to Windows, where WSL puts its disks into PATH */
static bool is_foreign(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (unsigned long)fs.f_type == V9FS_MAGIC;
}

/* Share the canonical directory @path. Return: 1 it is inside now, 0 it may not be, -errno */
static int root_add(struct roots *r, const char *path)
{
	struct err why = { 0 };
	char point[PATH_MAX];
	int n;

	if (visible(r->p, path)) {
		n = r->p->view_host ? secrets_hide(r, path) : 0;
		if (n == 0 && r->p->view_host)
			n = nests_hide(r, path);
		return n < 0 ? n : 1;
	}
	if (r->n >= ROOTS_MAX || is_foreign(path)) {
		tell(r, path, "left out");
		return 0;
	}
	if ((n = mounts_below(r->m, path, point, sizeof(point))) != 0) {
		tell(r, path, n < 0 ? "left out" : "left out: something is mounted below it");
		return 0;
	}
	if (grant_tool(r->j, path, r->p, &why) < 0) {
		tell(r, path, why.what);
		return 0;
	}
	r->n++;
	tell(r, path, "read-only");
	if ((n = secrets_hide(r, path)) < 0 || (n = nests_hide(r, path)) < 0)
		return n;
	return 1;
}

/* The parts of the row of the table that @real lies in. Return: 1 there was one, 0, -errno */
static int row_add(struct roots *r, const char *real)
{
	const char *home = r->p->home;
	char path[PATH_MAX], part[PATH_MAX];

	if (!path_within(real, home))
		return 0;
	for (const struct toolroot_row *row = toolroots; row->at; row++) {
		if (!join(path, home, row->at) || !path_within(real, path))
			continue;
		for (const char *const *s = row->parts; *s; s++) {
			int n = join(path, home, *s) && realpath(path, part) ? root_add(r, part)
									     : 0;

			if (n < 0)
				return n;
			/* ~/.pyenv may be a link to another disk */
			if (n == 1 && !str_eq(path, part) &&
			    (n = grant_links(path, r->p, r->e)) < 0)
				return n;
		}
		return 1;
	}
	return 0;
}

/* A virtual environment, conda's, or a prefix that holds Python's own library */
static bool is_python(const char *prefix)
{
	static const char *const marks[] = { "pyvenv.cfg", "conda-meta", "lib/python3.*" };
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		glob_t found = { 0 };
		bool is = join(path, prefix, marks[i]) &&
			  glob(path, GLOB_NOSORT, NULL, &found) == 0;

		globfree(&found);
		if (is)
			return true;
	}
	return false;
}

/* X of X/bin when X has the shape of a toolchain */
static bool prefix_of(const struct roots *r, const char *real, char prefix[PATH_MAX])
{
	static const char *const bins[] = { "bin", "sbin", "condabin" };
	const char *name = strrchr(real, '/');
	char mark[PATH_MAX];
	bool is_bin = false;

	for (size_t i = 0; i < ARRAY_LEN(bins); i++)
		is_bin = is_bin || (name && str_eq(name + 1, bins[i]));
	if (!is_bin || !dir_of(real, prefix))
		return false;
	if (r->stranger)
		return is_python(prefix);
	for (const char *const *s = toolroot_marks; *s; s++)
		if (join(mark, prefix, *s) && access(mark, F_OK) == 0)
			return true;
	return false;
}

/* Of a prefix that a file of P leads to what python needs, and not the rest of it: an environment may be the
 * root of somebody's project. Return: 1 it is inside now, 0, -errno */
static int parts_add(struct roots *r, const char *prefix)
{
	char part[PATH_MAX], real[PATH_MAX];
	int any = 0;

	for (const char *const *s = toolroot_parts; *s; s++) {
		int n = join(part, prefix, *s) && realpath(part, real) && str_eq(part, real)
				? root_add(r, real)
				: 0;

		if (n < 0)
			return n;
		any = any || n == 1;
	}
	return any;
}

/* What programs in the directory @dir, as it is spelled, need. @itself: where it has no known shape, the
 * directory alone; else nothing. Return: 0, -errno */
static int dir_add(struct roots *r, const char *dir, bool itself)
{
	char real[PATH_MAX], prefix[PATH_MAX];
	const bool was = r->stranger;
	int n;

	if (dir[0] != '/' || visible_always(dir) || !realpath(dir, real))
		return 0;
	/* a link of P that leads out of it */
	r->stranger = was || (r->p->project && path_within(dir, r->p->project));
	n = visible(r->p, real) && !r->p->view_host ? 1 : row_add(r, real);
	if (n == 0 && prefix_of(r, real, prefix))
		n = r->stranger ? parts_add(r, prefix) : root_add(r, prefix);
	if (n == 0 && itself && !r->stranger)
		n = root_add(r, real);
	r->stranger = was;
	if (n <= 0 || str_eq(dir, real))
		return n < 0 ? n : 0;
	return grant_links(dir, r->p, r->e);
}

/* ---- what leads there ---- */

static ssize_t text_read(const char *path, char text[TEXT_MAX])
{
	SCOPED_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n = fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)
			    ? -1
			    : read(fd, text, TEXT_MAX - 1);

	text[n > 0 ? n : 0] = '\0';
	return n;
}

/* "home = /DIR" of a virtual environment is where its python comes from. */
static int venv_home(struct roots *r, const char *prefix)
{
	char path[PATH_MAX], text[TEXT_MAX];
	char *line, *rest = text;

	if (!join(path, prefix, "pyvenv.cfg") || text_read(path, text) <= 0)
		return 0;
	while ((line = strsep(&rest, "\n"))) {
		size_t n = strspn(line, " \t");

		if (strncmp(line + n, "home", 4) != 0)
			continue;
		n += 4;
		n += strspn(line + n, " \t");
		if (line[n] != '=')
			continue;
		n += 1 + strspn(line + n + 1, " \t");
		line[n + strcspn(line + n, "\r")] = '\0';
		return dir_add(r, line + n, false);
	}
	return 0;
}

/* "#!/DIR/PROGRAM …" */
static bool interpreter(const char *path, char out[PATH_MAX])
{
	char text[TEXT_MAX];
	size_t at = 2, n;

	if (text_read(path, text) < 4 || text[0] != '#' || text[1] != '!')
		return false;
	at += strspn(text + at, " \t");
	n = strcspn(text + at, " \t\r\n");
	if (text[at] != '/' || n >= PATH_MAX)
		return false;
	memcpy(out, text + at, n);
	out[n] = '\0';
	return true;
}

/* A program, as it is spelled: where its links lead, its environment, its interpreter. */
static int file_follow(struct roots *r, const char *file, unsigned depth)
{
	char real[PATH_MAX], dir[PATH_MAX], prefix[PATH_MAX], next[PATH_MAX];
	int n = 0;

	if (depth >= FOLLOW_MAX || visible_always(file) || !realpath(file, real))
		return 0;
	if (dir_of(file, dir) && dir_of(dir, prefix))
		n = venv_home(r, prefix);
	if (n == 0 && !visible(r->p, real) && dir_of(real, dir))
		n = dir_add(r, dir, false);
	if (n == 0 && visible(r->p, real) && !str_eq(file, real))
		n = grant_links(file, r->p, r->e);
	if (n == 0 && !visible_always(real) && interpreter(real, next)) {
		n = file_follow(r, next, depth + 1);
		if (n == 0 && r->command && !visible(r->p, next) && access(next, X_OK) == 0) {
			free(r->p->cmd_interp);
			n = plan_copy(&r->p->cmd_interp, next, r->e);
		}
	}
	return n;
}

static bool in_project(const struct roots *r, const char *path)
{
	char real[PATH_MAX];

	return r->p->project && realpath(path, real) && path_within(real, r->p->project);
}

/* The environment at @prefix: itself unless it is in P, and where its python comes from. */
static int env_add(struct roots *r, const char *prefix, bool itself)
{
	char path[PATH_MAX];
	int n = itself ? dir_add(r, prefix, true) : 0;

	r->stranger = in_project(r, prefix);
	if (n == 0)
		n = venv_home(r, prefix);
	if (n == 0 && join(path, prefix, "bin/python") && access(path, F_OK) == 0)
		n = file_follow(r, path, 0);
	r->stranger = false;
	return n;
}

static const char *env_value(const struct roots *r, const char *name)
{
	size_t len = strlen(name);

	for (char *const *v = r->in->environ; *v; v++)
		if (strncmp(*v, name, len) == 0 && (*v)[len] == '=')
			return *v + len + 1;
	return NULL;
}

static int path_add(struct roots *r, const char *path)
{
	char dir[PATH_MAX];
	int n = 0;

	while (path && *path && n == 0) {
		size_t len = strcspn(path, ":");

		if (len > 0 && len < sizeof(dir)) {
			memcpy(dir, path, len);
			dir[len] = '\0';
			n = dir_add(r, dir, true);
		}
		path += len + (path[len] == ':');
	}
	return n;
}

int command_find(const struct plan_in *in, char *file)
{
	const char *cmd = in->argv[0], *path = NULL;

	if (strchr(cmd, '/')) {
		int n = snprintf(file, PATH_MAX, "%s%s%s", cmd[0] == '/' ? "" : in->place->cwd,
				 cmd[0] == '/' ? "" : "/", cmd);

		return n > 0 && n < PATH_MAX && access(file, F_OK) == 0;
	}
	for (char *const *v = in->environ; *v && !path; v++)
		if (strncmp(*v, "PATH=", 5) == 0)
			path = *v + 5;
	while (path && *path) {
		size_t len = strcspn(path, ":");
		int n = snprintf(file, PATH_MAX, "%.*s/%s", (int)len, path, cmd);

		if (len && n > 0 && n < PATH_MAX && access(file, X_OK) == 0)
			return 1;
		path += len + (path[len] == ':');
	}
	return 0;
}

int toolroots_plan(struct sandbox_plan *p, const struct judge *j, struct mounts *m,
		   const struct plan_in *in, struct err *e)
{
	static const char *const prefixes[] = { "VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME",
						"GOROOT" };
	struct roots r = { .p = p, .j = j, .m = m, .in = in, .e = e };
	char file[PATH_MAX], dir[PATH_MAX];
	int n = path_add(&r, env_value(&r, "PATH"));

	for (size_t i = 0; i < ARRAY_LEN(prefixes) && n == 0; i++) {
		const char *prefix = env_value(&r, prefixes[i]);

		if (prefix && prefix[0] == '/' && !visible_always(prefix))
			n = env_add(&r, prefix, true);
	}
	if (n == 0 && p->project && join(file, p->project, ".venv") && access(file, F_OK) == 0)
		n = env_add(&r, file, false);
	if (n == 0 && command_find(in, file)) {
		r.stranger = in_project(&r, file) || (dir_of(file, dir) && in_project(&r, dir));
		r.command = true;
		n = file_follow(&r, file, 0);
	}
	return n;
}
