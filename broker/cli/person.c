/* SPDX-License-Identifier: ISC */
/* broker/cli/person.c - who runs weir, from which directory, and where weir's own files are.
 * No NSS: /etc/passwd is read line by line. The environment is the user's word and is checked: a HOME
 * or PWD that does not hold is not used. */
#include "broker/cli/plan.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/places.h"
#include "common/err.h"
#include "common/num.h"
#include "common/scope.h"

#define LINE_ROOM 1024 /* of passwd and group; longer ones are passed over */
#define PASSWD_LINES 100000
#define WALK_MAX 256 /* directories from the working directory upwards */

static const char *env_value(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

static int copy(char **to, const char *from)
{
	char *s = strdup(from);

	if (!s)
		return -ENOMEM;
	free(*to);
	*to = s;
	return 0;
}

/* Split one line of passwd or group into @n fields. False: it has fewer. */
static bool fields(char *line, char **f, size_t n)
{
	char *p = line;

	line[strcspn(line, "\n")] = '\0';
	for (size_t i = 0; i < n; i++)
		if (!(f[i] = strsep(&p, ":")))
			return false;
	return true;
}

static bool id_is(const char *text, unsigned want)
{
	uint64_t v;

	return num_u64(text, 0, UINT32_MAX, &v) == 0 && v == want;
}

static int passwd_read(struct person *p)
{
	FILE *f = fopen("/etc/passwd", "re");
	char line[LINE_ROOM], *v[7];
	int r = 0;

	for (int i = 0; f && i < PASSWD_LINES && fgets(line, sizeof(line), f); i++) {
		if (!fields(line, v, 7) || !id_is(v[2], p->uid))
			continue;
		if (v[0][0])
			r = copy(&p->user, v[0]);
		if (r == 0 && v[5][0] == '/')
			r = copy(&p->home_spelled, v[5]);
		if (r == 0 && v[6][0] == '/')
			r = copy(&p->shell, v[6]);
		break;
	}
	if (f)
		(void)fclose(f);
	return r;
}

static int group_read(struct person *p)
{
	FILE *f = fopen("/etc/group", "re");
	char line[LINE_ROOM], *v[3];
	int r = 0;

	for (int i = 0; f && i < PASSWD_LINES && fgets(line, sizeof(line), f); i++) {
		if (!fields(line, v, 3) || !id_is(v[2], p->gid) || !v[0][0])
			continue;
		r = copy(&p->group, v[0]);
		break;
	}
	if (f)
		(void)fclose(f);
	return r;
}

static bool is_dir(const char *path, uid_t *owner)
{
	struct stat st;

	if (path[0] != '/' || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return false;
	*owner = st.st_uid;
	return true;
}

/* HOME from the environment, unless it is somebody else's and passwd names one that is not. */
static int home_find(struct person *p, char *const *env)
{
	const char *home = env_value(env, "HOME");
	uid_t owner = 0, passwd_owner = 0;
	bool have = home && is_dir(home, &owner);
	bool listed = p->home_spelled && is_dir(p->home_spelled, &passwd_owner);
	char real[PATH_MAX];
	int r = 0;

	if (have && (owner == p->uid || !listed || passwd_owner != p->uid))
		r = copy(&p->home_spelled, home);
	else if (!listed)
		r = copy(&p->home_spelled, "/nonexistent");
	if (r < 0)
		return r;
	return copy(&p->home, realpath(p->home_spelled, real) ? real : p->home_spelled);
}

int person_read(struct person *p, char *const *env, struct err *e)
{
	struct person me = { .uid = getuid(), .gid = getgid() };
	const char *shell = env_value(env, "SHELL");
	int r = copy(&me.user, "user");

	if (r == 0)
		r = copy(&me.group, "user");
	if (r == 0)
		r = copy(&me.shell, "/bin/sh");
	if (r == 0)
		r = passwd_read(&me);
	if (r == 0)
		r = group_read(&me);
	if (r == 0)
		r = home_find(&me, env);
	if (r == 0 && shell && shell[0] == '/' && !strpbrk(shell, ":\n") &&
	    access(shell, X_OK) == 0)
		r = copy(&me.shell, shell);
	if (r < 0) {
		person_free(&me);
		return err_set(e, -r, "find out who you are");
	}
	*p = me;
	return 0;
}

void person_free(struct person *p)
{
	if (!p)
		return;
	free(p->user);
	free(p->group);
	free(p->shell);
	free(p->home);
	free(p->home_spelled);
	*p = (struct person){ 0 };
}

/* ---- the working directory ---- */

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* No component "." or "..", no double slash: a spelling that a shell would show. */
static bool spelling_plain(const char *path)
{
	for (const char *p = path; *p;) {
		size_t n;

		if (*p++ != '/')
			return false;
		n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return n == 0 && str_eq(path, "/");
		p += n;
	}
	return true;
}

static int cwd_find(struct place *p, const char *dir, char *const *env, struct err *e)
{
	const char *pwd = env_value(env, "PWD");
	char real[PATH_MAX], joined[PATH_MAX];
	int n = 0;

	if (dir && chdir(dir) < 0)
		return err_set(e, errno, "change to the directory '%s'", dir);
	if (!getcwd(real, sizeof(real)) || real[0] != '/') {
		(void)err_set(e, errno ? errno : ENOENT, "the working directory is gone");
		return err_fix(e, "change to a directory that exists, or use -C DIR");
	}
	if (dir && dir[0] == '/')
		n = snprintf(joined, sizeof(joined), "%s", dir);
	else if (pwd && pwd[0] == '/')
		n = snprintf(joined, sizeof(joined), "%s%s%s", pwd, dir ? "/" : "", dir ? dir : "");
	if (n <= 0 || (size_t)n >= sizeof(joined))
		(void)snprintf(joined, sizeof(joined), "%s", real);
	for (size_t len = strlen(joined); len > 1 && joined[len - 1] == '/'; len--)
		joined[len - 1] = '\0';
	if (!spelling_plain(joined) || !same_file(joined, real))
		(void)snprintf(joined, sizeof(joined), "%s", real);
	if (!(p->cwd = strdup(joined)) || !(p->real = strdup(real)))
		return err_set(e, ENOMEM, "find the working directory");
	return 0;
}

int place_check(const struct place *p, struct err *e)
{
	static const char *const no[] = { "/proc", "/sys", "/dev" };

	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		if (path_within(p->real, no[i])) {
			(void)err_set(e, 0, "a sandbox cannot start in '%s'", p->real);
			return err_fix(e, "change to another directory, or use -C DIR");
		}
	/* removable media are mounted below /run/media; the rest of /run is the system's */
	if (path_within(p->real, "/run") && !path_within(p->real, "/run/media")) {
		(void)err_set(e, 0, "a sandbox cannot start in '%s'", p->real);
		return err_fix(e, "change to another directory, or use -C DIR");
	}
	return 0;
}

static bool holds(int dir, const char *name, bool directory)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (!directory || S_ISDIR(st.st_mode));
}

/* Upwards by descriptors, through the user's own directories below $HOME and / only: what somebody
 * else may write to can plant a .git or .weir above us. */
static int project_find(struct place *p, const struct person *who, struct err *e)
{
	SCOPED_FD int dir = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char at[PATH_MAX];
	struct stat st;

	(void)snprintf(at, sizeof(at), "%s", p->real);
	for (int i = 0; i < WALK_MAX && dir >= 0; i++) {
		char *slash = strrchr(at, '/');
		int up;

		if (path_within(who->home, at) || !slash || fstat(dir, &st) < 0 ||
		    st.st_uid != who->uid)
			break;
		p->weir = holds(dir, ".weir", true);
		if (p->weir || holds(dir, ".git", false)) {
			p->found = true;
			p->project = strdup(at);
			return p->project ? 0 : err_set(e, ENOMEM, "find the project directory");
		}
		up = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)close(dir);
		dir = up;
		slash[slash == at] = '\0';
	}
	p->project = strdup(p->real);
	return p->project ? 0 : err_set(e, ENOMEM, "find the project directory");
}

