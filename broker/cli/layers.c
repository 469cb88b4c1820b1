/* SPDX-License-Identifier: ISC */
/* broker/cli/layers.c - which policy files apply, in which order, and whose they may be.
 * Believes the user's own files and the administrator's, after looking at owner and mode of the very
 * descriptor that is read; a project's file is a stranger's until the user has accepted its bytes.
 *   READ --it changes--> READ; --broken, vanished, not what was trusted--> KEPT --good again--> READ */
#include "broker/cli/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/layers_file.h"
#include "broker/cli/node.h"
#include "broker/cli/trust.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"

#define ADMIN_FILE "/etc/weir/policy"

extern char **environ;

/* ---- options ---- */

static int room_for_one(const struct layers_options *o, struct err *e)
{
	return o->nfiles + o->nflags < LAYERS_FLAGS_MAX
		       ? 0
		       : err_set(e, E2BIG, "more than %u policy options", LAYERS_FLAGS_MAX);
}

int layers_line(struct layers_options *o, const char *flag, const char *keyword, const char *front,
		const char *value, struct err *e)
{
	int r = room_for_one(o, e);
	struct layers_flag *f = r < 0 ? NULL : reallocarray(o->flags, o->nflags + 1, sizeof(*f));

	if (!f)
		return r < 0 ? r : err_set(e, ENOMEM, "%s", flag);
	o->flags = f;
	f += o->nflags;
	f->flag = flag;
	f->keyword = keyword;
	if (asprintf(&f->value, "%s%s", front, value) < 0)
		return err_set(e, ENOMEM, "%s", flag);
	o->nflags++;
	return 0;
}

int layers_file(struct layers_options *o, const char *path, struct err *e)
{
	int r = room_for_one(o, e);
	const char **f = r < 0 ? NULL : reallocarray(o->files, o->nfiles + 1, sizeof(*f));

	if (!f)
		return r < 0 ? r : err_set(e, ENOMEM, "--policy");
	o->files = f;
	o->files[o->nfiles++] = path;
	return 0;
}

void layers_options_free(struct layers_options *o)
{
	for (size_t i = 0; i < o->nflags; i++)
		free(o->flags[i].value);
	free(o->flags);
	free(o->files);
	*o = (struct layers_options){ 0 };
}

/* ---- the files ---- */

char *layers_user_file(const struct weir_dirs *dirs)
{
	char *path = NULL;

	return asprintf(&path, "%s/policy", dirs->config) < 0 ? NULL : path;
}

char *layers_trust_store(const struct weir_dirs *dirs)
{
	char *path = NULL;

	return asprintf(&path, "%s/trust", dirs->state) < 0 ? NULL : path;
}

static char *answers_file(const struct weir_dirs *dirs, const char *project)
{
	char key[PROJECT_KEY_LEN + 1], *path = NULL;

	project_key(project, key);
	return asprintf(&path, "%s/projects/%s.policy", dirs->state, key) < 0 ? NULL : path;
}

static char *project_file(const char *project)
{
	char *path = NULL;

	return asprintf(&path, "%s/.weir/policy", project) < 0 ? NULL : path;
}

static char *absolute(const struct place *p, const char *path)
{
	char *all = NULL;

	if (*path == '/')
		return strdup(path);
	return asprintf(&all, "%s/%s", p->real, path) < 0 ? NULL : all;
}

/* Takes @path. @name NULL: the path itself */
static int source_add(struct surroundings *at, enum policy_layer layer, char *path,
		      const char *name, struct err *e)
{
	struct layers_source *s;

	if (!path)
		return err_set(e, ENOMEM, "policy");
	s = reallocarray(at->sources, at->nsources + 1, sizeof(*s));
	if (!s) {
		free(path);
		return err_set(e, ENOMEM, "policy");
	}
	at->sources = s;
	s += at->nsources++;
	*s = (struct layers_source){ .layer = layer, .path = path };
	s->name = strdup(name ? name : path);
	return s->name ? 0 : err_set(e, ENOMEM, "policy");
}

