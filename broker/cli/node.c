/* SPDX-License-Identifier: ISC */
/* broker/cli/node.c - grants of what is neither file nor directory: one unix socket, one device.
 * Runs in the command's own process before anything is inside. Who named the path is trusted, what it
 * leads to is not: it is opened once, without connecting or opening the device, and judged by its kind
 * and canonical path. */
#include "broker/cli/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/major.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/judge.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

/* What computing needs of a GPU. Not /dev/dri/card*, which sets the screen. */
static const struct {
	const char *dir, *pattern;
} gpu_nodes[] = {
	{ "/dev/dri", "renderD*" }, /* DRM render nodes: Intel, AMD, nouveau */
	{ "/dev", "kfd" },	    /* AMD's compute */
	{ "/dev", "nvidia[0-9]*" }, /* each card, */
	{ "/dev", "nvidiactl" },    /* their driver, */
	{ "/dev", "nvidia-*" },	    /* its unified memory and modes, */
	{ "/dev/nvidia-caps", "*" } /* and parts of cards */
};

/* In the host's network /sys is absent inside; a GPU's libraries find their device by it. */
static const char *const gpu_sys[] = { "/sys/dev/char", "/sys/class/drm", "/sys/class/kfd",
				       "/sys/bus/pci", "/sys/devices" };

/* ---- one node ---- */

/* Takes @fd. */
static int push(struct sandbox_plan *p, int fd, const char *path, struct plan_grant g,
		struct err *e)
{
	for (size_t i = 0; i < p->ngrants; i++)
		if (str_eq(p->grants[i].path, path)) {
			(void)close(fd);
			return 0;
		}
	if (!p->grants)
		p->grants = calloc(PLAN_GRANTS_MAX, sizeof(p->grants[0]));
	if (!p->grants || p->ngrants >= PLAN_GRANTS_MAX || !(g.path = strdup(path))) {
		(void)close(fd);
		return err_set(e, p->ngrants >= PLAN_GRANTS_MAX ? E2BIG : ENOMEM, "share '%s'",
			       path);
	}
	g.fd = fd;
	p->grants[p->ngrants++] = g;
	return 0;
}

static int refuse(struct err *e, const char *path, const char *why)
{
	(void)err_set(e, 0, "'%s' cannot be shared: %s", path, why);
	return -EPERM;
}

static const char *device_refused(const struct stat *st)
{
	if (S_ISBLK(st->st_mode))
		return "it is a disk";
	switch (major(st->st_rdev)) {
	case MEM_MAJOR:
		return minor(st->st_rdev) == 1 || minor(st->st_rdev) == 2 ||
				       minor(st->st_rdev) == 4 || minor(st->st_rdev) == 11
			       ? "it is the machine's memory or log"
			       : "the sandbox has its own";
	case TTY_MAJOR:
	case TTYAUX_MAJOR:
		return "it is a terminal, which never enters a sandbox";
	default:
		return major(st->st_rdev) >= UNIX98_PTY_MASTER_MAJOR &&
				       major(st->st_rdev) <
					       UNIX98_PTY_SLAVE_MAJOR + UNIX98_PTY_MAJOR_COUNT
			       ? "it is a terminal, which never enters a sandbox"
			       : NULL;
	}
}

static int kind_judge(const struct policy_grant *g, const struct stat *st, const char *path,
		      struct err *e)
{
	const char *why;

	if (g->kind == GRANT_SOCKET && !S_ISSOCK(st->st_mode)) {
		int r = refuse(e, path, "it is not a socket");

		if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
			(void)err_fix(e, "weir run -r %s, or -w, shares a file or directory", path);
		return r;
	}
	if (g->kind == GRANT_SOCKET)
		return 0;
	if (!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode))
		return refuse(e, path, "it is not a device");
	why = device_refused(st);
	return why ? refuse(e, path, why) : 0;
}

static int node_open(const struct judge *j, const struct policy_grant *g, const char *spelled,
		     struct sandbox_plan *plan, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, spelled, &how, sizeof(how));
	char path[PATH_MAX];
	struct stat st;
	int r;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", spelled);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", spelled);
	if ((r = judge_where(fd, path, e)) < 0 || (r = kind_judge(g, &st, path, e)) < 0 ||
	    (r = judge_own(j, path, e)) < 0)
		return r;
	r = push(plan, take_fd(&fd), path,
		 (struct plan_grant){ .socket = g->kind == GRANT_SOCKET,
				      .device = g->kind == GRANT_DEVICE },
		 e);
	return r < 0 ? r : grant_links(spelled, plan, e);
}

/* ---- every GPU ---- */

