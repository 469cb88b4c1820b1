/* SPDX-License-Identifier: ISC */
/* broker/cli/grant.c - the full refusal list, on the canonical path of an open descriptor.
 * Who wrote a policy line may be trusted; what its path leads to is not: every component may be a
 * link that somebody made on purpose. So it is opened once, judged by what was opened, and the launch
 * mounts only that. The lists are resolved too: a link to ~/.ssh elsewhere is still ~/.ssh. */
#include "broker/cli/grant.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "broker/cli/links.h"
#include "broker/cli/mounts.h"
#include "broker/cli/node.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/num.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/credentials.h"
#include "sandbox/plan.h"

#define LIST_MAX 2048 /* entries of each list */
#define HOMES_MAX 256
#define PASSWD_LINE 1024
#define PERSON_FIRST 1000 /* login.defs(5) UID_MIN; below it are daemons */
#define PERSON_LAST 60000000
#define LINKS_MAX 40 /* symlinks on one path, as the kernel has it */

/** struct entry - one canonical path that is never, or not simply, shared */
struct entry {
	char *path;
	const char *what;
};

struct list {
	struct entry *v;
	size_t n, room;
};

/** struct mounted - a directory of weir's own, and which mount it lies on */
struct mounted {
	const char *path; /* the caller's; NULL: it is not there */
	uint32_t major, minor;
	uint64_t mount; /* 0: this kernel does not say */
};

#define OWN_MOUNTED 2 /* where the policy is, and where what is trusted */

struct judge {
	struct mounted mounted[OWN_MOUNTED];
	uid_t uid;
	char *home;
	struct list homes; /* other users' */
	struct list credentials, autorun, own;
	struct list bins; /* directories of the user's PATH */
	struct base *home_base;
};

bool path_within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1 && dir[0] == '/')
		return path[0] == '/';
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool path_above(const char *path, const char *below)
{
	return !str_eq(path, below) && path_within(below, path);
}

/* ---- the lists ---- */

static int list_add(struct list *l, const char *path, const char *what)
{
	if (l->n >= LIST_MAX)
		return -E2BIG;
	if (l->n == l->room) {
		size_t room = l->room ? l->room * 2 : 32;
		struct entry *v = reallocarray(l->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->room = room;
	}
	if (!(l->v[l->n].path = strdup(path)))
		return -ENOMEM;
	l->v[l->n++].what = what;
	return 0;
}

/* Add @path as spelled and, where a link leads elsewhere, what it leads to. */
static int list_add_real(struct list *l, const char *path, const char *what)
{
	char real[PATH_MAX];
	int r = list_add(l, path, what);

	if (r < 0 || path_canonical(path) || !realpath(path, real) || str_eq(real, "/"))
		return r;
	return list_add(l, real, what);
}

static void list_free(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
}

/* A parent may be a link even where the last component does not exist yet: ~/.config -> /data/config */
static int list_add_resolved(struct list *l, const char *path, const char *what)
{
	char parent[PATH_MAX], real[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int r;

	if (path_canonical(path))
		return 0;
	if (realpath(path, real))
		return str_eq(real, "/") || str_eq(real, path) ? 0 : list_add(l, real, what);
	if (!slash || slash == path)
		return 0;
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = '\0';
	if (!realpath(parent, real) || str_eq(real, parent))
		return 0;
	r = snprintf(parent, sizeof(parent), "%s%s", str_eq(real, "/") ? "" : real, slash);
	return r < 0 || (size_t)r >= sizeof(parent) ? 0 : list_add(l, parent, what);
}

/** struct names - what lies in a directory, where it is short and plain enough to be looked through.
 * Most rows name what is not there: one listing is cheaper than a system call for each */
struct names {
	bool known;
	size_t len;
	char buf[8192] __attribute__((aligned(8)));
};

static const char *name_at(const struct names *l, size_t *at)
{
	const struct dirent64 *ent = (const struct dirent64 *)(const void *)(l->buf + *at);

	*at += ent->d_reclen;
	return ent->d_name;
}

/* A directory that folds case folds letters beyond ASCII too: with such a name nothing is known. */
static void names_read(struct names *l, int fd)
{
	ssize_t n = fd < 0 ? -1 : getdents64(fd, l->buf, sizeof(l->buf));

	l->known = false;
	if (n <= 0 || getdents64(fd, (char[512]){ 0 }, 512) != 0)
		return;
	l->len = (size_t)n;
	for (size_t at = 0; at < l->len;)
		for (const char *c = name_at(l, &at); *c; c++)
			if ((unsigned char)*c >= 0x80)
				return;
	l->known = true;
}

/* May @rel be there, as far as its first component tells? */
static bool names_may_hold(const struct names *l, const char *rel)
{
	size_t len = strcspn(rel, "/");

	if (!l->known)
		return true;
	for (size_t at = 0; at < l->len;) {
		const char *name = name_at(l, &at);

		if (strncasecmp(name, rel, len) == 0 && name[len] == '\0')
			return true;
	}
	return false;
}

/* Directories in which many rows lie: one listing each, too. */
static const char *const crowded[] = { ".config/", ".local/share/", "run/", "var/lib/" };

/** struct listings - of a table's base and of what is crowded beneath it */
struct listings {
	struct names base, below[ARRAY_LEN(crowded)];
	bool read[ARRAY_LEN(crowded)];
};

/* Nothing is known of a directory that a link leads to: each row is then asked for. */
static const struct names *listing_below(struct listings *l, int dir, size_t i)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_NO_SYMLINKS };
	struct names *names = &l->below[i];
	SCOPED_FD int fd = -1;

	if (l->read[i])
		return names;
	l->read[i] = true;
	fd = (int)syscall(SYS_openat2, dir, crowded[i], &how, sizeof(how));
	names->known = fd < 0 && errno == ENOENT;
	names->len = 0;
	if (!names->known)
		names_read(names, fd);
	return names;
}

