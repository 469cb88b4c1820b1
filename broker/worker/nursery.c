/* SPDX-License-Identifier: ISC */
/* broker/worker/nursery.c - the room in which workers live, and its pid 1.
 * nursery_start() runs in the monitor; its child writes the room's id maps, waits for the first
 * message and executes /proc/self/exe anew: nothing of the monitor's memory, environment or
 * descriptors comes along.
 * nursery_main() empties the room (root: /dev/urandom and nothing else), locks itself and from then
 * on only forks a worker when told, reaps it and says so. It believes the monitor's typed messages.
 *   WAITING --any message--> exec --> IDLE --START--> RUNNING --worker died: ENDED--> IDLE; START while
 *   RUNNING kills the worker first, STOP kills it; end of file from the monitor: its runtime entry and
 *   the sandbox's cgroup, should they still be there, are removed, and everything in the room dies.
 * The directories of these two are the only things outside the room that it holds; no worker gets them.
 * A guard is the same without a room and without workers, where the network is not brokered. */
#include "broker/worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/filter.h"
#include "common/lock.h"
#include "common/msg.h"
#include "common/scope.h"
#include "common/slice.h"

#define ROOM                                                                                       \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |                \
	 CLONE_NEWCGROUP) /* not the network: the worker dials from the host's */
#define TEST_PREFIX "WEIR_TEST_"
#define TEST_ENV_MAX 16
#define SEND_MS 1000
#define CGROUP_MS 5000 /* for what is killed with the monitor to leave the cgroup */

/* ---- in the monitor's child, between clone and exec ---- */

static int write_file(const char *path, const char *text)
{
	SCOPED_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fd_write_all(fd, text, strlen(text));
}

/* The user becomes root of the room, so that the capabilities to empty it outlive the exec. */
static int write_maps(uid_t uid, gid_t gid)
{
	char map[64];
	int r = write_file("/proc/self/setgroups", "deny");

	if (r < 0)
		return r;
	(void)snprintf(map, sizeof(map), "0 %u 1", uid);
	r = write_file("/proc/self/uid_map", map);
	if (r < 0)
		return r;
	(void)snprintf(map, sizeof(map), "0 %u 1", gid);
	return write_file("/proc/self/gid_map", map);
}

/* 0, 1, 2: /dev/null; 3: the socket; nothing else. */
static int move_descriptors(int sock)
{
	int null, high = fcntl(sock, F_DUPFD, NURSERY_FD + 1);

	if (high < 0)
		return -errno;
	null = open("/dev/null", O_RDWR);
	if (null < 0)
		return -errno;
	for (int fd = 0; fd < NURSERY_FD; fd++) {
		if (fd != null && dup2(null, fd) < 0)
			return -errno;
	}
	if (dup2(high, NURSERY_FD) < 0 || close_range(NURSERY_FD + 1, ~0U, 0) < 0)
		return -errno;
	return 0;
}

struct child {
	int sock;
	bool room;
	uid_t uid;
	gid_t gid;
};

