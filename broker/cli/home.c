/* SPDX-License-Identifier: ISC */
/* broker/cli/home.c - what the home directory inside will hold.
 * Runs as the user before anything exists of the sandbox. A dotfile may be a link that somebody made on
 * purpose, and may hold what its name does not say: it is judged by what was opened, then by its
 * text. */
#include "broker/cli/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker/cli/cache.h"
#include "broker/cli/judge.h"
#include "broker/cli/places.h"
#include "broker/cli/plan.h"
#include "broker/cli/visible.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/dotfiles.h"
#include "sandbox/plan.h"

/** struct copying - one dotfile on its way into the plan */
struct copying {
	struct sandbox_plan *p;
	struct judge *j;
	const struct plan_in *in;
	const struct policy_grant *line; /* the policy's, or NULL: the table's */
	struct err *e;
};

static void left_out(const struct copying *c, const char *name, const char *why)
{
	if (!c->in->quiet && (c->in->verbose || c->line))
		note("'~/%s' is left out: %s", name, why);
}

/* Where a link may lead: what is below the home, or inside for everybody. */
static bool target_fits(const struct copying *c, const char *path)
{
	static const char *const public[] = { "/usr", "/etc", "/nix/store" };

	for (size_t i = 0; i < ARRAY_LEN(public); i++)
		if (path_within(path, public[i]))
			return true;
	return path_within(path, c->p->home);
}

/* Open @name of the home for reading when it may be copied. Return: a descriptor, or -1 */
static int dotfile_open(const struct copying *c, const char *name, struct stat *st)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	char path[PATH_MAX], self[40], why[PATH_MAX + 64];
	SCOPED_FD int fd = -1;
	const char *what;
	ssize_t n = snprintf(path, sizeof(path), "%s/%s", c->p->home, name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return -1;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (fd < 0 || fstat(fd, st) < 0)
		return -1;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	if (hidden_is(c->p, path))
		return -1;
	if (!S_ISREG(st->st_mode)) {
		left_out(c, name, "it is no plain file");
		return -1;
	}
	if (st->st_size > (off_t)DOTFILE_MAX) {
		left_out(c, name, "it is larger than 64 KiB");
		return -1;
	}
	if ((what = judge_secret(c->j, path)) || !target_fits(c, path)) {
		(void)snprintf(why, sizeof(why), "it leads to '%s'%s%s", path, what ? ": " : "",
			       what ? what : "");
		left_out(c, name, why);
		return -1;
	}
	return open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static int text_read(int fd, struct plan_file *f, size_t size)
{
	if (!(f->text = malloc(size + 1)))
		return -ENOMEM;
	while (f->len < size) {
		ssize_t n = read(fd, f->text + f->len, size - f->len);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		f->len += (size_t)n;
	}
	return 0;
}

static bool known(const struct sandbox_plan *p, const char *name)
{
	for (size_t i = 0; i < p->ndotfiles; i++)
		if (str_eq(p->dotfiles[i].name, name))
			return true;
	return false;
}

static void file_forget(struct plan_file *f)
{
	if (f->text)
		explicit_bzero(f->text, f->len);
	free(f->text);
	free(f->name);
}

static int room_make(struct sandbox_plan *p, const char *name, struct err *e)
{
	if (p->ndotfiles >= DOTFILES_MAX)
		return err_set(e, E2BIG, "copy more than %d files into the home inside",
			       DOTFILES_MAX);
	if (!p->dotfiles && !(p->dotfiles = calloc(DOTFILES_MAX, sizeof(p->dotfiles[0]))))
		return err_set(e, ENOMEM, "copy '~/%s'", name);
	return 0;
}

int home_file_fill(struct plan_file *f, const char *name, const char *text, size_t len, mode_t mode,
		   struct err *e)
{
	struct plan_file new = { .len = len, .mode = mode };

	if (!(new.text = malloc(len + 1)) || !(new.name = strdup(name))) {
		free(new.text);
		return err_set(e, ENOMEM, "copy '%s'", name);
	}
	memcpy(new.text, text, len);
	*f = new;
	return 0;
}

int home_file_add(struct sandbox_plan *p, const char *name, const char *text, size_t len,
		  mode_t mode, struct err *e)
{
	int r = room_make(p, name, e);

	if (r == 0)
		r = home_file_fill(&p->dotfiles[p->ndotfiles], name, text, len, mode, e);
	if (r == 0)
		p->ndotfiles++;
	return r;
}

static int dotfile_copy(const struct copying *c, const char *name)
{
	struct sandbox_plan *p = c->p;
	struct plan_file f = { .len = 0 };
	struct stat st;
	SCOPED_FD int fd = known(p, name) ? -1 : dotfile_open(c, name, &st);
	unsigned line;
	char why[80];
	int r;

	if (fd < 0)
		return 0;
	if ((r = room_make(p, name, c->e)) < 0)
		return r;
	if (text_read(fd, &f, (size_t)st.st_size) < 0 || !(f.name = strdup(name))) {
		file_forget(&f);
		left_out(c, name, "it cannot be read");
		return 0;
	}
	if ((line = secret_line(f.text, f.len))) {
		file_forget(&f);
		(void)snprintf(why, sizeof(why), "line %u looks like a secret", line);
		left_out(c, name, why);
		return 0;
	}
	f.mode = (st.st_mode & 0755) | 0600;
	p->dotfiles[p->ndotfiles++] = f;
	return 0;
}

/* Every name in the directory of @row that its last component matches. */
static int pattern_copy(const struct copying *c, const char *row)
{
	const char *slash = strrchr(row, '/');
	char dir[PATH_MAX], name[PATH_MAX];
	int n = snprintf(dir, sizeof(dir), "%s/%.*s", c->p->home, (int)(slash - row), row), r = 0;
	struct dirent *ent;
	DIR *d;

	if (n < 0 || (size_t)n >= sizeof(dir) || !(d = opendir(dir)))
		return 0;
	while (r == 0 && (ent = readdir(d)))
		if (fnmatch(slash + 1, ent->d_name, FNM_PERIOD) == 0 &&
		    snprintf(name, sizeof(name), "%.*s/%s", (int)(slash - row), row, ent->d_name) <
			    (int)sizeof(name))
			r = dotfile_copy(c, name);
	(void)closedir(d);
	return r;
}

/* A line that names a credential is a mistake that is worth an error. */
static int line_judge(const struct copying *c)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s", c->p->home, c->line->path);
	const char *what = n < 0 || (size_t)n >= sizeof(path) ? NULL : judge_secret(c->j, path);

	if (!what)
		return 0;
	(void)err_set(c->e, 0, "'~/%s' cannot be copied: %s", c->line->path, what);
	(void)err_in(c->e, c->line->origin->line ? "%s:%u" : "%s", c->line->origin->file,
		     c->line->origin->line);
	return -EPERM;
}

