/* SPDX-License-Identifier: ISC */
/* broker/cli/plan_person.c - whom the sandbox takes the command for: the user, the machine.
 * Of the host no more is told than a program needs; what goes into files is one word. */
#include "broker/cli/plan_parts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/places.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/credentials.h"
#include "sandbox/plan.h"

#define HOSTS_MAX (1 << 20) /* bytes of the host's hosts file, in network allow */

static bool home_usable(const char *home)
{
	if (str_eq(home, "/"))
		return false;
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (str_eq(home, s->path)
			    ? !str_eq(home, "/root")
			    : path_within(home, s->path) &&
				      (s->use == SYSTEM_NOTHING || s->use == SYSTEM_NO_WRITE))
			return false;
	return true;
}

int person_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	const struct person *who = in->who;
	int r;

	p->uid = who->uid;
	p->gid = who->gid;
	if ((r = plan_copy(&p->user, who->user, e)) < 0 ||
	    (r = plan_copy(&p->group, who->group, e)) < 0 ||
	    (r = plan_copy(&p->shell, who->shell, e)) < 0)
		return r;
	if (home_usable(who->home)) {
		if ((r = plan_copy(&p->home, who->home, e)) < 0)
			return r;
		return grant_links(who->home_spelled, p, e);
	}
	/* a service account whose home is / or a system directory */
	return asprintf(&p->home, "/home/%s", who->user) < 0 ? plan_no_memory(e) : 0;
}

int hostname_plan(struct sandbox_plan *p, struct err *e)
{
	char name[256];

	if (gethostname(name, sizeof(name)) < 0)
		(void)snprintf(name, sizeof(name), "localhost");
	name[sizeof(name) - 1] = '\0';
	for (char *c = name; *c; c++) /* it goes into files: one word */
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127)
			*c = '-';
	return plan_copy(&p->hostname, name[0] ? name : "localhost", e);
}

static int host_hosts(struct sandbox_plan *p, struct err *e)
{
	SCOPED_FD int fd = open("/etc/hosts", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t len = 0;

	if (!(p->hosts = calloc(1, HOSTS_MAX + 1)))
		return plan_no_memory(e);
	while (fd >= 0 && len < HOSTS_MAX) {
		ssize_t n = read(fd, p->hosts + len, HOSTS_MAX - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	return 0;
}

int hosts_plan(struct sandbox_plan *p, struct err *e)
{
	char *text = NULL;

	if (p->net_host)
		return host_hosts(p, e);
	if (asprintf(&text,
		     "127.0.0.1\tlocalhost %s\n::1\tlocalhost ip6-localhost ip6-loopback %s\n",
		     p->hostname, p->hostname) < 0)
		return plan_no_memory(e);
	p->hosts = text;
	return 0;
}

/* The same for each run in one project, and no other machine's or project's. */
int machine_id_plan(struct sandbox_plan *p, const char *project, struct err *e)
{
	static const char salt[] = "weir machine-id";
	unsigned char hash[16];

	static_assert(sizeof(hash) >= crypto_generichash_BYTES_MIN, "BLAKE2b takes this length");
	if (crypto_generichash(hash, sizeof(hash), (const unsigned char *)project, strlen(project),
			       (const unsigned char *)salt, sizeof(salt)) != 0)
		return err_set(e, 0, "make a machine id");
	for (size_t i = 0; i < sizeof(hash); i++)
		(void)snprintf(p->machine_id + 2 * i, 3, "%02x", hash[i]);
	return 0;
}
