/* SPDX-License-Identifier: ISC */
/* broker/monitor/cgroup.c - limits for the sandbox as a whole, where a part of cgroup v2 is this user's.
 * Runs in the host's namespaces. Trusts the kernel's files; a directory counts as delegated when this
 * user may make one in it. Nothing inside sees these files. Only the removal happens behind the lock.
 * A directory with processes in it gives its children no controller (cgroups(7)): where this process is
 * the only one in it, it moves into one below, which goes with whatever started it.
 *   NONE --a limit is set, a directory is delegated--> MADE --the sandbox enters, ends--> removed */
#include "broker/monitor/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "common/msg.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

#define STALE_S 60 /* an empty cgroup of that age is nobody's: a sandbox enters its own at once */
#define CPU_PERIOD_US 100000

static const struct {
	const char *controller, *file;
} limits[CGROUP_LIMIT_COUNT] = {
	[CGROUP_PIDS] = { "pids", "pids.max" },
	[CGROUP_MEMORY] = { "memory", "memory.max" },
	[CGROUP_CPU] = { "cpu", "cpu.max" },
};

void cgroup_init(struct cgroup *g)
{
	*g = (struct cgroup){ .parent = -1, .max = { -1, -1, -1 }, .swap = -1, .events = -1 };
}

static void files_close(struct cgroup *g)
{
	for (size_t i = 0; i < CGROUP_LIMIT_COUNT; i++) {
		scope_close(&g->max[i]);
		g->max[i] = -1;
	}
	scope_close(&g->swap);
	scope_close(&g->events);
	g->swap = g->events = -1;
}

/* ---- one directory ---- */

/* Is @word one of the words of the file @name? */
static bool file_has(int dir, const char *name, const char *word)
{
	SCOPED_FD int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	char text[512];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return false;
	text[n] = '\0';
	for (char *rest = text, *w; (w = strsep(&rest, " \n"));)
		if (str_eq(w, word))
			return true;
	return false;
}

