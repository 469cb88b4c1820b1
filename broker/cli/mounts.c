/* SPDX-License-Identifier: ISC */
/* broker/cli/mounts.c - does a tree of the host hold mounts of its own?
 * An overlay, which is how a tree is shared read-only, neither shows nor may hide them; a bind mount in
 * its place would make the sockets and FIFOs of the tree reachable. Names are other users' words;
 * the kernel escapes what would end a field or a line in them. */
#include "broker/cli/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/places.h"
#include "common/scope.h"

#define TEXT_FIRST (8UL << 10)
#define TEXT_MAX (64UL << 20) /* of 100,000 mounts, fs.mount-max, at most */

/* fields of proc_pid_mountinfo(5), counted from 0 */
enum { MOUNT_DEVICE = 2, MOUNT_ROOT = 3, MOUNT_POINT = 4 };

static int text_read(struct mounts *m)
{
	SCOPED_FD int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	size_t room = 0, len = 0;
	SCOPED_FREE char *text = NULL;

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n;

		if (len + 1 >= room) {
			char *more;

			room = room ? 2 * room : TEXT_FIRST;
			if (room > TEXT_MAX)
				return -E2BIG;
			if (!(more = realloc(text, room)))
				return -ENOMEM;
			text = more;
		}
		n = read(fd, text + len, room - len - 1);
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	m->text = text;
	text = NULL;
	return 0;
}

/* Copy a path, field @which, out of @line, "\040" and its like decoded; the part of it that a canonical
 * path can be above. False: it is not there */
static bool field_read(const char *line, int which, char point[PATH_MAX])
{
	size_t n = 0;

	for (int field = 0; field < which; field++) {
		line += strcspn(line, " \n");
		if (*line != ' ')
			return false;
		line++;
	}
	while (*line != ' ' && *line != '\n' && *line && n + 1 < PATH_MAX) {
		if (line[0] == '\\' && line[1] >= '0' && line[1] <= '3' && line[2] >= '0' &&
		    line[2] <= '7' && line[3] >= '0' && line[3] <= '7') {
			point[n++] = (char)((line[1] - '0') << 6 | (line[2] - '0') << 3 |
					    (line[3] - '0'));
			line += 4;
		} else {
			point[n++] = *line++;
		}
	}
	point[n] = '\0';
	return true;
}

int mounts_below(struct mounts *m, const char *path, char *first, size_t size)
{
	int r = m->text ? 0 : text_read(m);
	size_t len = strlen(path);

	if (r < 0)
		return r;
	for (const char *line = m->text; line && *line;
	     line += strcspn(line, "\n"), line += *line == '\n') {
		char point[PATH_MAX];

		if (!field_read(line, MOUNT_POINT, point))
			return -EBADMSG;
		if (!path_within(point, path) || point[len] == '\0')
			continue;
		if (size > 0) {
			size_t n = strnlen(point, size - 1);

			memcpy(first, point, n);
			first[n] = '\0';
		}
		return 1;
	}
	return 0;
}

/** struct source - where something lies: on which device, at which path from the root of it */
struct source {
	char device[32], path[PATH_MAX];
};

static int source_find(const struct mounts *m, const char *path, struct source *out)
{
	size_t best = 0;

	for (const char *line = m->text; line && *line;
	     line += strcspn(line, "\n"), line += *line == '\n') {
		char point[PATH_MAX], device[PATH_MAX];
		size_t len;
		int n;

		if (!field_read(line, MOUNT_POINT, point))
			return -EBADMSG;
		len = strlen(point);
		if (!path_within(path, point) || len < best)
			continue; /* of two on one place the later one is seen */
		best = len;
		if (!field_read(line, MOUNT_ROOT, out->path) ||
		    !field_read(line, MOUNT_DEVICE, device) ||
		    strlen(device) >= sizeof(out->device))
			return -EBADMSG;
		memcpy(out->device, device, strlen(device) + 1);
		n = (int)strlen(str_eq(out->path, "/") ? "" : out->path);
		n = snprintf(out->path + n, sizeof(out->path) - (size_t)n, "%s",
			     path + (str_eq(point, "/") ? 0 : len));
		if (n < 0)
			return -EBADMSG;
		if (!out->path[0])
			memcpy(out->path, "/", 2);
	}
	return best > 0 ? 0 : -ENOENT;
}

int mounts_overlap(struct mounts *m, const char *a, const char *b)
{
	struct source x, y;
	int r = m->text ? 0 : text_read(m);

	if (r < 0 || (r = source_find(m, a, &x)) < 0 || (r = source_find(m, b, &y)) < 0)
		return r;
	return str_eq(x.device, y.device) &&
	       (path_within(x.path, y.path) || path_within(y.path, x.path));
}

void mounts_free(struct mounts *m)
{
	free(m->text);
	*m = (struct mounts){ 0 };
}
