/* SPDX-License-Identifier: ISC */
/* broker/cli/kernelspec.c - Jupyter kernelspecs on disk.
 * Runs as the user. A kernelspec is somebody's program to start kernels with; what is read of one goes
 * into another, as JSON, and is run only when Jupyter runs it. */
#include "broker/cli/kernelspec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"

#define RESOURCE_MAX (4u << 20) /* bytes of a logo */
#define RESOURCES_MAX 64

/* ---- where ---- */

static void dir_add(struct kernelspec_dirs *d, const char *front, size_t len, const char *rest)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%.*s%s", (int)len, front, rest);

	if (len == 0 || front[0] != '/' || n < 0 || (size_t)n >= sizeof(path) ||
	    d->n >= KERNELSPEC_DIRS_MAX)
		return;
	memcpy(d->path[d->n++], path, (size_t)n + 1);
}

static void path_add(struct kernelspec_dirs *d, const char *list)
{
	while (list && *list) {
		size_t n = strcspn(list, ":");

		dir_add(d, list, n, "/kernels");
		list += n + (list[n] == ':');
	}
}

int kernelspec_dirs(struct kernelspec_dirs *d, const char *home, struct err *e)
{
	static const char *const environments[] = { "VIRTUAL_ENV", "CONDA_PREFIX" };
	const char *data = getenv("JUPYTER_DATA_DIR"), *xdg = getenv("XDG_DATA_HOME");

	d->n = 0;
	path_add(d, getenv("JUPYTER_PATH"));
	if (d->n > KERNELSPEC_DIRS_MAX - 8)
		d->n = KERNELSPEC_DIRS_MAX - 8;
	d->user = d->n;
	if (data && *data)
		dir_add(d, data, strlen(data), "/kernels");
	else if (xdg && *xdg)
		dir_add(d, xdg, strlen(xdg), "/jupyter/kernels");
	else
		dir_add(d, home, strlen(home), "/.local/share/jupyter/kernels");
	if (d->n == d->user)
		return err_set(e, 0, "JUPYTER_DATA_DIR or XDG_DATA_HOME is not an absolute path");
	d->sys = d->n;
	for (size_t i = 0; i < ARRAY_LEN(environments); i++) {
		const char *prefix = getenv(environments[i]);

		if (prefix)
			dir_add(d, prefix, strlen(prefix), "/share/jupyter/kernels");
	}
	if (d->n == d->sys)
		d->sys = SIZE_MAX;
	dir_add(d, "/usr/local", 10, "/share/jupyter/kernels");
	dir_add(d, "/usr", 4, "/share/jupyter/kernels");
	if (d->sys == SIZE_MAX)
		d->sys = d->n;
	return 0;
}

