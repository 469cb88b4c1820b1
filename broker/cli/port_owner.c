/* SPDX-License-Identifier: ISC */
/* broker/cli/port_owner.c - who listens on a port, for a message.
 * Reads /proc as any user may: of the user's own processes the name and pid, of others the user id.
 * Runs only when a launch has failed already. Bounded by what it looks at. */
#include "broker/cli/forwards.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/escape.h"
#include "common/num.h"
#include "common/scope.h"

#define LINES_MAX 65536 /* sockets of /proc/net/tcp */
#define PIDS_MAX 32768
#define FDS_MAX 4096 /* descriptors of one process */
#define FIELDS 10    /* of a line, up to the inode. Source: proc(5) */

struct listener {
	uint64_t uid, inode;
};

/* "0: 0100007F:1F90 00000000:0000 0A …" Return: true when it listens on @port */
static bool line_read(char *line, uint16_t port, struct listener *out)
{
	char *field[FIELDS], want[6], *word, *at = line;
	const char *colon;
	size_t n = 0;

	while (n < FIELDS && (word = strsep(&at, " \n")))
		if (*word)
			field[n++] = word;
	(void)snprintf(want, sizeof(want), ":%04X", port);
	return n == FIELDS && (colon = strrchr(field[1], ':')) && str_eq(colon, want) &&
	       str_eq(field[3], "0A") && num_u64(field[7], 0, UINT32_MAX, &out->uid) == 0 &&
	       num_u64(field[9], 1, UINT64_MAX, &out->inode) == 0;
}

static bool table_search(const char *path, uint16_t port, struct listener *out)
{
	FILE *f = fopen(path, "re");
	char line[512];
	bool found = false;

	for (unsigned i = 0; f && !found && i < LINES_MAX && fgets(line, sizeof(line), f); i++)
		found = line_read(line, port, out);
	if (f)
		(void)fclose(f);
	return found;
}

static bool process_has(const char *pid, const char *link)
{
	char dir[300], file[600], got[64];
	const struct dirent *d;
	bool found = false;
	DIR *list;

	(void)snprintf(dir, sizeof(dir), "/proc/%s/fd", pid);
	list = opendir(dir);
	for (unsigned i = 0; list && !found && i < FDS_MAX && (d = readdir(list)); i++) {
		ssize_t n;

		(void)snprintf(file, sizeof(file), "%s/%s", dir, d->d_name);
		n = readlink(file, got, sizeof(got) - 1);
		got[n > 0 ? n : 0] = '\0';
		found = str_eq(got, link);
	}
	if (list)
		(void)closedir(list);
	return found;
}

static void name_read(const char *pid, char *buf, size_t room)
{
	char path[300], raw[64];
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(raw, sizeof(raw), f))
		(void)snprintf(raw, sizeof(raw), "a process");
	if (f)
		(void)fclose(f);
	raw[strcspn(raw, "\n")] = '\0';
	(void)escape_line(buf, room, raw, strlen(raw));
}

static bool process_find(uint64_t inode, char *buf, size_t room)
{
	DIR *proc = opendir("/proc");
	const struct dirent *d;
	char link[64], name[64];
	bool found = false;

	(void)snprintf(link, sizeof(link), "socket:[%llu]", (unsigned long long)inode);
	for (unsigned i = 0; proc && !found && i < PIDS_MAX && (d = readdir(proc)); i++) {
		if (num_u64(d->d_name, 1, INT32_MAX, &(uint64_t){ 0 }) < 0 ||
		    !process_has(d->d_name, link))
			continue;
		name_read(d->d_name, name, sizeof(name));
		(void)snprintf(buf, room, "%s (pid %s)", name, d->d_name);
		found = true;
	}
	if (proc)
		(void)closedir(proc);
	return found;
}

bool port_owner(uint16_t port, char *buf, size_t room)
{
	struct listener l;

	if (!table_search("/proc/net/tcp", port, &l) && !table_search("/proc/net/tcp6", port, &l))
		return false;
	if (!process_find(l.inode, buf, room))
		(void)snprintf(buf, room, "a process of user %llu", (unsigned long long)l.uid);
	return true;
}