static bool may_be_there(struct listings *l, int dir, const char *rel)
{
	if (!names_may_hold(&l->base, rel))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(crowded); i++) {
		size_t n = strlen(crowded[i]);

		if (strncmp(rel, crowded[i], n) == 0)
			return names_may_hold(listing_below(l, dir, i), rel + n);
	}
	return true;
}

/** struct base - a directory that rows of the tables are relative to, looked through once */
struct base {
	const char *path; /* "": the root */
	int fd;		  /* -1: not there */
	struct listings names;
};

static void base_open(struct base *b, const char *path)
{
	const char *dir = *path ? path : "/";

	b->path = path;
	b->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	names_read(&b->names.base, b->fd);
	memset(b->names.read, 0, sizeof(b->names.read));
	if (b->fd < 0) /* 0711 */
		b->fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Add each row of @table below @b, and what it leads to where a link is on its way. */
static int list_add_table(struct list *l, struct base *b, const struct place_row *table)
{
	char path[PATH_MAX];
	int r = 0;

	for (; table->path && r == 0; table++) {
		const char *rel = table->path + (table->path[0] == '/');
		int n = snprintf(path, sizeof(path), "%s/%s", b->path, rel);

		if (n < 0 || (size_t)n >= sizeof(path))
			continue; /* no such path can exist */
		r = list_add(l, path, table->what);
		if (r == 0 && may_be_there(&b->names, b->fd, rel) && path_has_link(b->fd, rel))
			r = list_add_resolved(l, path, table->what);
	}
	return r;
}

static int home_add(struct judge *j, const char *home)
{
	char real[PATH_MAX];

	if (home[0] != '/' || !realpath(home, real) || str_eq(real, "/") || j->homes.n >= HOMES_MAX)
		return 0;
	if (str_eq(real, j->home))
		return 0;
	/* daemons' homes are system directories, which have a list of their own */
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (s->use != SYSTEM_SELF && s->use != SYSTEM_READ && path_within(real, s->path))
			return 0;
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (str_eq(real, s->path) && !str_eq(real, "/root"))
			return 0;
	return list_add(&j->homes, real, "another user's home");
}

static int homes_read(struct judge *j)
{
	FILE *f = fopen("/etc/passwd", "re");
	char line[PASSWD_LINE];
	int r = home_add(j, "/root");

	while (f && r == 0 && fgets(line, sizeof(line), f)) {
		char *p = line, *field[6] = { NULL };
		uint64_t uid;

		for (int i = 0; i < 6 && p; i++)
			field[i] = strsep(&p, ":");
		if (p && num_u64(field[2], PERSON_FIRST, PERSON_LAST, &uid) == 0)
			r = home_add(j, field[5]);
	}
	if (f)
		(void)fclose(f);
	return r;
}

/* What @path is to the credentials of other users' homes: their names are known, no list is made. */
static const char *others_credential(const struct judge *j, const char *path)
{
	for (size_t i = 0; i < j->homes.n; i++) {
		const char *home = j->homes.v[i].path;

		if (!path_within(path, home) || str_eq(path, home))
			continue;
		for (const struct place_row *c = credentials_home; c->path; c++)
			if (path_within(path + strlen(home) + 1, c->path))
				return c->what;
	}
	return NULL;
}

static int bins_read(struct judge *j, char *const *env)
{
	char dir[PATH_MAX];
	int r = 0;

	for (; env && *env; env++) {
		const char *p = *env + 5;

		if (strncmp(*env, "PATH=", 5) != 0)
			continue;
		while (r == 0) {
			size_t n = strcspn(p, ":");

			if (n && n < sizeof(dir) && p[0] == '/') {
				memcpy(dir, p, n);
				dir[n] = '\0';
				r = list_add_real(&j->bins, dir, "a directory of your PATH");
			}
			p += n;
			if (!*p++)
				break;
		}
		break;
	}
	return r;
}

static int own_link(void *arg, const char *link)
{
	struct judge *j = arg;

	return list_add(&j->own, link, "a link on the way to weir's own files");
}

/* A policy file may be a link into a dotfiles repository: who writes there writes the policy. */
static int policy_files_add(struct judge *j, const struct weir_dirs *d)
{
	const char *const dirs[] = { d->config, "/etc/weir" };
	char path[PATH_MAX], real[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		int n = dirs[i] ? snprintf(path, sizeof(path), "%s/policy", dirs[i]) : -1;
		int r;

		if (n < 0 || (size_t)n >= sizeof(path))
			continue;
		r = path_links(path, own_link, j);
		if (r == 0 && realpath(path, real))
			r = list_add(&j->own, real, "weir's own policy");
		if (r < 0)
			return r;
	}
	return 0;
}

static int own_read(struct judge *j, const struct weir_dirs *d)
{
	static const struct place_row defaults[] = { { ".config/weir", "weir's own files" },
						     { ".local/state/weir", "weir's own files" },
						     { ".cache/weir", "weir's own files" },
						     { NULL, NULL } };
	const char *const dirs[] = { d->config, d->state, d->cache, d->runtime, "/etc/weir" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(dirs) && r == 0; i++)
		if (dirs[i] && (r = list_add(&j->own, dirs[i], "weir's own files")) == 0)
			if ((r = list_add_resolved(&j->own, dirs[i], "weir's own files")) == 0)
				r = path_links(dirs[i], own_link, j);
	if (r == 0)
		r = policy_files_add(j, d);
	return r < 0 ? r : list_add_table(&j->own, j->home_base, defaults);
}

static bool mounted_read(struct mounted *m, int at, const char *path)
{
	struct statx st;

	*m = (struct mounted){ .path = NULL };
	if (!path || statx(at, path, AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_MNT_ID, &st) < 0)
		return false;
	*m = (struct mounted){ .path = path,
			       .major = st.stx_dev_major,
			       .minor = st.stx_dev_minor,
			       .mount = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0 };
	return true;
}

/* Are weir's own files in @path, or it in them, by a bind mount? On one mount paths alone tell. */
static const char *own_elsewhere(const struct judge *j, int fd, const char *path)
{
	struct mounted at;
	const char *found = NULL;

	if (!mounted_read(&at, fd, ""))
		return NULL;
	for (size_t i = 0; i < OWN_MOUNTED && !found; i++) {
		const struct mounted *own = &j->mounted[i];
		struct mounts m = { 0 };
		char real[PATH_MAX];

		if (!own->path || own->major != at.major || own->minor != at.minor ||
		    (own->mount && own->mount == at.mount))
			continue;
		if (!realpath(own->path, real) || mounts_overlap(&m, real, path) != 0)
			found = own->path; /* not known counts as yes */
		mounts_free(&m);
	}
	return found;
}

struct judge *judge_new(const struct person *who, const struct weir_dirs *dirs, char *const *env,
			struct err *e)
{
	struct judge *j = calloc(1, sizeof(*j));
	static struct base top;
	int r;

	if (!j || !(j->home = strdup(who->home)) || !(j->home_base = malloc(sizeof(top)))) {
		judge_free(j);
		(void)err_set(e, ENOMEM, "read the refusal lists");
		return NULL;
	}
	j->uid = who->uid;
	base_open(j->home_base, j->home);
	base_open(&top, "");
	mounted_read(&j->mounted[0], AT_FDCWD, dirs->config);
	mounted_read(&j->mounted[1], AT_FDCWD, dirs->state);
	r = homes_read(j);
	if (r == 0)
		r = list_add_table(&j->credentials, j->home_base, credentials_home);
	if (r == 0)
		r = list_add_table(&j->credentials, &top, credentials_system);
	if (r == 0)
		r = list_add_table(&j->autorun, j->home_base, autorun_home);
	scope_close(&top.fd);
	if (r == 0)
		r = own_read(j, dirs);
	if (r == 0)
		r = bins_read(j, env);
	if (r < 0) {
		(void)err_set(e, -r, "read the refusal lists");
		judge_free(j);
		return NULL;
	}
	return j;
}

void judge_free(struct judge *j)
{
	if (!j)
		return;
	list_free(&j->homes);
	list_free(&j->credentials);
	list_free(&j->autorun);
	list_free(&j->own);
	list_free(&j->bins);
	free(j->home);
	if (j->home_base)
		scope_close(&j->home_base->fd);
	free(j->home_base);
	free(j);
}

/* ---- the judgement ---- */

static const struct entry *at_or_below(const struct list *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++)
		if (path_within(path, l->v[i].path))
			return &l->v[i];
	return NULL;
}