int place_find(struct place *p, const struct person *who, const char *dir, char *const *env,
	       struct err *e)
{
	struct place here = { 0 };
	int r = cwd_find(&here, dir, env, e);

	if (r == 0) {
		assert(here.real);
		r = project_find(&here, who, e);
	}
	if (r < 0) {
		place_free(&here);
		return r;
	}
	*p = here;
	return 0;
}

void place_free(struct place *p)
{
	if (!p)
		return;
	free(p->cwd);
	free(p->real);
	free(p->project);
	*p = (struct place){ 0 };
}

/* ---- weir's own directories ---- */

static int xdg_dir(char **out, char *const *env, const char *var, const char *home,
		   const char *rest)
{
	const char *base = env_value(env, var);
	int n = base && base[0] == '/' ? asprintf(out, "%s/weir", base)
				       : asprintf(out, "%s/%s/weir", home, rest);

	if (n < 0) {
		*out = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int runtime_dir(struct weir_dirs *d, const struct person *who, char *const *env)
{
	const char *base = env_value(env, "XDG_RUNTIME_DIR");
	char run[48];
	uid_t owner = 0;
	int n;

	(void)snprintf(run, sizeof(run), "/run/user/%u", who->uid);
	if (base && base[0] == '/' && is_dir(base, &owner) && owner == who->uid)
		n = asprintf(&d->runtime, "%s/weir", base);
	else if (is_dir(run, &owner) && owner == who->uid)
		n = asprintf(&d->runtime, "%s/weir", run);
	else
		n = asprintf(&d->runtime, "%s/run", d->state);
	if (n < 0) {
		d->runtime = NULL;
		return -ENOMEM;
	}
	return 0;
}

int weir_dirs_find(struct weir_dirs *d, const struct person *who, char *const *env, struct err *e)
{
	struct weir_dirs w = { 0 };
	int r = xdg_dir(&w.config, env, "XDG_CONFIG_HOME", who->home, ".config");

	if (r == 0)
		r = xdg_dir(&w.state, env, "XDG_STATE_HOME", who->home, ".local/state");
	if (r == 0)
		r = xdg_dir(&w.cache, env, "XDG_CACHE_HOME", who->home, ".cache");
	if (r == 0)
		r = runtime_dir(&w, who, env);
	if (r < 0) {
		weir_dirs_free(&w);
		return err_set(e, -r, "find weir's directories");
	}
	*d = w;
	return 0;
}

void weir_dirs_free(struct weir_dirs *d)
{
	if (!d)
		return;
	free(d->config);
	free(d->state);
	free(d->cache);
	free(d->runtime);
	*d = (struct weir_dirs){ 0 };
}
