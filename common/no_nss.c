/* SPDX-License-Identifier: ISC */
/* common/no_nss.c - keep glibc's name service out of the static program (docs/adr/0004).
 * libcap-ng and c-ares bring functions that weir never calls but the linker keeps; these stand in
 * for what they would load from the host at run time. Linked into build/weir alone, not in the
 * archive. Each answers as if nothing were found. */
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <stddef.h>

struct passwd *getpwuid(uid_t uid)
{
	(void)uid;
	errno = ENOENT;
	return NULL;
}

int initgroups(const char *user, gid_t group)
{
	(void)user;
	(void)group;
	errno = EPERM;
	return -1;
}

int getservbyport_r(int port, const char *proto, struct servent *ent, char *buf, size_t room,
		    struct servent **found)
{
	(void)port;
	(void)proto;
	(void)ent;
	(void)buf;
	(void)room;
	*found = NULL;
	return ENOENT;
}

struct servent *getservbyname(const char *name, const char *proto)
{
	(void)name;
	(void)proto;
	return NULL;
}
