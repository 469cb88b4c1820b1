/* SPDX-License-Identifier: ISC */
/* sandbox/machine.c - why a machine cannot make a sandbox, and what to type.
 * What the kernel says is one errno for many causes; its settings, and what weir runs in, tell them
 * apart. Only words are made of that: nothing is allowed or refused by it. */
#include "sandbox/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/err.h"
#include "common/feature.h"
#include "common/scope.h"

#define LOOK_BYTES 65536 /* of a file of /proc that are looked at */

static int file_open(const char *path)
{
	char full[256];
	int fd = open(feature_path(path, full, sizeof(full)), O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int machine_read(const char *path, char *text, size_t room)
{
	SCOPED_FD int fd = file_open(path);
	ssize_t n = fd < 0 ? -1 : read(fd, text, room - 1);
	int num = errno;

	text[n > 0 ? n : 0] = '\0';
	if (n < 0)
		return fd < 0 ? fd : -num;
	text[strcspn(text, "\n")] = '\0';
	return (int)strlen(text);
}

static bool sysctl_is(const char *name, const char *want)
{
	char path[128], text[32];

	(void)snprintf(path, sizeof(path), "/proc/sys/%s", name);
	return machine_read(path, text, sizeof(text)) >= 0 && str_eq(text, want);
}

static bool exists(const char *path)
{
	char full[256];

	return access(feature_path(path, full, sizeof(full)), F_OK) == 0;
}

/* Do the first bytes of @path hold @part? */
static bool file_has(const char *path, const char *part)
{
	static char text[LOOK_BYTES]; /* not on the child's stack */
	SCOPED_FD int fd = file_open(path);
	size_t len = 0;

	while (fd >= 0 && len < sizeof(text) - 1) {
		ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	return strstr(text, part) != NULL;
}

/* ---- what weir runs in ---- */

static const char *const containers[] = {
	[CONTAINER_DOCKER] = "Docker",
	[CONTAINER_PODMAN] = "Podman",
	[CONTAINER_KUBERNETES] = "Kubernetes",
};

enum machine_container machine_container(void)
{
	if (exists("/var/run/secrets/kubernetes.io"))
		return CONTAINER_KUBERNETES;
	if (exists("/run/.containerenv"))
		return CONTAINER_PODMAN;
	return exists("/.dockerenv") ? CONTAINER_DOCKER : CONTAINER_NONE;
}

const char *machine_container_name(enum machine_container c)
{
	return c < CONTAINER_COUNT ? containers[c] : NULL;
}

/* Docker's AppArmor profile forbids mounting, whatever seccomp says. */
static int container_fix(struct err *e)
{
	bool apparmor = file_has("/proc/self/attr/current", "docker-default");

	switch (machine_container()) {
	case CONTAINER_PODMAN:
		return err_fix(e, "podman run --security-opt unmask=ALL "
				  "--security-opt seccomp=unconfined");
	case CONTAINER_KUBERNETES:
		return err_fix(e, "in the pod: hostUsers: false; securityContext: procMount: "
				  "Unmasked, seccompProfile: {type: Unconfined}");
	case CONTAINER_DOCKER:
	case CONTAINER_NONE:
	case CONTAINER_COUNT:
		break;
	}
	return err_fix(e,
		       "docker run --security-opt systempaths=unconfined "
		       "--security-opt seccomp=unconfined%s",
		       apparmor ? " --security-opt apparmor=unconfined" : "");
}

/* ---- namespaces ---- */

static const char *forbidden_kind(void)
{
	static const char *const kinds[] = { "user", "mnt", "pid", "net", "ipc", "uts", "cgroup" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "user/max_%s_namespaces", kinds[i]);
		if (sysctl_is(name, "0"))
			return kinds[i];
	}
	return NULL;
}

void machine_explain(struct err *e)
{
	const char *kind = e->num == ENOSPC ? forbidden_kind() : NULL;

	if (!kind)
		return;
	e->unavailable = true; /* unlike a limit that is reached just now */
	(void)err_why(e, "user.max_%s_namespaces is 0", kind);
	(void)err_fix(e, "sudo sysctl user.max_%s_namespaces=15000", kind);
}

/* The kernel makes no user namespace where the root directory is not the root of a mount. */
static bool is_chroot(void)
{
	/* ID PARENT DEVICE ROOT PLACE OPTIONS: nothing is mounted on / that can be seen from here */
	return exists("/proc/self/mountinfo") && !file_has("/proc/self/mountinfo", " / rw") &&
	       !file_has("/proc/self/mountinfo", " / ro");
}

static int forbidden(struct err *e)
{
	if (is_chroot()) {
		(void)err_why(e, "weir runs in a chroot, where the kernel makes no user namespace");
		return err_fix(e, "enter the directory with systemd-nspawn or bwrap instead");
	}
	if (machine_container() == CONTAINER_NONE &&
	    !file_has("/proc/self/status", "Seccomp:\t2")) {
		(void)err_why(e,
			      "a security module, such as SELinux, forbids it, or a chroot does");
		return err_fix(e,
			       "the kernel's log names the rule: sudo dmesg, or ausearch -m avc");
	}
	(void)err_why(e, "a seccomp filter or security module forbids it, as in a container");
	return container_fix(e);
}

int machine_why_namespaces(struct err *e)
{
	const int num = e->num;

	e->unavailable = err_lasts(num);
	if (num == EAGAIN || num == ENOMEM)
		return err_why(e, "processes or memory have run out just now");
	if (sysctl_is("kernel/apparmor_restrict_unprivileged_userns", "1")) {
		(void)err_why(
			e,
			"kernel.apparmor_restrict_unprivileged_userns is 1 and weir has no AppArmor profile");
		return err_fix(
			e,
			"make install puts weir's profile in /etc/apparmor.d; or sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0");
	}
	if (sysctl_is("kernel/unprivileged_userns_clone", "0")) {
		(void)err_why(e, "kernel.unprivileged_userns_clone is 0");
		return err_fix(e, "sudo sysctl kernel.unprivileged_userns_clone=1");
	}
	if (num == ENOSPC || num == EUSERS) {
		(void)err_why(
			e,
			"as many namespaces exist as user.max_*_namespaces allows, or they are nested too deep");
		return err_fix(
			e,
			"end other sandboxes, or raise user.max_net_namespaces and its like by sysctl");
	}
	if (num == EINVAL || num == ENOSYS) {
		(void)err_why(e, "this kernel was built without the namespaces that weir needs");
		return err_fix(e, "a kernel of a distribution, 5.12 or later");
	}
	if (num == EPERM || num == EACCES)
		return forbidden(e);
	return -num;
}

int machine_why_proc(struct err *e)
{
	e->unavailable = err_lasts(e->num);
	(void)err_why(e, "/proc is partly masked here, as in a container");
	return container_fix(e);
}
