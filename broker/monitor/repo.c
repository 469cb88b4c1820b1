/* SPDX-License-Identifier: ISC */
/* broker/monitor/repo.c - did the command leave something in P that git outside would run?
 * Looks at P before and after, by the names and the kernel's own times of what git obeys: no byte of
 * a file is read and no link followed but before, for the configuration (repo_named.c), and a name that a
 * stranger chose is escaped before it is told.
 * The first look is taken beside the launch; should the command run before it is over, what is younger than
 * the sandbox counts as not there.
 *   BEFORE --the command ends--> AFTER --added or changed--> told and recorded */
#include "broker/monitor/repo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/record.h"
#include "broker/monitor/repo_named.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/lock.h"
#include "common/scope.h"
#include "common/stage.h"
#include "sandbox/plan.h"

#define SEEN_MAX 4096	     /* names remembered */
#define DIRS_FIRST 256	     /* directories of the look beside a launch */
#define DIRS_LATER 4096	     /* and of the one at the end, which must not be easier to fill up */
#define NAMES_PER_DIR 64     /* so many times the directories: names in all */
#define LATER_NS 200000000LL /* and its time */
#define TOLD_NAME 200	     /* bytes of a name on the terminal */

/** struct seen - one name that git obeys, and which file it is; a file's times are the kernel's */
struct seen {
	char *path;
	dev_t dev;
	ino_t ino;
	mode_t mode;
	off_t size;
	struct timespec changed;
	bool is_dir;  /* a git directory, which changes with each commit: which one it is counts */
	bool is_late; /* of the first look: not older than the sandbox, by the clock of files */
};

struct repo {
	char *sockets[REPO_SOCKETS_MAX];
	size_t nsockets;
	struct seen *v;
	size_t n, room;
	unsigned dirs, names; /* still to be looked at, at most */
	bool cut;	      /* not everything was looked at */
	struct timespec since, until;
	bool first, git_pinned;
	const struct sandbox_plan *plan;
	struct repo_named *named; /* the first look's; the later one looks there too */
};

/** struct names - a directory being listed */
struct names {
	int fd;
	ssize_t len, at;
	char buf[8192] __attribute__((aligned(8)));
};

static bool before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* ---- looking ---- */

static bool spend(struct repo *r, unsigned *what)
{
	struct timespec now;

	if (!r->cut && *what > 0 && (r->first || *what % 64 != 0)) {
		--*what;
		return true;
	}
	if (!r->cut && *what > 0 && clock_gettime(CLOCK_MONOTONIC, &now) == 0 &&
	    before(&now, &r->until)) {
		--*what;
		return true;
	}
	r->cut = true;
	return false;
}

/* A directory to list, or NULL. */
static struct names *names_open(struct repo *r, int at, const char *name)
{
	int fd = spend(r, &r->dirs)
			 ? openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
			 : -1;
	struct names *l = fd < 0 ? NULL : malloc(sizeof(*l));

	if (!l) {
		r->cut = r->cut || fd >= 0;
		scope_close(&fd);
		return NULL;
	}
	l->fd = fd;
	l->len = l->at = 0;
	return l;
}

static void names_close(struct names *l)
{
	(void)close(l->fd);
	free(l);
}

/* The next name but "." and "..", or NULL. */
static const struct dirent64 *names_next(struct repo *r, struct names *l)
{
	for (;;) {
		const struct dirent64 *ent;

		if (l->at >= l->len) {
			l->at = 0;
			l->len = getdents64(l->fd, l->buf, sizeof(l->buf));
			if (l->len <= 0)
				return NULL;
		}
		ent = (const struct dirent64 *)(const void *)(l->buf + l->at);
		l->at += ent->d_reclen;
		if (str_eq(ent->d_name, ".") || str_eq(ent->d_name, ".."))
			continue;
		return spend(r, &r->names) ? ent : NULL;
	}
}

static bool may_be_dir(const struct dirent64 *ent)
{
	return ent->d_type == DT_DIR || ent->d_type == DT_UNKNOWN;
}

