/* SPDX-License-Identifier: ISC */
/* sandbox/etc.c - /etc inside the sandbox.
 * The host's /etc is believed to be the administrator's; what it may hold that is nobody's business
 * is in sandbox/credentials.c and absent by construction: a whiteout in the upper layer hides the name
 * whatever the host later puts there. As root everything that is not world-readable goes too, since
 * root inside still owns root's files. */
#include "sandbox/etc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/scope.h"
#include "common/stage.h"
#include "sandbox/clients.h"
#include "sandbox/credentials.h"
#include "sandbox/plan.h"
#include "sandbox/tree.h"

#define COPY_MAX (1 << 20) /* bytes of a file that is copied when there is no overlay */
#define SCAN_DEPTH 8	   /* below /etc, as root */
#define SCAN_NAMES 20000   /* looked at, as root; more is an error, not a hole */
#define SSH_CONFIG_D "/.weir/ssh_config.d" /* in every view a directory of the root itself */
#define ETC_KNOWN_HOSTS "/run/weir/known_hosts"
#define KNOWN_HOSTS_MAX (1 << 20)

/* Names that this file writes itself, so that a copy entry by entry passes them over. */
static const char *const own[] = { "passwd",	 "passwd-",	"group",	 "group-",
				   "hosts",	 "resolv.conf", "nsswitch.conf", "hostname",
				   "machine-id", "mtab" };

