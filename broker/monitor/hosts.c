/* SPDX-License-Identifier: ISC */
/* broker/monitor/hosts.c - what /etc/hosts says about a name.
 * The file is the administrator's: believed as far as the addresses, which policy judges like any
 * other. Asked only about names that the policy allows.
 * Memory: the file's text (at most HOSTS_FILE_MAX) and an index of HOSTS_NAMES_MAX names. */
#include "hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/msg.h"
#include "common/scope.h"

void hosts_init(struct hosts *h, const char *path)
{
	*h = (struct hosts){ .path = path };
}

static void hosts_forget(struct hosts *h)
{
	free(h->text);
	free(h->name);
	free(h->bucket);
	h->text = NULL;
	h->name = NULL;
	h->bucket = NULL;
	h->nnames = h->room = h->nbuckets = 0;
}

void hosts_free(struct hosts *h)
{
	hosts_forget(h);
	h->have = 0;
}

static uint32_t hash(const char *s)
{
	uint32_t v = 2166136261u; /* FNV-1a */

	for (; *s; s++)
		v = (v ^ (uint8_t)*s) * 16777619u;
	return v;
}

static int name_add(struct hosts *h, const char *name, const struct addr *a)
{
	if (h->nnames >= HOSTS_NAMES_MAX)
		return 0;
	if (h->nnames == h->room) {
		size_t room = h->room ? h->room * 2 : 64;
		struct hosts_name *bigger = reallocarray(h->name, room, sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		h->name = bigger;
		h->room = room;
	}
	h->name[h->nnames++] = (struct hosts_name){ .off = (uint32_t)(name - h->text), .addr = *a };
	return 0;
}

/* The next word of a line, folded and terminated in place; NULL at its end. */
static char *word_next(char **at)
{
	char *w = *at + strspn(*at, " \t\r");
	size_t len = strcspn(w, " \t\r");

	if (len == 0)
		return NULL;
	*at = w + len + (w[len] != '\0');
	w[len] = '\0';
	for (char *c = w; *c; c++) {
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c + ('a' - 'A'));
	}
	return w;
}

static int line_load(struct hosts *h, char *line)
{
	struct addr a;
	char *w;

	line[strcspn(line, "#")] = '\0';
	w = word_next(&line);
	if (!w || addr_parse(&a, w) < 0)
		return 0;
	while ((w = word_next(&line))) {
		size_t len = strlen(w);

		if (len > 1 && w[len - 1] == '.')
			w[--len] = '\0';
		if (len <= HOST_MAX && name_add(h, w, &a) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int index_build(struct hosts *h)
{
	size_t n = 64;

	while (n < h->nnames)
		n *= 2;
	h->bucket = calloc(n * 2, sizeof(*h->bucket));
	if (!h->bucket)
		return -ENOMEM;
	h->nbuckets = n;
	for (uint32_t i = 0; i < h->nnames; i++) {
		uint32_t b = hash(h->text + h->name[i].off) & (uint32_t)(n - 1);
		uint32_t tail = h->bucket[n + b];

		if (tail)
			h->name[tail - 1].next = i + 1;
		else
			h->bucket[b] = i + 1;
		h->bucket[n + b] = i + 1;
	}
	return 0;
}

int hosts_load(struct hosts *h, const char *text, size_t len)
{
	char *line, *end;

	hosts_forget(h);
	if (len > HOSTS_FILE_MAX)
		len = HOSTS_FILE_MAX;
	h->text = malloc(len + 1);
	if (!h->text)
		return -ENOMEM;
	if (len > 0)
		memcpy(h->text, text, len);
	h->text[len] = '\0';
	end = h->text + len;
	for (line = h->text; line < end;) {
		char *nl = memchr(line, '\n', (size_t)(end - line));
		char *next = nl ? nl + 1 : end;

		if (nl)
			*nl = '\0';
		if (line_load(h, line) < 0)
			goto fail;
		line = next;
	}
	if (index_build(h) < 0)
		goto fail;
	return 0;
fail:
	hosts_forget(h);
	return -ENOMEM;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool file_is_same(const struct hosts *h, const struct stat *st)
{
	return h->have && h->dev == st->st_dev && h->ino == st->st_ino && h->size == st->st_size &&
	       same_time(&h->mtime, &st->st_mtim) && same_time(&h->ctime, &st->st_ctim);
}

/* What is in the file now, at most HOSTS_FILE_MAX bytes; NULL without memory. */
static char *file_text(int fd, off_t size, size_t *len)
{
	size_t room = size < (off_t)HOSTS_FILE_MAX ? (size_t)size : HOSTS_FILE_MAX;
	char *text = malloc(room + 1);

	*len = 0;
	while (text && *len < room) {
		ssize_t n = read(fd, text + *len, room - *len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		*len += (size_t)n;
	}
	return text;
}

/* The times are those from before the read: a change during it is seen by the next lookup. */
static void file_read(struct hosts *h)
{
	SCOPED_FD int fd = open(h->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	char *text;
	size_t len;
	int r;

	hosts_free(h);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	text = file_text(fd, st.st_size, &len);
	if (!text)
		return;
	r = hosts_load(h, text, len);
	free(text);
	if (r < 0)
		return;
	h->have = 1;
	h->dev = st.st_dev;
	h->ino = st.st_ino;
	h->size = st.st_size;
	h->mtime = st.st_mtim;
	h->ctime = st.st_ctim;
}

static void file_follow(struct hosts *h)
{
	struct stat st;

	if (!h->path)
		return;
	if (stat(h->path, &st) < 0)
		hosts_free(h);
	else if (!file_is_same(h, &st))
		file_read(h);
}

static bool is_localhost(const char *name)
{
	static const char word[] = "localhost";
	size_t len = strlen(name), n = sizeof(word) - 1;

	return len >= n && str_eq(name + len - n, word) && (len == n || name[len - n - 1] == '.');
}

static size_t localhost_addrs(struct addr *out, size_t max)
{
	static const char *const text[] = { "127.0.0.1", "::1" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(text) && n < max; i++)
		n += addr_parse(&out[n], text[i]) == 0;
	return n;
}

static bool holds(const struct addr *list, size_t n, const struct addr *a)
{
	for (size_t i = 0; i < n; i++) {
		if (addr_eq(&list[i], a))
			return true;
	}
	return false;
}

size_t hosts_lookup(struct hosts *h, const char *name, struct addr *out, size_t max)
{
	size_t n = 0;

	if (is_localhost(name))
		return localhost_addrs(out, max);
	file_follow(h);
	if (h->nbuckets == 0 || !h->name)
		return 0;
	for (uint32_t i = h->bucket[hash(name) & (uint32_t)(h->nbuckets - 1)]; i && n < max;
	     i = h->name[i - 1].next) {
		const struct hosts_name *e = &h->name[i - 1];

		if (str_eq(h->text + e->off, name) && !holds(out, n, &e->addr))
			out[n++] = e->addr;
	}
	return n;
}