static const struct entry *above(const struct list *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++)
		if (path_above(path, l->v[i].path))
			return &l->v[i];
	return NULL;
}

const char *judge_secret(const struct judge *j, const char *path)
{
	const struct entry *x = at_or_below(&j->credentials, path);

	if (!x)
		x = at_or_below(&j->own, path);
	return x ? x->what : others_credential(j, path);
}

bool judge_home_may_hold(struct judge *j, const char *rel)
{
	return may_be_there(&j->home_base->names, j->home_base->fd, rel);
}

static int refuse(struct err *e, const char *path, const char *why)
{
	(void)err_set(e, EPERM, "'%s' cannot be shared: %s", path, why);
	if (e)
		e->num = 0; /* the reason is weir's, not the kernel's */
	return -EPERM;
}

/* @place is never shared: @path is it, lies in it, or holds it. */
static int refuse_place(struct err *e, const char *path, const char *place, const char *what)
{
	char why[PATH_MAX + 128];

	if (str_eq(path, place))
		return refuse(e, path, what);
	if (path_within(path, place))
		(void)snprintf(why, sizeof(why), "it lies in '%s': %s", place, what);
	else
		(void)snprintf(why, sizeof(why), "it holds '%s': %s", place, what);
	return refuse(e, path, why);
}