/* @name ".": @dir itself */
static bool join(char out[PATH_MAX], const char *dir, const char *name)
{
	const bool self = str_eq(name, ".");
	int n = snprintf(out, PATH_MAX, "%s%s%s", dir, *dir && !self ? "/" : "", self ? "" : name);

	return n >= 0 && n < PATH_MAX;
}

/* Remember @name of the directory @at, when it is there. Return: is it a directory? */
static bool note_name(struct repo *r, int at, const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	struct seen *s;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (r->n == r->room) {
		size_t room = r->room ? r->room * 2 : 32;
		struct seen *v = room > SEEN_MAX ? NULL : reallocarray(r->v, room, sizeof(*v));

		if (!v) {
			r->cut = true;
			return S_ISDIR(st.st_mode);
		}
		r->v = v;
		r->room = room;
	}
	s = &r->v[r->n];
	*s = (struct seen){ .dev = st.st_dev,
			    .ino = st.st_ino,
			    .mode = st.st_mode,
			    .size = st.st_size,
			    .changed = st.st_ctim,
			    .is_dir = S_ISDIR(st.st_mode),
			    .is_late = !before(&st.st_ctim, &r->since) };
	if (!join(path, dir, name) || !(s->path = strdup(path)))
		r->cut = true;
	else
		r->n++;
	return s->is_dir;
}

static bool ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && str_eq(s + n - m, end);
}

static void look_hooks(struct repo *r, int git, const char *path, const char *name)
{
	struct names *l = names_open(r, git, name);
	const struct dirent64 *ent;
	char dir[PATH_MAX];

	if (!l)
		return;
	while (join(dir, path, name) && (ent = names_next(r, l)))
		if (!ends_in(ent->d_name, ".sample") && ent->d_type != DT_DIR)
			(void)note_name(r, l->fd, dir, ent->d_name);
	names_close(l);
}