static int passwd_write(int at, const struct sandbox_plan *p, struct err *e)
{
	char text[PATH_MAX * 2 + 1024];
	int n = 0, r;

	if (p->uid != 0)
		n = snprintf(text, sizeof(text), "root:x:0:0:root:/root:/usr/sbin/nologin\n");
	n += snprintf(
		text + n, sizeof(text) - (size_t)n,
		"%s:x:%u:%u:%s:%s:%s\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		p->user, p->uid, p->gid, p->user, p->home, p->shell);
	if ((size_t)n >= sizeof(text))
		return err_set(e, ENAMETOOLONG, "write '/etc/passwd' inside");
	if ((r = tree_write(at, "passwd", 0644, text, e)) < 0)
		return r;
	n = 0;
	if (p->gid != 0)
		n = snprintf(text, sizeof(text), "root:x:0:\n");
	(void)snprintf(text + n, sizeof(text) - (size_t)n, "%s:x:%u:\nnogroup:x:65534:\n", p->group,
		       p->gid);
	return tree_write(at, "group", 0644, text, e);
}

static int files_write(int at, const struct sandbox_plan *p, struct err *e)
{
	static const char nsswitch[] =
		"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
		"protocols: files\nservices: files\nethers: files\nrpc: files\nnetgroup: files\n";
	/* search: else libc takes the host name's domain, and asks for each name that does not exist with
	 * that behind it once more */
	static const char resolv[] =
		"# written by weir: what answers here knows the names that the policy allows\n"
		"nameserver 127.0.0.1\n"
		"search .\n";
	char line[PLAN_MACHINE_ID_LEN + 2], host[256 + 2];
	const struct {
		const char *name, *text;
	} files[] = {
		{ "hosts", p->hosts },
		{ "nsswitch.conf", nsswitch },
		{ "hostname", host },
		{ "machine-id", line },
		/* what the policy names resolves in the transparent route, else nothing does by itself; in
		 * network allow the host's servers are the command's */
		{ "resolv.conf", p->net_host	  ? NULL
				 : p->transparent ? resolv
						  : "" },
	};
	int r = passwd_write(at, p, e);

	(void)snprintf(line, sizeof(line), "%s\n", p->machine_id);
	(void)snprintf(host, sizeof(host), "%s\n", p->hostname);
	for (size_t i = 0; i < ARRAY_LEN(files) && r == 0; i++)
		if (files[i].text)
			r = tree_write(at, files[i].name, 0644, files[i].text, e);
	if (r == 0 && symlinkat("/proc/self/mounts", at, "mtab") < 0)
		r = err_set(e, errno, "make '/etc/mtab' inside");
	return r;
}

/* In network allow resolv.conf is often a link into /run, which is not the host's inside: its text is
 * copied as it is now. */
static int resolv_copy(int at, const struct sandbox_plan *p, struct err *e)
{
	char text[8192];
	SCOPED_FD int fd = -1;
	ssize_t n;

	if (!p->net_host)
		return 0;
	if ((fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0)
		return tree_write(at, "resolv.conf", 0644, "", e);
	n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	return tree_write(at, "resolv.conf", 0644, text, e);
}

/* ssh refuses files of ssh_config.d that belong to neither root nor the user, and inside the host's
 * root is neither. A link in the upper layer hides the host's directory whole. The host's keys are
 * known by a copy; what ssh learns inside stays in the private home. */
static int ssh_write(struct tree *t, int at, struct err *e)
{
	static const char config[] =
		"# written by weir at each start: ssh reaches what the policy allows\n"
		"Host *\n"
		"\tGlobalKnownHostsFile /etc/ssh/ssh_known_hosts " ETC_KNOWN_HOSTS "\n"
		"\tUserKnownHostsFile ~/.ssh/known_hosts\n";
	static const char proxy[] = "Host * !localhost !127.0.0.1\n"
				    "\tProxyCommand /run/weir/weir connect %h %p\n";
	char text[sizeof(config) + sizeof(proxy)];
	SCOPED_FD int dir = tree_dir(t->root, SSH_CONFIG_D, 0755, e);
	SCOPED_FD int ssh = dir < 0 ? -1 : tree_dir(at, "ssh", 0755, e);

	int r;

	if (dir < 0 || ssh < 0)
		return dir < 0 ? dir : ssh;
	(void)snprintf(text, sizeof(text), "%s%s", config, t->plan->listeners ? proxy : "");
	/* there already where the overlay was tried and refused */
	if (faccessat(dir, "weir.conf", F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    (r = tree_write(dir, "weir.conf", 0444, text, e)) < 0)
		return r;
	if (symlinkat(SSH_CONFIG_D, ssh, "ssh_config.d") < 0)
		return err_set(e, errno, "make '/etc/ssh/ssh_config.d' inside");
	return 0;
}

int etc_known_hosts(struct tree *t, struct err *e)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/.ssh/known_hosts", t->plan->home);
	SCOPED_FD int from = -1, to = -1;
	struct stat st;

	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	from = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > KNOWN_HOSTS_MAX)
		return 0; /* then ssh asks, as on a new machine */
	to = openat(t->stage, &ETC_KNOWN_HOSTS[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (to < 0)
		return err_set(e, errno, "make '%s' inside", ETC_KNOWN_HOSTS);
	for (off_t left = st.st_size; left > 0;) {
		ssize_t k = sendfile(to, from, NULL, (size_t)left);

		if (k < 0)
			return err_set(e, errno, "copy '%s'", path);
		if (k == 0)
			break;
		left -= k;
	}
	return 0;
}

static bool name_ends(const char *name, size_t n, const char *end, size_t m)
{
	return n >= m && memcmp(name + n - m, end, m) == 0;
}

/* "keys of services": a suffix says so wherever the name stands directly below /etc */
static bool name_secret(const char *name)
{
	size_t n = strlen(name);

	return name_ends(name, n, ".keytab", 7) || name_ends(name, n, "_credentials", 12) ||
	       name_ends(name, n, ".secret", 7) || name_ends(name, n, ".secrets", 8);
}

/** struct scan - one walk of /etc as root: what is not world-readable becomes a whiteout */
struct scan {
	int layer;
	unsigned names;
	struct err *e;
};

static int scan_dir(struct scan *s, int at, const char *prefix, unsigned depth);

static int scan_entry(struct scan *s, int dir, const char *prefix, const char *name, unsigned depth)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "/" : "", name);

	if (n < 0 || (size_t)n >= sizeof(path) || ++s->names > SCAN_NAMES)
		return err_set(s->e, E2BIG, "look for secrets in '/etc'");
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISLNK(st.st_mode))
		return 0; /* gone, or a name for something that is judged where it stands */
	if (S_ISDIR(st.st_mode) && (st.st_mode & 05) == 05) {
		SCOPED_FD int fd = openat(dir, name,
					  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0 || depth >= SCAN_DEPTH)
			return tree_whiteout(s->layer, path, s->e);
		return scan_dir(s, take_fd(&fd), path, depth + 1);
	}
	if ((st.st_mode & S_IROTH) && (S_ISREG(st.st_mode)))
		return 0;
	return tree_whiteout(s->layer, path, s->e);
}

