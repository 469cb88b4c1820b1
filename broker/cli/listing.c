/* SPDX-License-Identifier: ISC */
/* broker/cli/listing.c - a directory that many names are looked for in, looked through once.
 * What lies there is somebody else's: a listing is only believed where it says that a name is not
 * there, and only while it is short and plain. */
#include "broker/cli/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/scope.h"

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
	size_t len = (size_t)(strchrnul(rel, '/') - rel);

	if (!l->known)
		return true;
	for (size_t at = 0; at < l->len;) {
		const char *name = name_at(l, &at);

		/* the first letters tell most of them apart; in ASCII, case is this bit */
		if ((name[0] ^ rel[0]) & ~0x20 || (len > 1 && (name[1] ^ rel[1]) & ~0x20))
			continue;
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

/** struct base - a directory that rows of the tables are relative to, looked through once */
struct base {
	const char *path; /* "": the root */
	int fd;		  /* -1: not there */
	struct listings names;
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

bool base_may_hold(struct base *b, const char *rel)
{
	if (!names_may_hold(&b->names.base, rel))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(crowded); i++) {
		size_t n = strlen(crowded[i]);

		if (strncmp(rel, crowded[i], n) == 0)
			return names_may_hold(listing_below(&b->names, b->fd, i), rel + n);
	}
	return true;
}

struct base *base_open(const char *path)
{
	struct base *b = malloc(sizeof(*b));
	const char *dir = *path ? path : "/";

	if (!b)
		return NULL;
	b->path = path;
	b->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	names_read(&b->names.base, b->fd);
	memset(b->names.read, 0, sizeof(b->names.read));
	if (b->fd < 0) /* 0711 */
		b->fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return b;
}

void base_free(struct base *b)
{
	if (!b)
		return;
	scope_close(&b->fd);
	free(b);
}

const char *base_path(const struct base *b)
{
	return b->path;
}

int base_fd(const struct base *b)
{
	return b->fd;
}