/* The directory that a name is kept below: P, or a write grant, whose path goes to @dir. */
static int named_open(const struct repo *r, const char **path, char dir[PATH_MAX])
{
	const struct plan_grant *g = **path == '/' ? repo_named_grant(r->plan, *path) : NULL;

	dir[0] = '\0';
	if (**path != '/')
		return openat(r->plan->project_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!g)
		return -1;
	(void)snprintf(dir, PATH_MAX, "%s", g->path);
	*path += strlen(g->path);
	*path = **path ? *path + 1 : ".";
	return openat(g->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* What the configuration names, or the link on the way to it; what is behind it has a name of its own. */
static void look_named(struct repo *r, const char *path, bool hooks)
{
	char dir[PATH_MAX], part[NAME_MAX + 1];
	SCOPED_FD int at = named_open(r, &path, dir);
	struct stat st;

	while (at >= 0) {
		size_t n = strcspn(path, "/");
		int next;

		if (n > NAME_MAX)
			return;
		memcpy(part, path, n);
		part[n] = '\0';
		if (fstatat(at, part, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return;
		if (!S_ISDIR(st.st_mode)) {
			(void)note_name(r, at, dir, part);
			return;
		}
		if (!path[n]) {
			if (hooks)
				look_hooks(r, at, dir, part);
			return;
		}
		next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)close(at);
		at = next;
		path += n + 1;
		n = strlen(dir);
		(void)snprintf(dir + n, sizeof(dir) - n, "%s%s", n ? "/" : "", part);
	}
}

/* The first look reads what the configuration of a git directory names. @git: -1: the user's instead */
static void read_named(struct repo *r, int git, const char *path)
{
	size_t had = r->named ? r->named->n : 0;

	if (!r->first || (!r->named && !(r->named = calloc(1, sizeof(*r->named)))))
		return;
	if (git < 0) {
		repo_named_read_user(r->named, r->plan);
	} else {
		repo_named_read(r->named, r->plan, git, path, "config");
		repo_named_read(r->named, r->plan, git, path, "config.worktree");
		if (path[0] == '/' && r->plan->gitdir && str_eq(path, r->plan->gitdir))
			repo_named_read_common(r->named, r->plan, git);
	}
	for (; had < r->named->n; had++)
		look_named(r, r->named->v[had].path, r->named->v[had].hooks);
}

static void look_gitdir(struct repo *r, int git, const char *path, unsigned depth);

/* Submodules, whose names may hold a slash, and worktrees. */
static void look_members(struct repo *r, int at, const char *path, const char *name, unsigned depth)
{
	struct names *l = depth > REPO_DEPTH ? NULL : names_open(r, at, name);
	const struct dirent64 *ent;
	char dir[PATH_MAX];

	if (!l)
		return;
	if (!join(dir, path, name))
		r->cut = true;
	while (!r->cut && (ent = names_next(r, l))) {
		SCOPED_FD int fd = -1;
		char below[PATH_MAX];
		struct stat st;

		if (!may_be_dir(ent))
			continue;
		fd = openat(l->fd, ent->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || !join(below, dir, ent->d_name))
			continue;
		if (fstatat(fd, "HEAD", &st, AT_SYMLINK_NOFOLLOW) == 0)
			look_gitdir(r, fd, below, depth + 1);
		else
			look_members(r, l->fd, dir, ent->d_name, depth + 1);
	}
	names_close(l);
}

/* What git reads and runs of its own directory. */
static void look_gitdir(struct repo *r, int git, const char *path, unsigned depth)
{
	static const char *const names[] = { "config", "config.worktree", "commondir" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)note_name(r, git, path, names[i]);
	if (note_name(r, git, path, "hooks"))
		look_hooks(r, git, path, "hooks");
	read_named(r, git, path);
	if (depth > REPO_DEPTH)
		return;
	look_members(r, git, path, "modules", depth + 1);
	look_members(r, git, path, "worktrees", depth + 1);
}

/* .git of the directory @at, whatever it is. P's own is known to stay where it is mounted on itself. */
static void look_dot_git(struct repo *r, int at, const char *path)
{
	SCOPED_FD int fd = openat(at, ".git", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char dir[PATH_MAX];

	if (*path || !r->git_pinned)
		(void)note_name(r, at, path, ".git");
	if (fd >= 0 && !*path)
		read_named(r, -1, "");
	if (fd >= 0 && join(dir, path, ".git"))
		look_gitdir(r, fd, dir, 0);
}

static void note_socket(struct repo *r, const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (r->first && r->nsockets < REPO_SOCKETS_MAX && join(path, dir, name) &&
	    (r->sockets[r->nsockets] = strdup(path)))
		r->nsockets++;
}

/* A directory of P, or of another tree that may be written, @depth components below it. */
static void look_dir(struct repo *r, int at, const char *name, const char *path, unsigned depth)
{
	struct names *l = names_open(r, at, name);
	bool head = false, objects = false, refs = false, common = false;
	const struct dirent64 *ent;
	char below[PATH_MAX];

	if (!l)
		return;
	look_dot_git(r, l->fd, path);
	while ((ent = names_next(r, l))) {
		head = head || str_eq(ent->d_name, "HEAD");
		objects = objects || str_eq(ent->d_name, "objects");
		refs = refs || str_eq(ent->d_name, "refs");
		common = common || str_eq(ent->d_name, "commondir");
		if (ent->d_type == DT_SOCK)
			note_socket(r, path, ent->d_name);
		if (depth + 1 < REPO_DEPTH && may_be_dir(ent) && !str_eq(ent->d_name, ".git")) {
			if (join(below, path, ent->d_name))
				look_dir(r, l->fd, ent->d_name, below, depth + 1);
			else
				r->cut = true;
		}
	}
	if (head && ((objects && refs) || common))
		look_gitdir(r, l->fd, path, 0);
	names_close(l);
}

static int seen_compare(const void *a, const void *b)
{
	return strcmp(((const struct seen *)a)->path, ((const struct seen *)b)->path);
}

/* A name that git obeys for two reasons is told once. */
static void seen_sort(struct repo *r)
{
	size_t n = 0;

	if (r->n == 0)
		return;
	qsort(r->v, r->n, sizeof(r->v[0]), seen_compare);
	for (size_t i = 1; i < r->n; i++) {
		if (str_eq(r->v[i].path, r->v[n].path))
			free(r->v[i].path);
		else
			r->v[++n] = r->v[i];
	}
	r->n = n + 1;
}

struct repo *repo_look(const struct sandbox_plan *plan, struct timespec since,
		       const struct repo *earlier)
{
	const bool project = plan->project && plan->project_write && plan->project_fd >= 0;
	struct repo *r = project || plan->ngrants > 0 ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	r->first = !earlier;
	r->since = since;
	r->git_pinned = plan->git_pinned;
	r->plan = plan;
	r->dirs = earlier ? DIRS_LATER : DIRS_FIRST;
	r->names = r->dirs * NAMES_PER_DIR;
	(void)clock_gettime(CLOCK_MONOTONIC, &r->until);
	r->until.tv_nsec += LATER_NS;
	r->until.tv_sec += r->until.tv_nsec / 1000000000L;
	r->until.tv_nsec %= 1000000000L;
	for (size_t i = 0; earlier && earlier->named && i < earlier->named->n; i++)
		look_named(r, earlier->named->v[i].path, earlier->named->v[i].hooks);
	if (plan->gitdir) {
		read_named(r, -1, "");
		look_gitdir(r, plan->gitdir_fd, plan->gitdir, 0);
	}
	if (project)
		look_dir(r, plan->project_fd, ".", "", 0);
	for (size_t i = 0; i < plan->ngrants; i++) {
		const struct plan_grant *g = &plan->grants[i];

		if (g->write && g->is_dir && !g->guard)
			look_dir(r, g->fd, ".", g->path, 0);
	}
	seen_sort(r);
	return r;
}

void repo_distrust(struct repo *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		if (r->v[i].is_late)
			free(r->v[i].path);
		else
			r->v[n++] = r->v[i];
	}
	r->n = n;
}

void repo_free(struct repo *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].path);
	for (size_t i = 0; i < r->nsockets; i++)
		free(r->sockets[i]);
	repo_named_free(r->named);
	free(r->v);
	free(r);
}

size_t repo_sockets(const struct repo *r, const char **out, size_t max)
{
	size_t n = r && r->nsockets < max ? r->nsockets : r ? max : 0;

	for (size_t i = 0; i < n; i++)
		out[i] = r->sockets[i];
	return n;
}

/* ---- comparing ---- */

static bool same(const struct seen *a, const struct seen *b)
{
	if (a->dev != b->dev || a->ino != b->ino || a->is_dir != b->is_dir)
		return false;
	return a->is_dir ||
	       (a->mode == b->mode && a->size == b->size &&
		a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec);
}

static bool lies_in(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && path[n] == '/';
}

static bool is_new(const struct repo *then, const struct repo *now, const struct seen *s,
		   const struct seen **old)
{
	*old = then->n == 0 ? NULL : bsearch(s, then->v, then->n, sizeof(then->v[0]), seen_compare);
	if (*old)
		return !same(*old, s);
	return !then->cut || !before(&s->changed, &now->since);
}

/* A directory of hooks says nothing by itself: the hooks in it are told, where they are new too. */
static bool is_told_below(const struct repo *then, const struct repo *now, size_t i)
{
	const struct seen *s = &now->v[i], *old;

	if (!s->is_dir || !ends_in(s->path, "/hooks"))
		return false;
	return i + 1 == now->n || !lies_in(now->v[i + 1].path, s->path) ||
	       is_new(then, now, &now->v[i + 1], &old);
}

size_t repo_compare(const struct repo *then, const struct repo *now, struct repo_change *out,
		    size_t max, int *unseen)
{
	const char *whole =
		NULL; /* a directory that was told: what lies in it goes without saying */
	size_t n = 0;

	*unseen = now->cut && !then->cut;
	for (size_t i = 0; i < now->n; i++) {
		const struct seen *s = &now->v[i];
		const struct seen *old;

		if ((whole && lies_in(s->path, whole)) || !is_new(then, now, s, &old) ||
		    is_told_below(then, now, i))
			continue;
		if (s->is_dir)
			whole = s->path;
		if (n < max)
			out[n] = (struct repo_change){ .path = s->path, .added = !old };
		n++;
	}
	return n;
}

/* ---- telling ---- */

/* What the kernel does not close: the host's sockets in P and in what may be written. */
static void sockets_tell(struct monitor *m)
{
	const char *v[REPO_SOCKETS_MAX];
	size_t n = repo_sockets(m->repo, v, ARRAY_LEN(v));
	json_t *paths = n > 0 ? json_array() : NULL;

	for (size_t i = 0; i < n; i++) {
		char name[PATH_MAX];

		(void)escape_line(name, sizeof(name), v[i], strlen(v[i]));
		(void)json_array_append_new(paths, json_string(name));
		if (m->run->verbose && !m->run->quiet)
			note("the host's unix socket '%s' can be reached by the command", name);
	}
	if (paths)
		record_event(m, "sockets_open", json_pack("{s:o}", "paths", paths));
}

/* The command starts behind the first message of pid 1: while there is none, what was seen is older. The
 * clock of files alone would not tell, since it stands still for some milliseconds at a time. */
static bool may_run(const struct monitor *m)
{
	char byte;

	return recv(m->shim_sock, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) >= 0 ||
	       errno != EAGAIN;
}

void repo_begin(struct monitor *m)
{
	m->repo = repo_look(m->run->plan, m->repo_since, NULL);
	if (m->repo && may_run(m))
		repo_distrust(m->repo);
	stage_note("monitor: looked at the repository");
	m->unix_open = lock_landlock_abi() < LOCK_ABI_UNIX || m->run->plan->nested;
	if (m->unix_open)
		sockets_tell(m);
}

static void changes_record(struct monitor *m, const struct repo_change *c, size_t n, size_t in_c,
			   bool unseen)
{
	json_t *paths = json_array();

	for (size_t i = 0; i < in_c; i++) {
		char name[PATH_MAX];

		(void)escape_line(name, sizeof(name), c[i].path, strlen(c[i].path));
		(void)json_array_append_new(paths, json_pack("{s:s, s:b}", "path", name, "added",
							     c[i].added));
	}
	record_event(m, "repo_changed",
		     json_pack("{s:o*, s:I, s:b}", "paths", paths, "count", (json_int_t)n,
			       "incomplete", unseen));
}

static void changes_tell(const struct repo_change *c, size_t n)
{
	char name[TOLD_NAME], more[64] = "";

	(void)escape_line(name, sizeof(name), c->path, strlen(c->path));
	if (n > 1)
		(void)snprintf(more, sizeof(more), " and %zu more", n - 1);
	note("this command %s %s%s: git outside would run %s", c->added ? "added" : "changed", name,
	     more, n > 1 ? "what they say" : "its configuration");
}

void repo_end(struct monitor *m)
{
	struct repo_change c[REPO_TOLD_MAX];
	struct repo *now = m->repo ? repo_look(m->run->plan, m->repo_since, m->repo) : NULL;
	int unseen = 0;
	size_t n = now ? repo_compare(m->repo, now, c, REPO_TOLD_MAX, &unseen) : 0;

	stage_note("monitor: looked at the repository again");
	if (n > 0 || unseen)
		changes_record(m, c, n, n < REPO_TOLD_MAX ? n : REPO_TOLD_MAX, unseen);
	if (n > 0 && !m->run->quiet)
		changes_tell(c, n);
	if (unseen && !m->run->quiet)
		note("this command left more directories than are looked through: what git outside "
		     "would run is not known");
	repo_free(now);
	repo_free(m->repo);
	m->repo = NULL;
}