static int refuse_entry(struct err *e, const char *path, const struct entry *x)
{
	return refuse_place(e, path, x->path, x->what);
}

/* A writable tree cannot hide what lies in it. */
static bool above_others_credential(const struct judge *j, const char *path)
{
	for (size_t i = 0; i < j->homes.n; i++) {
		const char *home = j->homes.v[i].path;

		if (!path_within(path, home) || str_eq(path, home))
			continue;
		for (const struct place_row *c = credentials_home; c->path; c++)
			if (path_above(path + strlen(home) + 1, c->path))
				return true;
	}
	return false;
}

/* Users who are in no file here (LDAP): a directory of /home that is not this user's. */
static bool home_like(const struct judge *j, const char *path)
{
	struct stat st;

	return strncmp(path, "/home/", 6) == 0 && !strchr(path + 6, '/') && lstat(path, &st) == 0 &&
	       S_ISDIR(st.st_mode) && st.st_uid != j->uid;
}

bool judge_is_others(const struct judge *j, const char *path)
{
	for (size_t i = 0; i < j->homes.n; i++)
		if (str_eq(path, j->homes.v[i].path))
			return true;
	return home_like(j, path);
}

bool judge_holds_homes(const struct judge *j, const char *path)
{
	size_t len = strlen(path);

	if (str_eq(path, "/home"))
		return true;
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (str_eq(path, s->path))
			return false;
	for (size_t i = 0; i < j->homes.n; i++)
		if (path_above(path, j->homes.v[i].path) &&
		    !strchr(j->homes.v[i].path + len + 1, '/'))
			return true;
	return false;
}