static int sources_find(const struct layers_options *o, struct surroundings *at, struct err *e)
{
	const char *project = at->place.project;
	int r = source_add(at, LAYER_ADMIN, strdup(ADMIN_FILE), NULL, e);

	if (r == 0 && !o->no_user_policy && at->dirs.config)
		r = source_add(at, LAYER_USER, layers_user_file(&at->dirs), NULL, e);
	if (r == 0 && !o->no_user_policy && at->dirs.state)
		r = source_add(at, LAYER_ANSWERS, answers_file(&at->dirs, project), NULL, e);
	if (r == 0 && at->dirs.state)
		r = source_add(at, LAYER_PROJECT, project_file(project), NULL, e);
	for (size_t i = 0; r == 0 && i < o->nfiles; i++)
		r = source_add(at, LAYER_FILE, absolute(&at->place, o->files[i]), o->files[i], e);
	return r;
}

enum { READ_UNTRUSTED = 1, READ_CHANGED };

/* A project's file counts when its bytes, as they were read, have the hash that was accepted.
 * Return: 0, READ_UNTRUSTED, READ_CHANGED, -ENOENT or an error */
static int project_read(const struct surroundings *at, char **text, size_t *len, struct err *e)
{
	char now[TRUST_HASH_LEN + 1], then[TRUST_HASH_LEN + 1];
	SCOPED_FREE char *store = layers_trust_store(&at->dirs);
	SCOPED_FREE char *got = NULL;
	int r;

	if (!store)
		return err_set(e, ENOMEM, "policy");
	r = trust_find(store, at->who.uid, at->place.project, then, e);
	if (r < 0)
		return r;
	if (r == 0) {
		struct stat st;
		SCOPED_FREE char *path = project_file(at->place.project);

		return path && fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0
			       ? READ_UNTRUSTED
			       : -ENOENT;
	}
	r = layers_read_project(at->place.project, at->who.uid, &got, len, e);
	if (r < 0)
		return r;
	trust_hash(got, *len, now);
	if (!str_eq(now, then))
		return READ_CHANGED;
	*text = take_ptr(&got);
	return 0;
}

static int source_read(const struct surroundings *at, const struct layers_source *s, char **text,
		       size_t *len, struct err *e)
{
	if (s->layer == LAYER_PROJECT)
		return project_read(at, text, len, e);
	if (s->layer == LAYER_FILE)
		return s->text ? layers_read_again(s->path, text, len, e)
			       : layers_read(s->path, text, len, e);
	return layers_read_guarded(s->path, at->who.uid, text, len, e);
}

static void project_tell(const struct layers_source *s, int r, char *text, size_t room)
{
	if (r == READ_CHANGED)
		(void)snprintf(
			text, room,
			"'%s' is not read: it has changed since it was trusted; 'weir trust' "
			"shows it and asks again",
			s->path);
	else
		(void)snprintf(
			text, room,
			"'%s' is not read: it is not trusted; 'weir trust' shows it and asks",
			s->path);
}

/* ---- the layers ---- */

static struct policy *policy_open(const struct surroundings *at)
{
	const struct policy_context ctx = { .home = at->who.home,
					    .cwd = at->place.real,
					    .project = at->place.project,
					    .environ = environ };

	return policy_new(&ctx);
}

static int add_flags(struct policy *pol, const struct layers_options *o, struct err *e)
{
	for (size_t i = 0; i < o->nflags; i++) {
		const struct layers_flag *f = &o->flags[i];
		int r = policy_add_flag(pol, f->flag, f->keyword, f->value, e);

		if (r < 0)
			return r;
	}
	return 0;
}

static bool path_exists(const char *path)
{
	return path[0] == '/' ? faccessat(AT_FDCWD, path, F_OK, 0) == 0 : gpu_present();
}

/* Everything that was read, merged. */
static int merge(const struct layers_options *o, const struct surroundings *at, bool live,
		 void (*tell)(void *arg, const char *text), void *arg, struct policy **out,
		 struct err *e)
{
	struct policy *pol = policy_open(at);
	int r = pol ? 0 : err_set(e, ENOMEM, "policy");