/* Takes @at. */
static int scan_dir(struct scan *s, int at, const char *prefix, unsigned depth)
{
	DIR *d = fdopendir(at);
	struct dirent *ent;
	int r = 0;

	if (!d) {
		(void)close(at);
		return err_set(s->e, errno, "look for secrets in '/etc/%s'", prefix);
	}
	while (r == 0 && (ent = readdir(d)))
		if (!str_eq(ent->d_name, ".") && !str_eq(ent->d_name, ".."))
			r = scan_entry(s, dirfd(d), prefix, ent->d_name, depth);
	(void)closedir(d);
	return r;
}

static int root_scan(int layer, int etc, struct err *e)
{
	struct scan s = { .layer = layer, .e = e };
	int fd = openat(etc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_set(e, errno, "open '/etc'");
	return scan_dir(&s, fd, "", 0);
}

/* By getdents64 into a fixed buffer: no allocation on the way of every launch. */
static int suffix_scan(int layer, int etc, struct err *e)
{
	static char buf[16384] __attribute__((aligned(8)));
	SCOPED_FD int fd = openat(etc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t n;
	int r;

	if (fd < 0)
		return err_set(e, errno, "open '/etc'");
	while ((n = getdents64(fd, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *ent =
				(const struct dirent64 *)(const void *)(buf + at);

			if (name_secret(ent->d_name) &&
			    (r = tree_whiteout(layer, ent->d_name, e)) < 0)
				return r;
			at += ent->d_reclen;
		}
	return n < 0 ? err_set(e, errno, "read '/etc'") : 0;
}

static int layer_fill(struct tree *t, int layer, int etc, struct err *e)
{
	int r = files_write(layer, t->plan, e);

	if (r == 0)
		r = resolv_copy(layer, t->plan, e);
	if (r == 0)
		r = ssh_write(t, layer, e);
	if (r == 0)
		r = clients_write(layer, etc, t->plan, e);
	for (const struct place_row *c = credentials_etc; c->path && r == 0; c++)
		r = tree_hide(layer, etc, c->path, e);
	for (const struct place_row *c = credentials_etc_root;
	     c->path && r == 0 && t->plan->uid == 0; c++)
		r = tree_hide(layer, etc, c->path, e);
	for (size_t i = 0; i < t->plan->nhidden && r == 0; i++)
		if (strncmp(t->plan->hidden[i], "/etc/", 5) == 0)
			r = tree_hide(layer, etc, t->plan->hidden[i] + 5, e);
	if (r == 0)
		r = suffix_scan(layer, etc, e);
	if (r == 0 && t->plan->uid == 0)
		r = root_scan(layer, etc, e);
	return r;
}

/* ---- entry by entry ---- */

static bool in_table(const char *const *table, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(table[i], path))
			return true;
	return false;
}

static bool in_rows(const struct place_row *table, const char *path)
{
	for (; table->path; table++)
		if (str_eq(table->path, path))
			return true;
	return false;
}

static int copy_dir(struct tree *t, int from, int to, const char *prefix, unsigned depth,
		    unsigned *names, struct err *e);

static int copy_file(int dir, int to, const char *name, const struct stat *st)
{
	SCOPED_FD int from = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	SCOPED_FD int out = -1;

	if (from < 0 || st->st_size > COPY_MAX)
		return 0; /* unreadable for the user, or no configuration: absent */
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 0755);
	if (out < 0)
		return errno == EEXIST ? 0 : -errno;
	for (off_t left = st->st_size; left > 0;) {
		ssize_t n = sendfile(out, from, NULL, (size_t)left);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		left -= n;
	}
	return 0;
}

static int copy_link(int dir, int to, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return 0;
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 && errno != EEXIST ? -errno : 0;
}

static int copy_entry(struct tree *t, int dir, int to, const char *prefix, const char *name,
		      unsigned depth, unsigned *names, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "/" : "", name), r = 0;

	if (n < 0 || (size_t)n >= sizeof(path) || ++*names > SCAN_NAMES)
		return err_set(e, E2BIG, "copy '/etc'");
	if (in_rows(credentials_etc, path) || in_rows(credentials_etc_root, path) ||
	    in_table(own, ARRAY_LEN(own), path) || str_eq(path, "ssh/ssh_config.d") ||
	    (!*prefix && name_secret(name)) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode)) {
		r = copy_link(dir, to, name);
	} else if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH)) {
		r = copy_file(dir, to, name, &st);
	} else if (S_ISDIR(st.st_mode) && (st.st_mode & 05) == 05 && depth < SCAN_DEPTH) {
		SCOPED_FD int in = openat(dir, name,
					  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		SCOPED_FD int under = in < 0 ? -1 : tree_dir(to, name, 0755, e);

		if (in < 0)
			return 0;
		return under < 0 ? under
				 : copy_dir(t, take_fd(&in), under, path, depth + 1, names, e);
	}
	return r < 0 ? err_set(e, -r, "copy '/etc/%s'", path) : 0;
}