static int judge_places(const struct judge *j, const char *path, enum judge_use use, struct err *e)
{
	const struct entry *x;
	const char *what = NULL;

	if (str_eq(path, "/"))
		return refuse(e, path, "it is the whole system");
	if (str_eq(path, j->home))
		return refuse(e, path, "it is your home directory");
	if (path_above(path, j->home))
		return refuse(e, path, "it holds your home directory");
	for (size_t i = 0; i < j->homes.n; i++)
		if (path_within(j->homes.v[i].path, path))
			return refuse_entry(e, path, &j->homes.v[i]);
	if (home_like(j, path))
		return refuse(e, path, "it is another user's home");
	for (const struct system_row *s = system_dirs; s->path; s++) {
		bool self = str_eq(path, s->path), in = path_within(path, s->path);

		if (path_above(path, s->path) || (in && s->use == SYSTEM_NOTHING) ||
		    (in && s->use == SYSTEM_NO_WRITE && use != JUDGE_READ) ||
		    (self && s->use != SYSTEM_READ) ||
		    (self && s->use == SYSTEM_READ && use != JUDGE_READ))
			return refuse_place(e, path, s->path, s->what);
	}
	if ((x = at_or_below(&j->credentials, path)))
		return refuse_entry(e, path, x);
	what = others_credential(j, path);
	return what ? refuse(e, path, what) : 0;
}

static int refuse_autorun(struct err *e, const char *path, const struct entry *x)
{
	int r = refuse_entry(e, path, x);

	(void)err_why(e, "what the command writes there runs outside the sandbox, later");
	(void)err_fix(e, "if that is wanted, in your policy file: write! %s", path);
	return r;
}

/* The home of the passwd line is one where HOME is another; shells and sessions start there too. */
static int judge_others_autorun(const struct judge *j, const char *path, struct err *e)
{
	for (size_t i = 0; i < j->homes.n; i++) {
		const char *home = j->homes.v[i].path;
		const char *rel;

		if (!path_within(path, home) || str_eq(path, home))
			continue;
		rel = path + strlen(home) + 1;
		for (const struct place_row *a = autorun_home; a->path; a++) {
			char at[PATH_MAX];

			if (!path_within(rel, a->path) && !path_above(rel, a->path))
				continue;
			(void)snprintf(at, sizeof(at), "%s/%s", home, a->path);
			return refuse_autorun(e, path,
					      &(struct entry){ .path = at, .what = a->what });
		}
	}
	return 0;
}

static int judge_autorun(const struct judge *j, const char *path, struct err *e)
{
	const struct entry *x;

	if ((x = at_or_below(&j->autorun, path)) || (x = above(&j->autorun, path)) ||
	    (x = at_or_below(&j->bins, path)) || (x = above(&j->bins, path)))
		return refuse_autorun(e, path, x);
	return judge_others_autorun(j, path, e);
}

int judge_own(const struct judge *j, const char *path, struct err *e)
{
	const struct entry *x;

	if ((x = at_or_below(&j->own, path)) || (x = above(&j->own, path)))
		return refuse_entry(e, path, x);
	return 0;
}

int judge_path(const struct judge *j, const char *path, enum judge_use use, struct err *e)
{
	const struct entry *x;
	int r = judge_places(j, path, use, e);

	if (r < 0 || (r = judge_own(j, path, e)) < 0)
		return r;
	if (use == JUDGE_READ)
		return 0;
	if ((x = above(&j->credentials, path)))
		return refuse_entry(e, path, x);
	if (above_others_credential(j, path))
		return refuse(e, path, "it holds another user's credentials");
	return use == JUDGE_WRITE ? judge_autorun(j, path, e) : 0;
}

/* File systems that are windows into the kernel, wherever they are mounted. */
static const char *fs_refused(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return "its file system does not answer";
	switch ((unsigned long)fs.f_type) {
	case PROC_SUPER_MAGIC:
		return "it is in a /proc file system";
	case SYSFS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case BPF_FS_MAGIC:
		return "it shows the kernel's settings";
	case DEVPTS_SUPER_MAGIC:
		return "it holds terminals";
	default:
		return NULL;
	}
}