	for (size_t i = 0; r == 0 && i < at->nsources; i++) {
		const struct layers_source *s = &at->sources[i];

		if (s->text)
			r = policy_add_text(pol, (enum policy_layer)s->layer, s->name, s->text,
					    s->len, e);
	}
	if (r == 0)
		r = add_flags(pol, o, e);
	if (r == 0 && o->no_user_policy)
		policy_without_user_file(pol);
	if (r == 0 && live)
		policy_live(pol);
	if (r == 0)
		r = policy_seal(pol, tell, arg, e);
	if (r < 0)
		policy_free(pol);
	else
		*out = pol;
	return r;
}

static int first_read(const struct layers_options *o, struct surroundings *at, struct err *e)
{
	for (size_t i = 0; i < at->nsources; i++) {
		struct layers_source *s = &at->sources[i];
		char text[2 * PATH_MAX];
		struct stat st;
		int r = source_read(at, s, &s->text, &s->len, e);

		if (r < 0 && (r != -ENOENT || s->layer == LAYER_FILE))
			return r;
		s->fixed = s->layer == LAYER_FILE &&
			   (stat(s->path, &st) < 0 || !S_ISREG(st.st_mode));
		if (r <= 0)
			continue;
		project_tell(s, r, text, sizeof(text));
		s->told = strdup(text);
		if (!o->quiet)
			note("%s", text);
	}
	return 0;
}

/* What policy_seal() says, kept until it is known whether it was said before */
struct heard {
	char text[2048];
	size_t len;
};

static void hear(void *arg, const char *text)
{
	struct heard *h = arg;
	int n = snprintf(h->text + h->len, sizeof(h->text) - h->len, "%s%s", h->len ? "\n" : "",
			 text);

	if (n > 0 && h->len + (size_t)n < sizeof(h->text))
		h->len += (size_t)n;
	else
		h->text[h->len] = '\0';
}

static void heard_tell(struct surroundings *at, const struct heard *h,
		       void (*tell)(void *arg, const char *text), void *arg)
{
	const char *from = h->text;

	if (at->locks_told && str_eq(at->locks_told, h->text))
		return;
	free(at->locks_told);
	at->locks_told = strdup(h->text);
	while (tell && *from) {
		char line[1024];
		size_t n = strcspn(from, "\n");

		(void)snprintf(line, sizeof(line), "%.*s", (int)n, from);
		tell(arg, line);
		from += n + (from[n] == '\n');
	}
}

static void tell_person(void *arg, const char *text)
{
	(void)arg;
	note("%s", text);
}

static int load(const struct layers_options *o, struct surroundings *at, struct policy **out,
		struct err *e)
{
	struct heard h = { .len = 0 };
	struct policy *pol = NULL;
	int r = person_read(&at->who, environ, e);

	if (r == 0)
		r = place_find(&at->place, &at->who, o->chdir, environ, e);
	if (r == 0 && !o->no_sandbox)
		r = place_check(&at->place, e);
	if (r == 0)
		r = weir_dirs_find(&at->dirs, &at->who, environ, e);
	if (r == 0)
		r = sources_find(o, at, e);
	if (r == 0)
		r = first_read(o, at, e);
	if (r == 0)
		r = merge(o, at, false, hear, &h, &pol, e);
	if (r < 0)
		return r;
	heard_tell(at, &h, o->quiet ? NULL : tell_person, NULL);
	r = policy_check_grants(pol, path_exists, e);
	if (r < 0)
		policy_free(pol);
	else
		*out = pol;
	return r;
}

int layers_load(const struct layers_options *o, struct policy **out, struct surroundings *at,
		struct err *e)
{
	struct surroundings found = { 0 };
	int r = load(o, &found, out, e);

	if (r < 0)
		surroundings_free(&found);
	else
		*at = found;
	return r;
}

void surroundings_free(struct surroundings *at)
{
	for (size_t i = 0; i < at->nsources; i++) {
		free(at->sources[i].name);
		free(at->sources[i].path);
		free(at->sources[i].text);
		free(at->sources[i].told);
	}
	free(at->sources);
	free(at->locks_told);
	person_free(&at->who);
	place_free(&at->place);
	weir_dirs_free(&at->dirs);
	*at = (struct surroundings){ 0 };
}