/* Each node of the table that is there, to @each, until it fails. Return: how many, or what it gave */
static int gpu_each(int (*each)(void *arg, const char *path), void *arg)
{
	int n = 0;

	for (size_t i = 0; i < ARRAY_LEN(gpu_nodes); i++) {
		DIR *dir = opendir(gpu_nodes[i].dir);
		const struct dirent *ent;
		char path[PATH_MAX];
		struct stat st;
		int r = 0;

		while (dir && r >= 0 && (ent = readdir(dir))) {
			(void)snprintf(path, sizeof(path), "%s/%s", gpu_nodes[i].dir, ent->d_name);
			if (fnmatch(gpu_nodes[i].pattern, ent->d_name, FNM_PERIOD) != 0 ||
			    lstat(path, &st) < 0 || !S_ISCHR(st.st_mode))
				continue;
			n++;
			if (each)
				r = each(arg, path);
		}
		if (dir)
			(void)closedir(dir);
		if (r < 0)
			return r;
	}
	return n;
}

bool gpu_present(void)
{
	return gpu_each(NULL, NULL) > 0;
}

/** struct opening - what gpu_each() opens nodes for */
struct opening {
	const struct judge *judge;
	const struct policy_grant *grant;
	struct sandbox_plan *plan;
	struct err *e;
};

static int gpu_open(void *arg, const char *path)
{
	const struct opening *o = arg;

	return node_open(o->judge, o->grant, path, o->plan, o->e);
}

static int gpu_sys_open(struct sandbox_plan *plan, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(gpu_sys); i++) {
		int fd = open(gpu_sys[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int r = fd < 0 ? 0
			       : push(plan, fd, gpu_sys[i], (struct plan_grant){ .is_dir = true },
				      e);

		if (r < 0)
			return r;
	}
	return 0;
}

static int gpu_grant(const struct judge *j, const struct policy_grant *g, struct sandbox_plan *plan,
		     struct err *e)
{
	struct opening o = { .judge = j, .grant = g, .plan = plan, .e = e };
	int r = gpu_each(gpu_open, &o);

	if (r == 0)
		return err_set(e, ENOENT, "no GPU is there");
	return r > 0 && plan->net_host ? gpu_sys_open(plan, e) : r;
}

int node_grant(const struct judge *j, const struct policy_grant *g, struct sandbox_plan *plan,
	       struct err *e)
{
	int r = g->path[0] == '/' ? node_open(j, g, g->path, plan, e) : gpu_grant(j, g, plan, e);

	return r < 0 ? r : 0;
}

/* ---- sockets ---- */

/* By name: whose they are cannot be known without asking them. */
static const struct {
	const char *pattern, *what;
} dangers[] = {
	{ "*/docker.sock", "the container daemon: through it the command can do anything on this "
			   "machine, as root" },
	{ "*/podman.sock", "the container service: through it the command can run anything as you, "
			   "outside the sandbox" },
	{ "*/containerd.sock", "the container daemon: through it the command can do anything on "
			       "this machine, as root" },
	{ "*/crio.sock", "the container daemon: through it the command can do anything on this "
			 "machine, as root" },
	{ "*/lxd/unix.socket", "the container daemon: through it the command can do anything on "
			       "this machine, as root" },
	{ "*/libvirt-sock", "the virtual machines' daemon: through it the command can do anything "
			    "on this machine, as root" },
	{ "/run/user/*/bus", "the session bus: through it the command can start programs outside "
			     "the sandbox" },
	{ "/run/user/*/systemd/private", "your service manager: through it the command can start "
					 "programs outside the sandbox" },
	{ "*/.X11-unix/X*", "the X server: through it the command sees every window and key, and "
			    "can type" },
	{ "*/tmux-*/*", "a tmux server: through it the command can type into terminals outside the "
			"sandbox" },
	{ "*/vscode-ipc-*.sock", "an editor: through it the command can run things outside the "
				 "sandbox" },
};

const char *node_danger(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(dangers); i++)
		if (fnmatch(dangers[i].pattern, path, 0) == 0)
			return dangers[i].what;
	return NULL;
}

bool node_names(const struct policy *policy, const char *value)
{
	static const char *const fronts[] = { "unix:path=", "unix://", "unix:", "" };

	for (const struct policy_grant *g = policy_grants(policy); g; g = g->next) {
		if (g->kind != GRANT_SOCKET || g->inactive)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(fronts); i++) {
			size_t front = strlen(fronts[i]), n = strlen(g->path);

			if (strncmp(value, fronts[i], front) != 0 ||
			    strncmp(value + front, g->path, n) != 0)
				continue;
			if (value[front + n] == '\0' || (i == 0 && value[front + n] == ','))
				return true;
		}
	}
	return false;
}