static int kind_judge(int fd, const char *path, struct err *e)
{
	const char *why;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	switch (st.st_mode & S_IFMT) {
	case S_IFDIR:
	case S_IFREG:
		break;
	case S_IFSOCK:
		(void)refuse(e, path, "it is a socket, not a file or directory");
		(void)err_fix(e, "weir run --socket %s, or in a policy file: socket %s", path,
			      path);
		return -EPERM;
	case S_IFIFO:
		return refuse(e, path, "it is a FIFO, not a file or directory");
	case S_IFCHR:
	case S_IFBLK:
		(void)refuse(e, path, "it is a device, not a file or directory");
		(void)err_fix(e, "weir run --device %s, or in a policy file: device %s", path,
			      path);
		return -EPERM;
	default:
		return refuse(e, path, "it is neither a file nor a directory");
	}
	why = fs_refused(fd);
	return why ? refuse(e, path, why) : 0;
}

/* The canonical path of what @fd is, or -errno: by the kernel, not by looking names up again. */
int grant_path(int fd, char out[PATH_MAX], struct err *e)
{
	char link[40];
	struct stat a, b;
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX - 1);
	if (n < 0)
		return err_set(e, errno, "find the path of an open file");
	out[n] = '\0';
	if (n >= PATH_MAX - 1 || out[0] != '/')
		return err_set(e, ENAMETOOLONG, "find the path of an open file");
	/* a deleted or unreachable file's "path" does not lead back to it */
	if (fstat(fd, &a) < 0 || lstat(out, &b) < 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		return err_set(e, ENOENT, "'%s' does not lead to what was opened", out);
	return 0;
}

static int judge_mounts(const struct judge *j, int fd, const char *path, struct err *e)
{
	const char *own = own_elsewhere(j, fd, path);
	char why[PATH_MAX + 64];

	if (!own)
		return 0;
	(void)snprintf(why, sizeof(why), "a mount shows it in '%s': weir's own files", own);
	return refuse(e, path, why);
}

int judge_fd(const struct judge *j, int fd, enum judge_use use, char path[PATH_MAX], struct err *e)
{
	int r = grant_path(fd, path, e);

	if (r < 0 || (r = kind_judge(fd, path, e)) < 0 || (r = judge_path(j, path, use, e)) < 0)
		return r;
	return judge_mounts(j, fd, path, e);
}

int judge_project(const struct judge *j, int fd, const char *path, struct err *e)
{
	const struct entry *x;
	struct stat st;
	const char *why = NULL;

	if (kind_judge(fd, path, e) < 0 || judge_places(j, path, JUDGE_READ, e) < 0)
		return 2;
	if ((x = at_or_below(&j->own, path))) {
		(void)refuse_entry(e, path, x);
		return 2;
	}
	if (judge_mounts(j, fd, path, e) < 0)
		return 2;
	/* below /usr and its like it is inside already, and stays as it is */
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (s->use == SYSTEM_NO_WRITE && path_within(path, s->path)) {
			(void)refuse(e, path, "it belongs to the system");
			return 2;
		}
	if (fstat(fd, &st) < 0 || st.st_uid != j->uid)
		why = "it belongs to another user";
	if (why) {
		(void)refuse(e, path, why);
		return 1;
	}
	/* An activated environment's bin lies in P: a directory of PATH below P is P's own business. */
	if (judge_places(j, path, JUDGE_WRITE, e) < 0)
		return 1;
	if ((x = above(&j->own, path)) || (x = above(&j->credentials, path)) ||
	    (x = at_or_below(&j->autorun, path)) || (x = above(&j->autorun, path)) ||
	    (x = at_or_below(&j->bins, path))) {
		(void)refuse_entry(e, path, x);
		return 1;
	}
	return judge_others_autorun(j, path, e) < 0 ? 1 : 0;
}

int plan_hide(struct sandbox_plan *p, const char *path)
{
	for (size_t i = 0; i < p->nhidden; i++)
		if (str_eq(p->hidden[i], path))
			return 0;
	if (p->nhidden >= PLAN_HIDDEN_MAX)
		return -E2BIG;
	if (!p->hidden && !(p->hidden = calloc(PLAN_HIDDEN_MAX, sizeof(p->hidden[0]))))
		return -ENOMEM;
	if (!(p->hidden[p->nhidden] = strdup(path)))
		return -ENOMEM;
	p->nhidden++;
	return 0;
}