__attribute__((noreturn)) static void child_main(const struct child *c, char *const env[])
{
	char *const argv[] = { (char *)(uintptr_t)NURSERY_ARGV0, NULL };
	struct pollfd start = { .fd = NURSERY_FD, .events = POLLIN };
	sigset_t none;

	(void)sigemptyset(&none);
	/* a session of its own: ^C at the user's terminal is for the command, not for the network */
	if (setsid() < 0 || (c->room && write_maps(c->uid, c->gid) < 0) ||
	    move_descriptors(c->sock) < 0 || sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		_exit(127);
	slice_back();
	/* The rest is as much work as the sandbox, and nobody waits for it: not before the monitor wants
	 * a worker, or is gone. */
	while (poll(&start, 1, -1) < 0 && errno == EINTR)
		;
	(void)execve("/proc/self/exe", argv, env);
	_exit(127);
}

#ifdef WEIR_TEST
static void test_env(char **env)
{
	size_t n = 0;

	for (char **e = environ; e && *e && n + 1 < TEST_ENV_MAX; e++) {
		if (strncmp(*e, TEST_PREFIX, sizeof(TEST_PREFIX) - 1) == 0)
			env[n++] = *e;
	}
}
#endif

static int start(const struct child *c, pid_t *pid, int *pidfd)
{
	char *env[TEST_ENV_MAX] = { NULL };
	int fd = -1;
	struct clone_args args = {
		.flags = (c->room ? ROOM : 0) | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)&fd,
		.exit_signal = SIGCHLD,
	};
	long r;

#ifdef WEIR_TEST
	test_env(env);
#endif
	r = syscall(SYS_clone3, &args, sizeof(args));
	if (r == 0)
		child_main(c, env);
	if (r < 0)
		return -errno;
	*pid = (pid_t)r;
	*pidfd = fd; /* close-on-exec as the kernel made it */
	return 0;
}

int nursery_start(int sock, pid_t *pid, int *pidfd, struct err *e)
{
	const struct child c = { .sock = sock, .room = true, .uid = geteuid(), .gid = getegid() };
	int r = start(&c, pid, pidfd);

	if (r < 0) {
		(void)err_set(e, -r, "create the namespaces of the network worker");
		if (e)
			e->unavailable = err_lasts(-r);
	}
	return r;
}

int guard_start(int sock, pid_t *pid, int *pidfd, struct err *e)
{
	const struct child c = { .sock = sock };
	int r = start(&c, pid, pidfd);

	return r < 0 ? err_set(e, -r, "start the guard of the runtime entry") : 0;
}

/* ---- the room ---- */

static int mount_attr(int fd, const char *path, unsigned flags, uint64_t set, uint64_t propagation)
{
	struct mount_attr a = { .attr_set = set, .propagation = propagation };

	return mount_setattr(fd, path, flags, &a, sizeof(a)) < 0 ? -errno : 0;
}

static int room_tmpfs(void)
{
	SCOPED_FD int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0)
		return -errno;
	/* three inodes: the root, /dev, /dev/urandom */
	if (fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "3", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "size", "4096", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0555", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NODEV);
	return fd < 0 ? -errno : fd;
}

