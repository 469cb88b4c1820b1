/* SPDX-License-Identifier: ISC */
/* broker/cli/connection_file.c - what of a Jupyter connection file concerns the sandbox.
 * Runs as the user, before anything is inside. The file is the client's; it lies where other programs
 * of the user write, so that its ports and its address are checked before anything listens. */
#include "broker/cli/connection_file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/home.h"
#include "broker/cli/judge.h"
#include "broker/cli/layers.h"
#include "broker/cli/places.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"

#define OPTION "--connection-file"

static const char *const ports[] = { "shell_port", "iopub_port", "stdin_port", "control_port",
				     "hb_port" };

static int text_read(struct connection_file *c, const char *path, struct err *e)
{
	SCOPED_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char real[PATH_MAX];
	struct stat st;
	ssize_t n;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "open '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return err_set(e, 0, "'%s' is not a plain file of this user's", path);
	if (st.st_mode & 022) {
		err_set(e, 0, "'%s' can be written by other users", path);
		return err_fix(e, "chmod 600 '%s'", path);
	}
	/* of what was opened: the name may lead elsewhere by now */
	if ((r = judge_where(fd, real, e)) < 0)
		return r;
	if (!(c->path = strdup(real)) || !(c->text = malloc(CONNECTION_FILE_MAX)))
		return err_set(e, ENOMEM, "read '%s'", path);
	n = read(fd, c->text, CONNECTION_FILE_MAX);
	if (n < 0)
		return err_set(e, errno, "read '%s'", path);
	if (n == CONNECTION_FILE_MAX)
		return err_set(e, 0, "'%s' is larger than %d bytes", path, CONNECTION_FILE_MAX - 1);
	c->len = (size_t)n;
	return 0;
}

static int not_one(const char *path, const char *why, struct err *e)
{
	err_set(e, 0, "'%s' is no connection file of a Jupyter kernel", path);
	return err_why(e, "%s", why);
}

static int tcp_lines(const json_t *o, const char *path, struct layers_options *l, struct err *e)
{
	const char *ip = json_string_value(json_object_get(o, "ip"));
	json_int_t seen[ARRAY_LEN(ports)];

	if (!str_eq(ip ? ip : "", "127.0.0.1") && !str_eq(ip ? ip : "", "localhost")) {
		err_set(e, 0, "'%s' wants the kernel at %s%s%s", path, ip ? "'" : "",
			ip ? ip : "no address", ip ? "'" : "");
		(void)err_why(
			e, "a kernel in a sandbox listens on 127.0.0.1, and so does weir for it");
		return err_fix(e, "leave KernelManager.ip as it is by default: 127.0.0.1");
	}
	for (size_t i = 0; i < ARRAY_LEN(ports); i++) {
		char text[16];

		seen[i] = json_integer_value(json_object_get(o, ports[i]));
		if (seen[i] < 1 || seen[i] > 65535)
			return not_one(path, "a port of the five is missing, or not 1 to 65535", e);
		for (size_t k = 0; k < i; k++)
			if (seen[k] == seen[i])
				return not_one(path, "two of its ports are the same", e);
		(void)snprintf(text, sizeof(text), "%d", (int)seen[i]);
		if (layers_line(l, OPTION, "publish", "", text, e) < 0)
			return -EINVAL;
	}
	return 0;
}

/* May @name be there before the kernel starts: the file itself, or a socket of the kernel before? */
static bool belongs(const struct connection_file *c, const char *dir, const char *base,
		    const char *name)
{
	size_t n = strlen(base), d = strlen(dir);

	if (str_eq(name, ".") || str_eq(name, ".."))
		return true;
	if (strncmp(c->path, dir, d) == 0 && c->path[d] == '/' && str_eq(c->path + d + 1, name))
		return true;
	return strncmp(name, base, n) == 0 && name[n] == '-' && name[n + 1] &&
	       name[n + 1 + strspn(name + n + 1, "0123456789")] == '\0';
}

static int directory_judge(struct connection_file *c, const char *dir, const char *base,
			   struct err *e)
{
	SCOPED_FD int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *ent;
	struct stat st;
	int r = 0;
	DIR *d;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "open '%s', where the kernel's sockets go", dir);
	if (st.st_uid != geteuid() || (st.st_mode & 077)) {
		err_set(e, 0, "'%s', where the kernel's sockets go, is not this user's alone", dir);
		return err_fix(e, "chmod 700 '%s'", dir);
	}
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	if (!(d = fdopendir(fd)))
		return err_set(e, errno, "read '%s'", dir);
	(void)take_fd(&fd); /* @d has it now */
	while (r == 0 && (ent = readdir(d)))
		if (!belongs(c, dir, base, ent->d_name)) {
			err_set(e, 0,
				"'%s', where the kernel's sockets go, holds '%s': the kernel could write it",
				dir, ent->d_name);
			r = err_fix(
				e, "give each kernel a directory of its own, or use transport tcp");
		}
	(void)closedir(d);
	return r;
}