/* Below another user's home: by name, whatever is there. */
static int hide_others(const struct judge *j, const char *path, struct sandbox_plan *plan)
{
	char hidden[PATH_MAX];
	int n = 0;

	for (size_t i = 0; i < j->homes.n; i++) {
		const char *home = j->homes.v[i].path;

		if (path_above(path, home) && (plan_hide(plan, home)) < 0)
			return -E2BIG;
		if (!path_within(path, home))
			continue;
		for (const struct place_row *c = credentials_home; c->path; c++) {
			int len = snprintf(hidden, sizeof(hidden), "%s/%s", home, c->path), r;

			if (len < 0 || (size_t)len >= sizeof(hidden) || !path_above(path, hidden))
				continue;
			if ((r = plan_hide(plan, hidden)) < 0)
				return r;
			n++;
		}
	}
	return n;
}

int judge_hide(const struct judge *j, const char *path, struct sandbox_plan *plan, struct err *e)
{
	const struct list *const lists[] = { &j->credentials, &j->own };
	int n = hide_others(j, path, plan), r = 0;

	for (size_t l = 0; l < ARRAY_LEN(lists) && n >= 0; l++)
		for (size_t i = 0; i < lists[l]->n && r == 0; i++) {
			if (!path_above(path, lists[l]->v[i].path))
				continue;
			r = plan_hide(plan, lists[l]->v[i].path);
			n++;
		}
	if (n < 0 || r < 0)
		return err_set(e, n < 0 ? -n : -r, "hide the credentials below '%s'", path);
	return n;
}

/* ---- links ---- */

static int link_add(struct sandbox_plan *p, const char *path, const char *target)
{
	struct plan_link *l;

	for (size_t i = 0; i < p->nlinks; i++)
		if (str_eq(p->links[i].path, path))
			return 0;
	if (p->nlinks >= PLAN_LINKS_MAX)
		return -E2BIG;
	if (!p->links && !(p->links = calloc(PLAN_LINKS_MAX, sizeof(p->links[0]))))
		return -ENOMEM;
	l = &p->links[p->nlinks];
	l->path = strdup(path);
	l->target = strdup(target);
	p->nlinks++;
	return l->path && l->target ? 0 : -ENOMEM;
}

/* Put @target in front of what is left of the way. Return: 0 or -ENAMETOOLONG */
static int way_prepend(char way[PATH_MAX], const char *target, const char *left)
{
	char joined[PATH_MAX];
	int n = snprintf(joined, sizeof(joined), "%s/%s", target, left);

	if (n < 0 || (size_t)n >= sizeof(joined))
		return -ENAMETOOLONG;
	memcpy(way, joined, (size_t)n + 1);
	return 0;
}

/* One component further from @at, which holds no link. Return: 0, -errno */
static int way_step(char at[PATH_MAX], const char *name, size_t len, char target[PATH_MAX])
{
	size_t have = strlen(at);
	ssize_t n;

	target[0] = '\0';
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		char *slash = strrchr(at, '/');

		if (slash)
			*slash = '\0';
		return 0;
	}
	if (have + 1 + len >= PATH_MAX)
		return -ENAMETOOLONG;
	at[have] = '/';
	memcpy(at + have + 1, name, len);
	at[have + 1 + len] = '\0';
	n = readlink(at, target, PATH_MAX - 1);
	target[n > 0 ? n : 0] = '\0';
	return 0;
}

int grant_links(const char *path, struct sandbox_plan *plan, struct err *e)
{
	char at[PATH_MAX] = "", way[PATH_MAX], target[PATH_MAX];
	int r = way_prepend(way, "", path + 1), links = 0;

	while (r == 0) {
		char *name = way + strspn(way, "/");
		size_t len = strcspn(name, "/"), had = strlen(at);

		if (len == 0)
			return 0;
		if (len == 1 && name[0] == '.') {
			memmove(way, name + 1, strlen(name + 1) + 1);
			continue;
		}
		if ((r = way_step(at, name, len, target)) < 0)
			break;
		memmove(way, name + len, strlen(name + len) + 1);
		if (!target[0])
			continue;
		if (++links > LINKS_MAX)
			r = -ELOOP;
		else if ((r = link_add(plan, at, target)) == 0)
			r = way_prepend(way, target, way + strspn(way, "/"));
		at[target[0] == '/' ? 0 : had] = '\0';
	}
	return err_set(e, -r, "follow the links of '%s'", path);
}