/* The new root is attached over /proc, which is there for sure: this process came through it. */
static int room_attach(int root, int urandom)
{
	SCOPED_FD int file = -1;

	if (move_mount(root, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    fchdir(root) < 0 || mkdirat(root, "dev", 0555) < 0)
		return -errno;
	file = openat(root, "dev/urandom", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW,
		      0444);
	if (file < 0 || move_mount(urandom, "", root, "dev/urandom", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	return 0;
}

static int room_empty(void)
{
	SCOPED_FD int urandom = -1;
	SCOPED_FD int root = -1;
	int r = mount_attr(AT_FDCWD, "/", AT_RECURSIVE, 0, MS_PRIVATE);

	if (r < 0)
		return r;
	urandom = open_tree(AT_FDCWD, "/dev/urandom", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (urandom < 0)
		return -errno;
	root = room_tmpfs();
	if (root < 0)
		return root;
	r = room_attach(root, urandom);
	if (r < 0)
		return r;
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	r = mount_attr(AT_FDCWD, "/", 0, MOUNT_ATTR_RDONLY, 0);
	return r < 0 ? r
		     : mount_attr(AT_FDCWD, "/dev/urandom", 0,
				  MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0);
}

/* No Landlock and no rlimit on processes here: both would reach the workers before their time. */
static int nursery_lock(void)
{
	static const struct lock_limits limits = { .core_zero = true, .fsize_zero = true };
	int r = lock_caps();

	r = r < 0 ? r : lock_privs();
	r = r < 0 ? r : lock_dumpable();
	r = r < 0 ? r : lock_rlimits(&limits);
	return r < 0 ? r : filter_load(&filter_nursery);
}

/* ---- serving ---- */

struct nursery {
	pid_t worker; /* 0: none */
	int pidfd;
	int dir;   /* of the runtime entries; -1: none */
	bool room; /* false: a guard, which has no worker */
	char entry[MSG_ENTRY_MAX + 1];
	int cgroup,
		events; /* the directory the sandbox's cgroup lies in, its cgroup.events; -1: none */
	char group[sizeof(CGROUP_FRONT) + MSG_ENTRY_MAX];
	struct msg_wr wr;
};

/* The sandbox dies with the monitor, but not before it: its last process leaves the cgroup a little later.
 * What was read of the file is what poll(2) tells a change of. */
static void cgroup_remove(const struct nursery *n)
{
	struct pollfd p = { .fd = n->events, .events = POLLPRI };
	char text[128];

	if (n->cgroup < 0)
		return;
	for (;;) {
		if (lseek(n->events, 0, SEEK_SET) < 0 || read(n->events, text, sizeof(text)) <= 0 ||
		    unlinkat(n->cgroup, n->group, AT_REMOVEDIR) == 0 || errno != EBUSY ||
		    poll(&p, 1, CGROUP_MS) <= 0)
			return;
	}
}

/* The monitor is gone. When it could, it has removed its entry itself. */
__attribute__((noreturn)) static void monitor_gone(const struct nursery *n)
{
	char hidden[MSG_ENTRY_MAX + 2];

	if (n->dir >= 0) {
		(void)snprintf(hidden, sizeof(hidden), ".%s", n->entry);
		(void)unlinkat(n->dir, n->entry, 0);
		(void)unlinkat(n->dir, hidden, 0);
	}
	if (n->worker)
		(void)kill(n->worker, SIGKILL);
	cgroup_remove(n);
	_exit(0); /* and the kernel kills what is left in the room */
}

static void say(struct nursery *n)
{
	struct pollfd p = { .fd = NURSERY_FD, .events = POLLOUT };
	int r;

	while ((r = wr_send(&n->wr, NURSERY_FD, NULL, 0)) == -EAGAIN) {
		if (poll(&p, 1, SEND_MS) <= 0)
			break;
	}
	if (r < 0)
		monitor_gone(n);
}

static void worker_ended(struct nursery *n)
{
	struct msg_ended m;
	int status = 0;

	if (waitpid(n->worker, &status, 0) != n->worker)
		_exit(1);
	(void)close(n->pidfd);
	n->pidfd = -1;
	n->worker = 0;
	m.status = (uint32_t)status;
	wr_open(&n->wr, MSG_ENDED, 0);
	msg_put_ended(&n->wr, &m);
	say(n);
}

__attribute__((noreturn)) static void worker_child(const struct nursery *n, int sock, int names,
						   int gates)
{
	if (n->dir >= 0)
		(void)close(n->dir);
	if (n->cgroup >= 0) {
		(void)close(n->cgroup);
		(void)close(n->events);
	}
	if (prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL) < 0 || getppid() != 1)
		_exit(1);
	(void)close(NURSERY_FD);
	worker_main(sock, names, gates);
}

static void worker_stop(struct nursery *n)
{
	if (!n->worker)
		return;
	(void)kill(n->worker, SIGKILL);
	worker_ended(n);
}

/* @sock: the worker's end; @names: where names are asked for, or -1; @gates: its page of gates, or -1;
 * all taken */
static void worker_start(struct nursery *n, int sock, int names, int gates)
{
	struct msg_started m;

	worker_stop(n);
	n->worker = fork();
	if (n->worker < 0)
		_exit(1);
	if (n->worker == 0)
		worker_child(n, sock, names, gates);
	(void)close(sock);
	if (names >= 0)
		(void)close(names);
	if (gates >= 0)
		(void)close(gates);
#ifdef WEIR_TEST
	(void)unsetenv("WEIR_TEST_MISBEHAVE"); /* the first worker only */
#endif
	n->pidfd = (int)syscall(SYS_pidfd_open, n->worker, 0);
	if (n->pidfd < 0)
		_exit(1);
	m.pid = (uint32_t)n->worker;
	wr_open(&n->wr, MSG_STARTED, 0);
	msg_put_started(&n->wr, &m);
	say(n);
}

/* A name of letters and digits leads nowhere but into the directory. */
static void name_check(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || strspn(name, "0123456789abcdefghijklmnopqrstuvwxyz") != len)
		_exit(1);
}

/* Once. @dir: taken */
static void entry_take(struct nursery *n, int dir, const char *name)
{
	if (n->dir >= 0)
		_exit(1);
	name_check(name);
	memcpy(n->entry, name, strlen(name) + 1);
	n->dir = dir;
}

/* Once. Both descriptors: taken */
static void cgroup_take(struct nursery *n, int dir, int events, const char *name)
{
	if (n->cgroup >= 0)
		_exit(1);
	name_check(name);
	(void)snprintf(n->group, sizeof(n->group), CGROUP_FRONT "%s", name);
	n->cgroup = dir;
	n->events = events;
}

static void obey(struct nursery *n, const struct msg_head *h, struct msg_rd *r, int *fds,
		 size_t nfds)
{
	struct msg_start s;
	struct msg_entry x;

	if (h->conn != 0)
		_exit(1);
	if (h->type == MSG_START && n->room && msg_get_start(r, &s) == 0 && s.has_gates < 2 &&
	    s.has_names < 2 && nfds == 1U + s.has_gates + s.has_names)
		worker_start(n, fds[0], s.has_names ? fds[nfds - 1] : -1,
			     s.has_gates ? fds[1] : -1);
	else if (h->type == MSG_STOP && nfds == 0 && rd_end(r) == 0)
		worker_stop(n);
	else if (h->type == MSG_ENTRY && nfds == 1 && msg_get_entry(r, &x) == 0)
		entry_take(n, fds[0], x.name);
	else if (h->type == MSG_CGROUP && nfds == 2 && msg_get_entry(r, &x) == 0)
		cgroup_take(n, fds[0], fds[1], x.name);
	else
		_exit(1);
}

/* START, STOP, ENTRY and CGROUP are all that may come. */
static void hear(struct nursery *n)
{
	char buf[256];
	int fds[FD_PASS_MAX];
	size_t nfds = ARRAY_LEN(fds);
	struct msg_head h;
	struct msg_rd r;
	ssize_t len = fd_recv(NURSERY_FD, buf, sizeof(buf), fds, &nfds);

	/* reset: it left without reading all; what it said before is still there, then the end */
	if (len == -EAGAIN || len == -EINTR || len == -ECONNRESET)
		return;
	if (len == 0)
		monitor_gone(n);
	if (len < 0 || msg_open(&h, &r, buf, (size_t)len) < 0)
		_exit(1);
	obey(n, &h, &r, fds, nfds);
}

void nursery_main(void)
{
	static struct nursery n = { .pidfd = -1, .dir = -1, .cgroup = -1, .events = -1 };
	struct pollfd p[2] = { { .fd = NURSERY_FD, .events = POLLIN }, { .events = POLLIN } };

	n.room = getpid() == 1;
	if (fd_set_cloexec(NURSERY_FD, true) < 0 || close_range(NURSERY_FD + 1, ~0U, 0) < 0 ||
	    (n.room && room_empty() < 0) || nursery_lock() < 0)
		_exit(1);
	for (;;) {
		p[1].fd = n.pidfd; /* -1 is passed over */
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			_exit(1);
		if (n.worker && p[1].revents)
			worker_ended(&n);
		if (p[0].revents)
			hear(&n);
		p[0].revents = p[1].revents = 0;
	}
}
