/* SPDX-License-Identifier: ISC */
/* broker/cli/test_box.c - probes of weir test: files, processes and rights as a command finds them.
 * Believes nothing about the sandbox; what it may spoil is weir test's own. */
#include "broker/cli/test_promise.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "broker/cli/test_inside.h"
#include "common/scope.h"

extern char **environ;

int promise_project(struct inside *in)
{
	SCOPED_FD int fd = open("weir-test-made", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || unlink("weir-test-made") < 0)
		return promise_bad(in, "a file in the project: %s", strerror(errno));
	return 0;
}

/* What git outside would run. */
int promise_hooks(struct inside *in)
{
	SCOPED_FD int hook = open(".git/hooks/post-commit", O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	SCOPED_FD int config = open(".git/config", O_WRONLY | O_CLOEXEC);

	if (hook >= 0)
		return promise_bad(in, "a hook was written");
	if (config >= 0)
		return promise_bad(in, ".git/config can be written");
	if (rename(".git", "git-away") == 0)
		return promise_bad(in, ".git was renamed");
	return 0;
}

int promise_environ(struct inside *in)
{
	for (char **v = environ; *v; v++)
		if (strstr(*v, TEST_SECRET))
			return promise_bad(
				in, "a secret of weir's own environment came along: %.40s", *v);
	return 0;
}

int promise_descriptors(struct inside *in)
{
	for (int fd = 3; fd < 256; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return promise_bad(in, "descriptor %d is open", fd);
	return 0;
}

int promise_sys(struct inside *in)
{
	return access("/sys/class/net", F_OK) < 0
		       ? 0
		       : promise_bad(in, "the host's network devices are shown in /sys");
}

int promise_write_outside(struct inside *in)
{
	static const char *const places[] = { "/usr/weir-test", "/etc/weir-test", "/weir-test" };
	char path[4096];

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		SCOPED_FD int fd = open(places[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		if (fd >= 0)
			return promise_bad(in, "%s was created", places[i]);
	}
	(void)snprintf(path, sizeof(path), "%s/outside/secret", in->dir);
	if (access(path, F_OK) == 0)
		return promise_bad(in, "a file next to the project is visible");
	return 0;
}

int promise_credentials(struct inside *in)
{
	static const char *const names[] = { ".ssh",
					     ".aws",
					     ".netrc",
					     ".config/gcloud",
					     ".docker",
					     ".gnupg",
					     ".npmrc",
					     ".git-credentials",
					     ".cargo/credentials",
					     ".cargo/credentials.toml",
					     ".kube",
					     ".config/gh",
					     ".pypirc",
					     ".config/weir" };
	const char *const homes[] = { getenv("HOME"), in->user_home };
	char path[4096];

	if (!homes[0])
		return promise_bad(in, "there is no HOME");
	(void)snprintf(path, sizeof(path), "%s/.cargo/config.toml", homes[0]);
	if (in->granted && access(path, R_OK) < 0)
		return promise_bad(in, "the read grant that holds them is not there");
	for (size_t i = 0; i < ARRAY_LEN(homes) * ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", homes[i / ARRAY_LEN(names)],
			       names[i % ARRAY_LEN(names)]);
		if (access(path, F_OK) == 0)
			return promise_bad(in, "%s is there", path);
	}
	if (access("/etc/shadow", R_OK) == 0)
		return promise_bad(in, "/etc/shadow can be read");
	return 0;
}

int promise_privileges(struct inside *in)
{
	static const char *const zero[] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:" };
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	int r = 0, seen = 0;

	if (!f)
		return promise_bad(in, "/proc/self/status: %s", strerror(errno));
	while (r == 0 && fgets(line, sizeof(line), f)) {
		for (size_t i = 0; i < ARRAY_LEN(zero); i++) {
			if (strncmp(line, zero[i], strlen(zero[i])) != 0)
				continue;
			seen++;
			if (strspn(line + strlen(zero[i]), " \t0\n") !=
			    strlen(line + strlen(zero[i])))
				r = promise_bad(in, "%.*s", (int)strcspn(line, "\n"), line);
		}
		if (strncmp(line, "NoNewPrivs:\t", 12) == 0) {
			seen++;
			if (line[12] != '1')
				r = promise_bad(in, "no_new_privs is not set");
		}
	}
	(void)fclose(f);
	if (r == 0 && seen != (int)ARRAY_LEN(zero) + 1)
		return promise_bad(in, "/proc/self/status lacks a line");
	return r;
}

/* A terminal in here is one of the sandbox's own devpts. */
int promise_terminal(struct inside *in)
{
	SCOPED_FD int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct stat pts, st;

	if (stat("/dev/pts", &pts) < 0)
		return promise_bad(in, "/dev/pts: %s", strerror(errno));
	for (int i = 0; i < 3; i++)
		if (isatty(i) && (fstat(i, &st) < 0 || st.st_dev != pts.st_dev))
			return promise_bad(in, "descriptor %d is a terminal from outside", i);
	/* one from outside belongs to a session that has no number in here */
	if (fd >= 0 && (tcgetsid(fd) < 1 || tcgetsid(fd) != getsid(0)))
		return promise_bad(in, "there is a controlling terminal from outside");
	return 0;
}

int promise_processes(struct inside *in)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned n = 0;

	if (!d)
		return promise_bad(in, "/proc: %s", strerror(errno));
	while ((e = readdir(d)))
		n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
	(void)closedir(d);
	/* pid 1, its keeper and this one */
	return n == 3 ? 0 : promise_bad(in, "%u processes are visible, not 3", n);
}

int promise_pid1(struct inside *in)
{
	SCOPED_FD int fd = open("/proc/1/environ", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		return promise_bad(in, "the environment of pid 1 can be opened");
	return getppid() != 1 ? 0 : promise_bad(in, "the parent is pid 1");
}
