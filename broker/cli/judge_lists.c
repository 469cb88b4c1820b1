/* SPDX-License-Identifier: ISC */
/* broker/cli/judge_lists.c - the refusal lists of this user on this machine.
 * Other users' homes are of passwd(5), which the administrator writes; the rest is of tables, with the
 * links in them resolved. What cannot be read leaves no list: then nothing is shared. */
#include "broker/cli/judge_lists.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "broker/cli/judge.h"
#include "broker/cli/links.h"
#include "broker/cli/listing.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/num.h"
#include "common/scope.h"
#include "sandbox/credentials.h"

#define HOMES_MAX 256
#define PASSWD_LINE 1024
#define PERSON_FIRST 1000 /* login.defs(5) UID_MIN; below it are daemons */
#define PERSON_LAST 60000000

static int home_add(struct judge *j, const char *home)
{
	char real[PATH_MAX];

	if (home[0] != '/' || !realpath(home, real) || str_eq(real, "/") || j->homes.n >= HOMES_MAX)
		return 0;
	if (str_eq(real, j->home))
		return 0;
	/* daemons' homes are system directories, which have a list of their own */
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (s->use != SYSTEM_SELF && s->use != SYSTEM_READ && path_within(real, s->path))
			return 0;
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (str_eq(real, s->path) && !str_eq(real, "/root"))
			return 0;
	return places_add(&j->homes, real, "another user's home");
}

static int homes_read(struct judge *j)
{
	FILE *f = fopen("/etc/passwd", "re");
	char line[PASSWD_LINE];
	int r = home_add(j, "/root");

	while (f && r == 0 && fgets(line, sizeof(line), f)) {
		char *p = line, *field[6] = { NULL };
		uint64_t uid;

		for (int i = 0; i < 6 && p; i++)
			field[i] = strsep(&p, ":");
		if (p && num_u64(field[2], PERSON_FIRST, PERSON_LAST, &uid) == 0)
			r = home_add(j, field[5]);
	}
	if (f)
		(void)fclose(f);
	return r;
}

static int bins_read(struct judge *j, char *const *env)
{
	char dir[PATH_MAX];
	int r = 0;

	for (; env && *env; env++) {
		const char *p = *env + 5;

		if (strncmp(*env, "PATH=", 5) != 0)
			continue;
		while (r == 0) {
			size_t n = strcspn(p, ":");

			if (n && n < sizeof(dir) && p[0] == '/') {
				memcpy(dir, p, n);
				dir[n] = '\0';
				r = places_add_real(&j->bins, dir, "a directory of your PATH");
			}
			p += n;
			if (!*p++)
				break;
		}
		break;
	}
	return r;
}

static int own_link(void *arg, const char *link)
{
	struct judge *j = arg;

	return places_add(&j->own, link, "a link on the way to weir's own files");
}

/* A policy file may be a link into a dotfiles repository: who writes there writes the policy. */
static int policy_files_add(struct judge *j, const struct weir_dirs *d)
{
	const char *const dirs[] = { d->config, "/etc/weir" };
	char path[PATH_MAX], real[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		int n = dirs[i] ? snprintf(path, sizeof(path), "%s/policy", dirs[i]) : -1;
		int r;

		if (n < 0 || (size_t)n >= sizeof(path))
			continue;
		/* without one it lies in its directory, which is in the list already */
		if (!path_has_link(AT_FDCWD, path))
			continue;
		r = path_links(path, own_link, j);
		if (r == 0 && realpath(path, real))
			r = places_add(&j->own, real, "weir's own policy");
		if (r < 0)
			return r;
	}
	return 0;
}

static int own_read(struct judge *j, const struct weir_dirs *d)
{
	static const struct place_row defaults[] = { { ".config/weir", "weir's own files" },
						     { ".local/state/weir", "weir's own files" },
						     { ".cache/weir", "weir's own files" },
						     { NULL, NULL } };
	const char *const dirs[] = { d->config, d->state, d->cache, d->runtime, "/etc/weir" };
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(dirs) && r == 0; i++)
		if (dirs[i] && (r = places_add(&j->own, dirs[i], "weir's own files")) == 0)
			if ((r = places_add_resolved(&j->own, dirs[i], "weir's own files")) == 0)
				r = path_links(dirs[i], own_link, j);
	if (r == 0)
		r = policy_files_add(j, d);
	return r < 0 ? r : places_add_table(&j->own, j->home_base, defaults);
}

bool mounted_read(struct mounted *m, int at, const char *path)
{
	struct statx st;

	*m = (struct mounted){ .path = NULL };
	if (!path || statx(at, path, AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_MNT_ID, &st) < 0)
		return false;
	*m = (struct mounted){ .path = path,
			       .major = st.stx_dev_major,
			       .minor = st.stx_dev_minor,
			       .mount = st.stx_mask & STATX_MNT_ID ? st.stx_mnt_id : 0 };
	return true;
}

struct judge *judge_new(const struct person *who, const struct weir_dirs *dirs, char *const *env,
			struct err *e)
{
	struct judge *j = calloc(1, sizeof(*j));
	struct base *top = base_open("");
	int r;

	if (!j || !(j->home = strdup(who->home)) || !top || !(j->home_base = base_open(j->home))) {
		base_free(top);
		judge_free(j);
		(void)err_set(e, ENOMEM, "read the refusal lists");
		return NULL;
	}
	j->uid = who->uid;
	mounted_read(&j->mounted[0], AT_FDCWD, dirs->config);
	mounted_read(&j->mounted[1], AT_FDCWD, dirs->state);
	r = homes_read(j);
	if (r == 0)
		r = places_add_table(&j->credentials, j->home_base, credentials_home);
	if (r == 0)
		r = places_add_table(&j->credentials, top, credentials_system);
	if (r == 0)
		r = places_add_table(&j->autorun, j->home_base, autorun_home);
	base_free(top);
	if (r == 0)
		r = own_read(j, dirs);
	if (r == 0)
		r = bins_read(j, env);
	if (r < 0) {
		(void)err_set(e, -r, "read the refusal lists");
		judge_free(j);
		return NULL;
	}
	return j;
}

void judge_free(struct judge *j)
{
	if (!j)
		return;
	places_free(&j->homes);
	places_free(&j->credentials);
	places_free(&j->autorun);
	places_free(&j->own);
	places_free(&j->bins);
	free(j->home);
	base_free(j->home_base);
	free(j);
}