static int rows_copy(struct copying *c, const struct dotfile_row *row)
{
	int r = 0;

	for (; row->name && r == 0; row++)
		if (judge_home_may_hold(c->j, row->name))
			r = strchr(row->name, '*') ? pattern_copy(c, row->name)
						   : dotfile_copy(c, row->name);
	return r;
}

int home_dotfiles(struct sandbox_plan *p, struct judge *j, const struct plan_in *in, struct err *e)
{
	struct copying c = { .p = p, .j = j, .in = in, .e = e };
	int r = 0;

	if (p->view_host)
		return 0;
	for (const struct policy_grant *g = policy_dotfiles(in->policy); g && r == 0; g = g->next) {
		c.line = g;
		if ((r = line_judge(&c)) == 0)
			r = dotfile_copy(&c, g->path);
	}
	c.line = NULL;
	if (r == 0)
		r = rows_copy(&c, dotfiles);
	if (r == 0 && in->shell)
		r = rows_copy(&c, dotfiles_shell);
	return r;
}

int home_kept(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	struct err why = { 0 };
	const char *project = in->place->project;

	if (!in->dirs || !in->dirs->cache)
		return 0;
	if (policy_home(in->policy) == HOME_KEEP) {
		p->kept_home_fd = cache_open(in->dirs, project, CACHE_HOME, &p->kept_home, e);
		if (p->kept_home_fd < 0)
			return p->kept_home_fd;
	}
	if (policy_cache(in->policy) == CACHE_OFF && !p->kept_home)
		return 0;
	/* with home keep, cache off: the home's project is named there all the same */
	p->cache_fd = cache_open(in->dirs, project, CACHE_DIR, &p->cache, &why);
	if (p->cache_fd >= 0 && policy_cache(in->policy) == CACHE_OFF) {
		(void)close(p->cache_fd);
		free(p->cache);
		p->cache_fd = -1;
		p->cache = NULL;
		return 0;
	}
	if (p->cache_fd < 0 && !in->quiet)
		note("~/.cache is gone at exit: %s%s%s", why.what, why.num ? ": " : "",
		     why.num ? strerror(why.num) : "");
	return 0;
}