/* ---- again ---- */

static bool same_bytes(const struct layers_source *s, const char *text, size_t len)
{
	return s->text && s->len == len && memcmp(s->text, text, len) == 0;
}

/* Is it a layer by itself? Contradictions between layers are the merge's business. */
static int trial(const struct surroundings *at, const struct layers_source *s, const char *text,
		 size_t len, struct err *e)
{
	struct policy *pol = policy_open(at);
	int r = pol ? policy_add_text(pol, (enum policy_layer)s->layer, s->name, text, len, e)
		    : err_set(e, ENOMEM, "policy");

	policy_free(pol);
	return r;
}

/* What is to be said about a source now; empty: nothing is wrong. The text to use is in *@text. */
static void source_state(const struct surroundings *at, struct layers_source *s, int r, char **text,
			 size_t len, const struct err *e, char *say, size_t room)
{
	struct err why = *e;

	*say = '\0';
	if (r == 0 && *text && !same_bytes(s, *text, len))
		r = trial(at, s, *text, len, &why);
	if (r == 0)
		return;
	if (r > 0)
		project_tell(s, r, say, room);
	else if (r == -ENOENT && s->text)
		(void)snprintf(say, room, "'%s' has vanished", s->name);
	else if (r != -ENOENT)
		(void)snprintf(say, room, "%s%s%s", why.what, why.num ? ": " : "",
			       why.num ? strerror(why.num) : "");
	free(*text);
	*text = NULL;
}

static void source_tell(struct layers_source *s, const char *say, bool kept,
			void (*tell)(void *arg, const char *text), void *arg)
{
	char text[4 * PATH_MAX];

	if (*say && (!s->told || !str_eq(s->told, say))) {
		(void)snprintf(text, sizeof(text), "%s%s", say,
			       kept ? "; what it said before stays in force" : "");
		if (tell)
			tell(arg, text);
	}
	free(s->told);
	s->told = *say ? strdup(say) : NULL;
}

static void source_again(const struct surroundings *at, struct layers_source *s,
			 void (*tell)(void *arg, const char *text), void *arg)
{
	char say[3 * PATH_MAX];
	struct err e = { 0 };
	char *text = NULL;
	size_t len = 0;
	int r = source_read(at, s, &text, &len, &e);
	bool drop = r == READ_UNTRUSTED;

	source_state(at, s, r, &text, len, &e, say, sizeof(say));
	if (drop) {
		free(take_ptr(&s->text));
		s->len = 0;
	}
	source_tell(s, say, s->text != NULL, tell, arg);
	if (!text)
		return;
	free(s->text);
	s->text = text;
	s->len = len;
}

int layers_reload(const struct layers_options *o, struct surroundings *at,
		  void (*tell)(void *arg, const char *text), void *arg, struct policy **out,
		  struct err *e)
{
	struct heard h = { .len = 0 };
	int r;

	for (size_t i = 0; i < at->nsources; i++)
		if (!at->sources[i].fixed)
			source_again(at, &at->sources[i], tell, arg);
	r = merge(o, at, true, hear, &h, out, e);
	if (r == 0)
		heard_tell(at, &h, tell, arg);
	return r;
}

char **layers_files(const struct surroundings *at)
{
	size_t room = (at->nsources + 1) * (LAYERS_LINKS_MAX + 1) + 1, n = 0;
	char **files = calloc(room, sizeof(*files));

	if (!files)
		return NULL;
	for (size_t i = 0; i <= at->nsources; i++) {
		char *path = i == at->nsources	    ? layers_trust_store(&at->dirs)
			     : at->sources[i].fixed ? NULL
						    : strdup(at->sources[i].path);

		if (!path)
			continue;
		files[n++] = path;
		if (i == at->nsources || at->sources[i].layer != LAYER_PROJECT)
			n += layers_links(path, files + n, LAYERS_LINKS_MAX);
	}
	return files;
}

void layers_files_free(char **files)
{
	for (size_t i = 0; files && files[i]; i++)
		free(files[i]);
	free(files);
}