/* Takes @from. */
static int copy_dir(struct tree *t, int from, int to, const char *prefix, unsigned depth,
		    unsigned *names, struct err *e)
{
	DIR *d = fdopendir(from);
	struct dirent *ent;
	int r = 0;

	if (!d) {
		(void)close(from);
		return err_set(e, errno, "copy '/etc/%s'", prefix);
	}
	while (r == 0 && (ent = readdir(d)))
		if (!str_eq(ent->d_name, ".") && !str_eq(ent->d_name, ".."))
			r = copy_entry(t, dirfd(d), to, prefix, ent->d_name, depth, names, e);
	(void)closedir(d);
	return r;
}

static int etc_copy(struct tree *t, int on, struct err *e)
{
	int fd = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	unsigned names = 0;

	if (fd < 0)
		return err_set(e, errno, "open '/etc'");
	r = files_write(on, t->plan, e);
	if (r == 0)
		r = resolv_copy(on, t->plan, e);
	if (r == 0)
		r = ssh_write(t, on, e);
	if (r == 0)
		r = clients_write(on, fd, t->plan, e);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	return copy_dir(t, fd, on, "", 0, &names, e);
}

int etc_mount(struct tree *t, struct err *e)
{
	SCOPED_FD int etc = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	SCOPED_FD int on = tree_dir(t->root, "/etc", 0755, e);
	SCOPED_FD int layer = -1;
	int r;

	if (etc < 0)
		return err_set(e, errno, "open '/etc'");
	if (on < 0)
		return on;
	if ((layer = tree_layer(t, e)) < 0)
		return layer;
	if ((r = layer_fill(t, layer, etc, e)) < 0)
		return r;
	stage_note("pid 1: tree: /etc layer");
	r = tree_overlay(layer, etc, on, "/etc", e);
	return r == -EINVAL ? etc_copy(t, on, e) : r;
}