/* ---- one line ---- */

static int grant_in(const struct policy_grant *g, struct err *e)
{
	static const char *const words[] = { "read", "write", "hide", "socket", "device" };
	const char *word = g->kind == GRANT_WRITE && g->force ? "write!" : words[g->kind];
	int r = e && e->num > 0 ? -e->num : -EPERM;

	if (g->origin->line == 0)
		(void)err_in(e, "%s", g->origin->file);
	else
		(void)err_in(e, "%s:%u: %s", g->origin->file, g->origin->line, word);
	return r;
}

static int grant_add(struct sandbox_plan *p, int *fd, const char *path, bool write, struct err *e)
{
	struct plan_grant *g;
	struct stat st;

	for (size_t i = 0; i < p->ngrants; i++)
		if (str_eq(p->grants[i].path, path)) {
			p->grants[i].write = p->grants[i].write || write;
			p->grants[i].host = false;
			p->grants[i].overlay = p->grants[i].is_dir && !p->grants[i].write;
			return 0;
		}
	if (p->ngrants >= PLAN_GRANTS_MAX)
		return err_set(e, E2BIG, "more than %d grants", PLAN_GRANTS_MAX);
	if (!p->grants && !(p->grants = calloc(PLAN_GRANTS_MAX, sizeof(p->grants[0]))))
		return err_set(e, ENOMEM, "open '%s'", path);
	if (fstat(*fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	g = &p->grants[p->ngrants++];
	*g = (struct plan_grant){ .fd = take_fd(fd),
				  .write = write,
				  .is_dir = S_ISDIR(st.st_mode) };
	g->overlay = g->is_dir && !write;
	g->path = strdup(path);
	return g->path ? 0 : err_set(e, ENOMEM, "open '%s'", path);
}

static int grant_try(const struct judge *j, const struct policy_grant *g, struct sandbox_plan *plan,
		     struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, g->path, &how, sizeof(how));
	bool write = g->kind == GRANT_WRITE;
	char path[PATH_MAX];
	int r;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", g->path);
	r = judge_fd(j, fd,
		     !write	? JUDGE_READ
		     : g->force ? JUDGE_WRITE_ANYWAY
				: JUDGE_WRITE,
		     path, e);
	if (r < 0)
		return r;
	if ((r = grant_add(plan, &fd, path, write, e)) < 0)
		return r;
	return grant_links(g->path, plan, e);
}

int grant_tool(const struct judge *j, const char *path, struct sandbox_plan *plan, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_DIRECTORY,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	char real[PATH_MAX];
	int r;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	if ((r = judge_fd(j, fd, JUDGE_READ, real, e)) < 0)
		return r;
	return grant_add(plan, &fd, real, false, e);
}

int grant_place(const char *path, struct sandbox_plan *plan, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	int r;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	r = kind_judge(fd, path, e);
	if (r == 0 && (r = grant_add(plan, &fd, path, false, e)) == 0)
		plan->grants[plan->ngrants - 1].host = true;
	return r;
}

int grant_link(const char *path, struct sandbox_plan *plan, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	int r;

	if (n <= 0)
		return 0; /* gone */
	target[n] = '\0';
	r = link_add(plan, path, target);
	return r < 0 ? err_set(e, -r, "copy the link '%s'", path) : 0;
}

int grant_open(const struct judge *j, const struct policy_grant *g, struct sandbox_plan *plan,
	       struct err *e)
{
	bool file = g->origin->line != 0;
	int r;

	if (g->inactive)
		return 1;
	if (g->kind == GRANT_HIDE)
		return 0; /* hide.c, when all grants are known */
	if (g->kind == GRANT_SOCKET || g->kind == GRANT_DEVICE)
		r = node_grant(j, g, plan, e);
	else
		r = grant_try(j, g, plan, e);
	if (r >= 0)
		return 0;
	if (file && (r == -ENOENT || r == -ENOTDIR))
		return 1;
	(void)grant_in(g, e);
	return r;
}