static void enable(int dir, const char *controller)
{
	SCOPED_FD int fd = openat(dir, "cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
	char word[32];
	int n = snprintf(word, sizeof(word), "+%s", controller);

	/* refused where processes are in it: then another directory may do */
	if (fd >= 0 && write(fd, word, (size_t)n) < 0)
		return;
}

static unsigned controllers(int dir, unsigned want)
{
	unsigned have = 0;

	for (unsigned i = 0; i < CGROUP_LIMIT_COUNT; i++) {
		if (!(want & 1U << i))
			continue;
		if (!file_has(dir, "cgroup.subtree_control", limits[i].controller))
			enable(dir, limits[i].controller);
		if (file_has(dir, "cgroup.subtree_control", limits[i].controller))
			have |= 1U << i;
	}
	return have;
}

static void stale_remove(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *ent;
	time_t now = time(NULL);
	struct stat st;

	if (!list) {
		scope_close(&fd);
		return;
	}
	while ((ent = readdir(list)))
		if (strncmp(ent->d_name, CGROUP_FRONT, sizeof(CGROUP_FRONT) - 1) == 0 &&
		    fstatat(dir, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_ctim.tv_sec + STALE_S < now)
			(void)unlinkat(dir, ent->d_name, AT_REMOVEDIR); /* EBUSY: it is in use */
	(void)closedir(list);
}

int cgroup_below(struct cgroup *g, int dir, const char *id, unsigned want, int *procs)
{
	unsigned have = controllers(dir, want);
	SCOPED_FD int own = -1, enter = -1;
	int r = 0;

	cgroup_init(g);
	if (have == 0)
		return 0;
	stale_remove(dir);
	(void)snprintf(g->name, sizeof(g->name), CGROUP_FRONT "%s", id);
	if (mkdirat(dir, g->name, 0755) < 0)
		return -errno;
	g->parent = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	own = openat(dir, g->name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	enter = own < 0 ? -1 : openat(own, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	g->events = enter < 0 ? -1 : openat(own, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (g->parent < 0 || g->events < 0)
		r = -errno;
	for (unsigned i = 0; r == 0 && i < CGROUP_LIMIT_COUNT; i++)
		if (have & 1U << i &&
		    (g->max[i] = openat(own, limits[i].file, O_WRONLY | O_CLOEXEC)) < 0)
			r = -errno;
	g->swap = own < 0 ? -1 : openat(own, "memory.swap.max", O_WRONLY | O_CLOEXEC);
	if (r < 0) {
		(void)unlinkat(dir, g->name, AT_REMOVEDIR);
		files_close(g);
		scope_close(&g->parent);
		cgroup_init(g);
		return r;
	}
	*procs = take_fd(&enter);
	return (int)have;
}

void cgroup_remove(struct cgroup *g)
{
	files_close(g);
	if (g->parent >= 0)
		(void)unlinkat(g->parent, g->name, AT_REMOVEDIR);
	scope_close(&g->parent);
	cgroup_init(g);
}

/* ---- which directory ---- */

/* The cgroup v2 directory of this process, without a slash at its end. Return: success */
static bool own_find(char path[PATH_MAX], size_t *mount_len)
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, "0::/", 4) == 0 && !strstr(line, "/..");
	if (f)
		(void)fclose(f);
	if (!found)
		return false;
	line[strcspn(line, "\n")] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(mounts); i++) {
		struct statfs fs;
		int n = snprintf(path, PATH_MAX, "%s%s", mounts[i],
				 str_eq(line, "0::/") ? "" : line + 3);

		if (n <= 0 || n >= PATH_MAX || statfs(mounts[i], &fs) < 0 ||
		    (unsigned long)fs.f_type != CGROUP2_SUPER_MAGIC)
			continue;
		*mount_len = strlen(mounts[i]);
		return true;
	}
	return false;
}

static bool delegated(int dir)
{
	return faccessat(dir, ".", W_OK, 0) == 0 && faccessat(dir, "cgroup.procs", W_OK, 0) == 0;
}

/* Is this process alone in the cgroup @dir? */
static bool alone(int dir)
{
	SCOPED_FD int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	char text[64], own[32];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return false;
	text[n] = '\0';
	(void)snprintf(own, sizeof(own), "%d\n", getpid());
	return str_eq(text, own);
}

/* From @dir, where this process is alone, into a directory below it. Return: success */
static bool step_down(int dir)
{
	SCOPED_FD int below = -1, procs = -1;
	char name[32];

	(void)snprintf(name, sizeof(name), CGROUP_FRONT "own-%d", getpid());
	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return false;
	below = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	procs = below < 0 ? -1 : openat(below, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (procs >= 0 && write(procs, "0", 1) == 1)
		return true;
	(void)unlinkat(dir, name, AT_REMOVEDIR);
	return false;
}

/* What @dir, this process's own, could give if it stepped down. Return: bits of @want */
static unsigned below_own(int dir, unsigned want)
{
	unsigned could = 0;

	for (unsigned i = 0; i < CGROUP_LIMIT_COUNT; i++)
		if (want & 1U << i && file_has(dir, "cgroup.controllers", limits[i].controller))
			could |= 1U << i;
	return could && delegated(dir) && alone(dir) ? could : 0;
}

/* The nearest directory above this process's own that can hold @want, all of it if there is one. */
static int dir_above(unsigned want)
{
	char path[PATH_MAX];
	size_t mount_len;
	int some = -1;

	if (!own_find(path, &mount_len))
		return -1;
	for (;;) {
		int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		unsigned have = dir >= 0 && delegated(dir) ? controllers(dir, want) : 0;
		char *slash = strrchr(path, '/');

		if (have == want) {
			scope_close(&some);
			return dir;
		}
		if (have && some < 0)
			some = take_fd(&dir);
		scope_close(&dir);
		if (!slash || strlen(path) <= mount_len)
			return some;
		*slash = '\0';
	}
}

/* Where a sandbox's cgroup can lie. Return: O_PATH, the caller's; -1: nowhere */
static int dir_find(unsigned want)
{
	SCOPED_FD int above = dir_above(want), own = -1;
	unsigned have = above < 0 ? 0 : controllers(above, want), could;
	char path[PATH_MAX];
	size_t len;

	if (have == want || !own_find(path, &len))
		return take_fd(&above);
	own = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	could = own < 0 ? 0 : below_own(own, want);
	if ((could | have) == have || !step_down(own))
		return take_fd(&above);
	return take_fd(&own);
}

unsigned cgroup_offered(void)
{
	const unsigned all = (1U << CGROUP_LIMIT_COUNT) - 1;
	SCOPED_FD int dir = dir_find(all), procs = -1;
	struct cgroup g;
	int status = 1, have;
	pid_t pid;
	char id[16];

	(void)snprintf(id, sizeof(id), "doctor%d", getpid());
	have = dir < 0 ? 0 : cgroup_below(&g, dir, id, all, &procs);
	if (have <= 0)
		return 0;
	pid = fork();
	if (pid == 0)
		_exit(write(procs, "0", 1) == 1 ? 0 : 1);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	cgroup_remove(&g);
	return status == 0 ? (unsigned)have : 0;
}

/* ---- the policy's limits ---- */

static unsigned wanted(const struct policy *p)
{
	return (policy_pids(p) ? 1U << CGROUP_PIDS : 0) |
	       (policy_memory_mib(p) ? 1U << CGROUP_MEMORY : 0) |
	       (policy_cpu_percent(p) ? 1U << CGROUP_CPU : 0);
}

static int text_write(int fd, const char *text)
{
	return fd < 0 || write(fd, text, strlen(text)) >= 0 ? 0 : -errno;
}

/* Return: 0, or -errno of the first that was refused */
static int limits_write(const struct cgroup *g, const struct policy *p)
{
	char pids[32] = "max", memory[32] = "max", cpu[48] = "max";
	int r;

	if (policy_pids(p))
		(void)snprintf(pids, sizeof(pids), "%u", policy_pids(p) + PLAN_OWN_PROCESSES);
	if (policy_memory_mib(p))
		(void)snprintf(memory, sizeof(memory), "%llu",
			       (unsigned long long)policy_memory_mib(p) << 20);
	if (policy_cpu_percent(p))
		(void)snprintf(cpu, sizeof(cpu), "%llu %d",
			       (unsigned long long)policy_cpu_percent(p) * CPU_PERIOD_US / 100,
			       CPU_PERIOD_US);
	if ((r = text_write(g->max[CGROUP_PIDS], pids)) < 0 ||
	    (r = text_write(g->max[CGROUP_MEMORY], memory)) < 0 ||
	    (r = text_write(g->max[CGROUP_CPU], cpu)) < 0)
		return r;
	/* else what is over the limit goes there, and the limit is none */
	return text_write(g->max[CGROUP_MEMORY] >= 0 ? g->swap : -1,
			  policy_memory_mib(p) ? "0" : "max");
}

static void append(char *text, size_t size, const char *more)
{
	size_t n = strlen(text);

	(void)snprintf(text + n, size - n, "%s%s", n ? ", " : "", more);
}

/* One line for what no cgroup holds. */
static void lack_tell(const struct monitor *m, unsigned lacking)
{
	const bool root = m->uid == 0;
	char text[256] = "";

	if (lacking & 1U << CGROUP_PIDS && (root || !m->run->plan->limit_pids))
		append(text, sizeof(text), "'limit pids' does not hold");
	if (lacking & 1U << CGROUP_MEMORY)
		append(text, sizeof(text), "'limit memory' holds for each process by itself");
	if (lacking & 1U << CGROUP_CPU)
		append(text, sizeof(text), "'limit cpu' does not hold");
	if (text[0] && !m->run->quiet)
		note("%s: no cgroup is delegated to you here (weir doctor says how)", text);
}

int limits_begin(struct monitor *m, struct err *e)
{
	const unsigned want = wanted(m->policy);
	SCOPED_FD int dir = want ? dir_find(want) : -1;
	int have = dir < 0 ? 0
			   : cgroup_below(&m->cgroup, dir, m->run->id, want,
					  &m->run->plan->cgroup_fd),
	    r = 0;

	if (have > 0 && (r = limits_write(&m->cgroup, m->policy)) < 0)
		return err_set(e, -r, "set the limits of the sandbox's cgroup");
	lack_tell(m, want & ~(have > 0 ? (unsigned)have : 0U));
	return 0;
}

void limits_change(struct monitor *m, const struct policy *before, const struct policy *now)
{
	const struct {
		const char *what;
		bool same;
	} v[CGROUP_LIMIT_COUNT] = {
		[CGROUP_PIDS] = { "limit pids", policy_pids(before) == policy_pids(now) },
		[CGROUP_MEMORY] = { "limit memory",
				    policy_memory_mib(before) == policy_memory_mib(now) },
		[CGROUP_CPU] = { "limit cpu",
				 policy_cpu_percent(before) == policy_cpu_percent(now) },
	};
	int r = m->cgroup.parent < 0 ? 0 : limits_write(&m->cgroup, now);

	if (r < 0)
		note("set the limits of the sandbox's cgroup: %s", strerror(-r));
	for (size_t i = 0; i < CGROUP_LIMIT_COUNT; i++)
		if (!v[i].same && m->cgroup.max[i] < 0 && !m->run->quiet)
			note("the policy's %s changed: that takes effect at the next start",
			     v[i].what);
}