/* Its sockets are IP-1 to IP-5: "ip" is a path there. */
static int ipc_lines(struct connection_file *c, const json_t *o, struct layers_options *l,
		     struct err *e)
{
	const char *ip = json_string_value(json_object_get(o, "ip"));
	char dir[PATH_MAX];
	const char *base = ip ? strrchr(ip, '/') : NULL;
	int r;

	if (!base || ip[0] != '/' || !base[1] || (size_t)(base - ip) >= sizeof(dir) || base == ip)
		return not_one(c->path, "transport ipc needs the path of its sockets as ip", e);
	memcpy(dir, ip, (size_t)(base - ip));
	dir[base - ip] = '\0';
	if (!(c->directory = realpath(dir, NULL)))
		return err_set(e, errno, "open '%s', where the kernel's sockets go", dir);
	r = directory_judge(c, c->directory, base + 1, e);
	/* as the file spells it: links on the way are made inside too */
	return r < 0 ? r : layers_line(l, OPTION, "write", "", dir, e);
}

int connection_file_take(struct connection_file *c, struct layers_options *o, const char *path,
			 struct err *e)
{
	const char *transport;
	json_t *file = NULL;
	int r;

	if (c->path)
		return err_set(e, 0, "more than one " OPTION);
	c->spelled = path;
	r = text_read(c, path, e);
	if (r == 0 && !(file = json_loadb(c->text, c->len, JSON_REJECT_DUPLICATES, NULL)))
		r = not_one(path, "it is not JSON", e);
	if (r < 0)
		return r;
	assert(c->path); /* text_read() */
	transport = json_string_value(json_object_get(file, "transport"));
	if (!transport || str_eq(transport, "tcp"))
		r = tcp_lines(file, path, o, e);
	else if (str_eq(transport, "ipc"))
		r = ipc_lines(c, file, o, e);
	else
		r = not_one(path, "its transport is neither tcp nor ipc", e);
	json_decref(file);
	return r;
}

/* Is what was opened for the write line what was judged? The line leads where @path does now. */
static bool directory_is_same(const struct connection_file *c, const struct sandbox_plan *p)
{
	struct stat st;

	for (size_t i = 0; i < p->ngrants; i++)
		if (str_eq(p->grants[i].path, c->directory))
			return p->grants[i].write && fstat(p->grants[i].fd, &st) == 0 &&
			       st.st_dev == c->dev && st.st_ino == c->ino;
	return false;
}

/* The grant that shows the file itself, or that would cover its copy; NULL: none */
static const struct plan_grant *shown_by(const struct connection_file *c,
					 const struct sandbox_plan *p)
{
	const struct plan_grant *found = NULL;

	for (size_t i = 0; i < p->ngrants; i++)
		if (path_within(c->path, p->grants[i].path) &&
		    (!found || strlen(p->grants[i].path) > strlen(found->path)))
			found = &p->grants[i];
	return found;
}

static int covered(const struct connection_file *c, const struct plan_grant *g, struct err *e)
{
	err_set(e, 0, OPTION " '%s' lies in '%s', which is shared for reading", c->path, g->path);
	(void)err_why(e, "the kernel gets a copy of its own, which would not be seen there");
	return err_fix(e, "share less of it, or set JUPYTER_RUNTIME_DIR to another directory");
}

/* Jupyter's clients put it below the home directory or, without a server, into /tmp. */
int connection_file_plan(const struct connection_file *c, struct sandbox_plan *p, struct err *e)
{
	size_t home = strlen(p->home);
	const struct plan_grant *g;
	int r;

	if (c && c->directory && !directory_is_same(c, p))
		return err_set(e, 0, "'%s' was replaced while it was looked at", c->directory);
	if (!c || !c->path)
		return 0;
	if (c->spelled[0] == '/' && (r = grant_links(c->spelled, p, e)) < 0)
		return r;
	g = shown_by(c, p);
	if (g && !g->write && !p->view_host)
		return covered(c, g, e);
	if (g && g->write)
		return 0;
	if (p->project && p->project_write && path_within(c->path, p->project))
		return 0;
	if (strncmp(c->path, "/tmp/", 5) == 0)
		return home_file_fill(&p->tmp_file, c->path + 5, c->text, c->len, 0600, e);
	if (p->view_host) {
		err_set(e, 0, OPTION " '%s' does not go with view host", c->path);
		return err_why(e, "the kernel replaces its file, and that view is read-only");
	}
	if (!path_within(c->path, p->home) || c->path[home] != '/') {
		err_set(e, 0, "'%s' is neither below the home directory nor in the project or /tmp",
			c->path);
		return err_fix(e, "set JUPYTER_RUNTIME_DIR to a directory below '%s'", p->home);
	}
	return home_file_add(p, c->path + home + 1, c->text, c->len, 0600, e);
}

void connection_file_free(struct connection_file *c)
{
	if (c->text)
		explicit_bzero(c->text, c->len);
	free(c->text);
	free(c->path);
	free(c->directory);
	*c = (struct connection_file){ 0 };
}
