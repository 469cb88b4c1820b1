/* SPDX-License-Identifier: ISC */
/* broker/cli/trust_cmd.c - weir trust, untrust: accept a project's .weir/policy as it is now.
 * The bytes that are shown are the bytes that are hashed; a stranger wrote them, so they are escaped
 * on their way to the terminal, and the answer is read from the terminal alone. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "broker/cli/edit_file.h"
#include "broker/cli/layers.h"
#include "broker/cli/layers_file.h"
#include "broker/cli/trust.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "policy/policy.h"

extern char **environ;

static const char usage[] =
	"usage: weir trust [--yes] [DIR]\n"
	"       weir untrust [DIR]\n"
	"\n"
	"trust    show the policy of the project DIR is in (.weir/policy) and accept it as it is now;\n"
	"         when it changes it is not read until it is trusted again\n"
	"untrust  do not read it any more\n"
	"\n"
	"  --yes  do not ask\n";

struct project {
	struct person who;
	struct place place;
	struct weir_dirs dirs;
	char *store, *lock;
};

static void project_free(struct project *p)
{
	person_free(&p->who);
	place_free(&p->place);
	weir_dirs_free(&p->dirs);
	free(p->store);
	free(p->lock);
}

/* @gone: an untrusted directory may be there no more; its name does then, as it was typed */
static int project_find(struct project *p, const char *dir, bool gone, struct err *e)
{
	int r = person_read(&p->who, environ, e);

	if (r == 0)
		r = weir_dirs_find(&p->dirs, &p->who, environ, e);
	if (r == 0)
		r = place_find(&p->place, &p->who, dir, environ, e);
	if (r == 0)
		r = place_check(&p->place, e);
	if (r < 0 && gone && dir && dir[0] == '/' && access(dir, F_OK) < 0) {
		p->place.project = strdup(dir);
		r = p->place.project ? 0 : err_set(e, ENOMEM, "%s", dir);
	}
	if (r < 0)
		return r;
	p->store = layers_trust_store(&p->dirs);
	if (!p->store || asprintf(&p->lock, "%s/trust.lock", p->dirs.state) < 0) {
		p->lock = NULL;
		return err_set(e, ENOMEM, "trust");
	}
	if (strchr(p->place.project, '\n'))
		return err_set(e, 0, "a directory with a line end in its name cannot be trusted");
	return 0;
}

struct wanted {
	const char *project, *hash; /* hash NULL: no more */
};

static int change(void *arg, const char *text, size_t len, char **out, size_t *out_len,
		  struct err *e)
{
	const struct wanted *w = arg;
	int r = trust_change(text, len, w->project, w->hash, out, out_len);

	if (r < 0)
		return err_set(e, -r, "trust");
	if (r == 0)
		free(take_ptr(out));
	return r;
}

/* ---- what is accepted ---- */

static void show(const char *path, const char *text, size_t len)
{
	char line[8192];
	unsigned n = 0;

	(void)escape_line(line, sizeof(line), path, strlen(path));
	(void)printf("%s:\n", line);
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t k = end ? (size_t)(end - text) : len;

		(void)escape_line(line, sizeof(line), text, k);
		(void)printf("%5u  %s\n", ++n, line);
		text += k + (end != NULL);
		len -= k + (end != NULL);
	}
}

/* Only what would be read may be accepted. */
static int parses(const struct project *p, const char *path, const char *text, size_t len,
		  struct err *e)
{
	const struct policy_context ctx = { .home = p->who.home,
					    .cwd = p->place.real,
					    .project = p->place.project,
					    .environ = environ };
	struct policy *pol = policy_new(&ctx);
	int r = pol ? policy_add_text(pol, LAYER_PROJECT, path, text, len, e)
		    : err_set(e, ENOMEM, "trust");

	policy_free(pol);
	return r;
}

/* Return: 1 yes, 0 no, or -errno */
static int ask_person(struct err *e)
{
	SCOPED_FD int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	static const char question[] = "trust these lines? type yes: ";
	char answer[16];
	ssize_t n;

	if (tty < 0) {
		(void)err_set(e, 0, "there is no terminal to ask on");
		return err_fix(e, "weir trust --yes accepts it without a question");
	}
	(void)fflush(stdout);
	(void)tcflush(tty, TCIFLUSH); /* what was typed before the question is no answer to it */
	if (write(tty, question, sizeof(question) - 1) < 0)
		return err_set(e, errno, "write to the terminal");
	do
		n = read(tty, answer, sizeof(answer) - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(e, errno, "read from the terminal");
	answer[n] = '\0';
	return str_eq(answer, "yes\n");
}

static int no_policy(const char *path, struct err *e)
{
	(void)err_set(e, 0, "there is no '%s' to trust", path);
	return err_fix(e, "nothing needs trust; for yourself: weir allow HOST, for a project: "
			  "write that file");
}

static int trust(struct project *p, bool yes, struct err *e)
{
	SCOPED_FREE char *text = NULL;
	char path[PATH_MAX], hash[TRUST_HASH_LEN + 1];
	struct wanted w = { .project = p->place.project, .hash = hash };
	size_t len = 0;
	int r;

	(void)snprintf(path, sizeof(path), "%s/.weir/policy",
		       str_eq(p->place.project, "/") ? "" : p->place.project);
	r = layers_read_project(p->place.project, p->who.uid, &text, &len, e);
	if (r == -ENOENT)
		return no_policy(path, e);
	if (r < 0)
		return r;
	r = parses(p, path, text, len, e);
	if (r < 0)
		return r;
	show(path, text, len);
	if (!yes) {
		r = ask_person(e);
		if (r == 0)
			return err_set(e, 0, "'%s' is not trusted: the answer was not 'yes'", path);
		if (r < 0)
			return r;
	}
	trust_hash(text, len, hash);
	r = edit_file(p->store, p->who.uid, p->lock, change, &w, e);
	if (r >= 0)
		(void)printf("trusted as it is now (BLAKE2b %.16s…)\n", hash);
	return r;
}

static int untrust(struct project *p, struct err *e)
{
	struct wanted w = { .project = p->place.project };
	int r = edit_file(p->store, p->who.uid, p->lock, change, &w, e);

	if (r == 0)
		(void)printf("'%s' was not trusted\n", p->place.project);
	else if (r == 1)
		(void)printf("'%s' is not trusted any more\n", p->place.project);
	return r;
}

/* ---- the commands ---- */

static int run(int argc, char **argv, bool trusting)
{
	struct project p = { .store = NULL };
	const char *dir = NULL;
	bool yes = false;
	struct err e = { 0 };
	int r = 0;

	for (int i = 1; i < argc && r == 0; i++) {
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")) {
			(void)fputs(usage, stdout);
			return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
		}
		if (trusting && str_eq(argv[i], "--yes"))
			yes = true;
		else if (argv[i][0] == '-' || dir)
			r = err_set(&e, 0, "%s: '%s': expected one directory", argv[0], argv[i]);
		else
			dir = argv[i];
	}
	if (r == 0)
		r = project_find(&p, dir, !trusting, &e);
	if (r == 0)
		r = trusting ? trust(&p, yes, &e) : untrust(&p, &e);
	project_free(&p);
	if (r >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		r = err_set(&e, errno, "write to standard output");
	return r < 0 ? cli_fail(&e) : 0;
}

int cmd_trust(int argc, char **argv)
{
	return run(argc, argv, true);
}

int cmd_untrust(int argc, char **argv)
{
	return run(argc, argv, false);
}