/* jupyter-client: [a-z0-9._-]+, case folded */
bool kernelspec_name(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= KERNELSPEC_NAME_MAX && name[0] != '.' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

/* ---- reading ---- */

static bool argv_is_sound(const json_t *spec)
{
	const json_t *argv = json_object_get(spec, "argv");
	size_t i;
	json_t *word;

	if (!json_is_array(argv) || json_array_size(argv) == 0)
		return false;
	json_array_foreach(argv, i, word) if (!json_is_string(word)) return false;
	return json_string_value(json_array_get(argv, 0))[0] != '\0';
}

json_t *kernelspec_load(const char *dir, struct err *e)
{
	char path[PATH_MAX];
	static char text[KERNELSPEC_MAX];
	SCOPED_FD int fd = -1;
	json_error_t why;
	json_t *spec;
	ssize_t len;
	int n = snprintf(path, sizeof(path), "%s/kernel.json", dir);

	if (n < 0 || (size_t)n >= sizeof(path)) {
		(void)err_set(e, ENAMETOOLONG, "read the kernelspec '%s'", dir);
		return NULL;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	len = fd < 0 ? -1 : read(fd, text, KERNELSPEC_MAX);
	if (len < 0) {
		(void)err_set(e, errno, "read '%s'", path);
		return NULL;
	}
	if (len == KERNELSPEC_MAX) {
		(void)err_set(e, 0, "'%s' is larger than %d bytes", path, KERNELSPEC_MAX - 1);
		return NULL;
	}
	spec = json_loadb(text, (size_t)len, JSON_REJECT_DUPLICATES, &why);
	if (!spec) {
		(void)err_set(e, 0, "%s:%d:%d: not JSON: %s", path, why.line, why.column, why.text);
		return NULL;
	}
	if (!json_is_object(spec) || !argv_is_sound(spec)) {
		json_decref(spec);
		(void)err_set(e, 0, "'%s' has no argv to start a kernel with", path);
		return NULL;
	}
	return spec;
}

bool kernelspec_is_weirs(const json_t *spec)
{
	const json_t *argv = json_object_get(spec, "argv");
	const char *program = json_string_value(json_array_get(argv, 0));
	const char *verb = json_string_value(json_array_get(argv, 1));
	const char *slash = program ? strrchr(program, '/') : NULL;

	return program && verb && str_eq(slash ? slash + 1 : program, "weir") &&
	       str_eq(verb, "run");
}

/* ---- writing ---- */

static int dirs_make(const char *path, struct err *e)
{
	char dir[PATH_MAX];
	int n = snprintf(dir, sizeof(dir), "%s", path);

	if (n < 0 || (size_t)n >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "make '%s'", path);
	for (char *c = dir + 1;; c++) {
		const char was = *c;

		if (was != '/' && was != '\0')
			continue;
		*c = '\0';
		if (mkdir(dir, 0755) < 0 && errno != EEXIST)
			return err_set(e, errno, "make the directory '%s'", dir);
		*c = was;
		if (was == '\0')
			return 0;
	}
}

/* The directory may be a stranger's, of a project: a link in it is no way to a copy of what is elsewhere. */
static int file_copy(int from, int to, const char *name, struct err *e)
{
	const struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				      .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int in = (int)syscall(SYS_openat2, from, name, &how, sizeof(how));
	SCOPED_FD int out = -1;
	char buf[16384];
	size_t left = RESOURCE_MAX;
	struct stat st;
	ssize_t n;
	int r;

	if (in < 0 && errno == EXDEV)
		return 0;
	if (in < 0 || fstat(in, &st) < 0)
		return err_set(e, errno, "copy '%s' of the kernelspec", name);
	if (!S_ISREG(st.st_mode))
		return 0; /* a resource is a file */
	if (st.st_size > (off_t)RESOURCE_MAX)
		return err_set(e, EFBIG, "copy '%s' of the kernelspec", name);
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		     st.st_mode & 0100 ? 0755 : 0644);
	if (out < 0)
		return err_set(e, errno, "copy '%s' of the kernelspec", name);
	while ((n = read(in, buf, left < sizeof(buf) ? left : sizeof(buf))) > 0) {
		if ((r = fd_write_all(out, buf, (size_t)n)) < 0)
			return err_set(e, -r, "copy '%s' of the kernelspec", name);
		left -= (size_t)n;
	}
	return n < 0 ? err_set(e, errno, "copy '%s' of the kernelspec", name) : 0;
}

static int resources_copy(const char *from, int to, struct err *e)
{
	DIR *d = opendir(from);
	const struct dirent *ent;
	unsigned n = 0;
	int r = 0;

	if (!d)
		return err_set(e, errno, "read '%s'", from);
	while (r == 0 && (ent = readdir(d))) {
		if (ent->d_name[0] == '.' || str_eq(ent->d_name, "kernel.json"))
			continue;
		r = ++n > RESOURCES_MAX ? err_set(e, E2BIG, "copy the files of '%s'", from)
					: file_copy(dirfd(d), to, ent->d_name, e);
	}
	(void)closedir(d);
	return r;
}

static int spec_put(int dir, const json_t *spec, struct err *e)
{
	SCOPED_FREE char *text = json_dumps(spec, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
	SCOPED_FD int fd = openat(dir, "kernel.json",
				  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	int r;

	if (!text || fd < 0)
		return err_set(e, text ? errno : ENOMEM, "write kernel.json");
	r = fd_write_all(fd, text, strlen(text));
	if (r == 0)
		r = fd_write_all(fd, "\n", 1);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? err_set(e, -r, "write kernel.json") : 0;
}

/* Is there nothing but files in the directory open as @d? */
static int removable(DIR *d, const char *dir, struct err *e)
{
	const struct dirent *ent;
	struct stat st;

	while ((ent = readdir(d))) {
		if (str_eq(ent->d_name, ".") || str_eq(ent->d_name, ".."))
			continue;
		if (fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(e, errno, "look at '%s/%s'", dir, ent->d_name);
		if (S_ISDIR(st.st_mode))
			return err_set(e, EISDIR, "remove '%s/%s'", dir, ent->d_name);
	}
	rewinddir(d);
	return 0;
}

static int files_remove(DIR *d, const char *dir, struct err *e)
{
	const struct dirent *ent;
	int r = removable(d, dir, e);

	while (r == 0 && (ent = readdir(d)))
		if (!str_eq(ent->d_name, ".") && !str_eq(ent->d_name, "..") &&
		    unlinkat(dirfd(d), ent->d_name, 0) < 0)
			r = err_set(e, errno, "remove '%s/%s'", dir, ent->d_name);
	if (r == 0 && rmdir(dir) < 0)
		r = err_set(e, errno, "remove '%s'", dir);
	return r;
}

/* NULL and errno, ELOOP or ENOTDIR for a link: what it leads to is not the kernelspec's own */
static DIR *dir_open(const char *dir)
{
	SCOPED_FD int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d)
		(void)take_fd(&fd);
	return d;
}

int kernelspec_remove(const char *dir, struct err *e)
{
	DIR *d = dir_open(dir);
	int r;

	if (!d && (errno == ELOOP || errno == ENOTDIR) && unlink(dir) == 0)
		return 0;
	if (!d)
		return err_set(e, errno, "open '%s'", dir);
	r = files_remove(d, dir, e);
	(void)closedir(d);
	return r;
}

/* What cannot be removed afterwards is not replaced. */
static int replaceable(const char *dir, struct err *e)
{
	DIR *d = dir_open(dir);
	int r = d ? removable(d, dir, e) : 0;

	if (d)
		(void)closedir(d);
	return r;
}

/* A directory that is not empty cannot be renamed over: the two change places. */
static int put_in_place(const char *made, const char *dir, bool force, struct err *e)
{
	int r;

	if (renameat2(AT_FDCWD, made, AT_FDCWD, dir, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EEXIST || !force)
		return err_set(e, errno, "make '%s'", dir);
	if ((r = replaceable(dir, e)) < 0)
		return r;
	if (renameat2(AT_FDCWD, made, AT_FDCWD, dir, RENAME_EXCHANGE) < 0)
		return err_set(e, errno, "replace '%s'", dir);
	return kernelspec_remove(made, e);
}

int kernelspec_write(const char *dir, const char *from, const json_t *spec, bool force,
		     struct err *e)
{
	char parent[PATH_MAX], made[PATH_MAX];
	const char *slash = strrchr(dir, '/');
	SCOPED_FD int to = -1;
	int n = snprintf(parent, sizeof(parent), "%.*s", (int)(slash - dir), dir), r;

	if (n < 0 || (size_t)n >= sizeof(parent))
		return err_set(e, ENAMETOOLONG, "make '%s'", dir);
	if ((r = dirs_make(parent, e)) < 0)
		return r;
	n = snprintf(made, sizeof(made), "%s/.weir-XXXXXX", parent);
	if (n < 0 || (size_t)n >= sizeof(made) || !mkdtemp(made))
		return err_set(e, errno, "make a directory in '%s'", parent);
	to = open(made, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = to < 0 || fchmod(to, 0755) < 0 ? err_set(e, errno, "make '%s'", made) : 0;
	if (r == 0 && (r = resources_copy(from, to, e)) == 0 && (r = spec_put(to, spec, e)) == 0)
		r = put_in_place(made, dir, force, e);
	if (r < 0)
		(void)kernelspec_remove(made, NULL);
	return r;
}
