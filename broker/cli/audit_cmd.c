/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_cmd.c - weir audit: read the log, follow it, check its chain.
 * The log is a file of the user's: broken and foreign lines are counted, never trusted. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit_log.h"
#include "audit_scan.h"
#include "audit_show.h"
#include "audit_verify.h"
#include "broker/cli/layers.h"
#include "broker/cli/options.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"

extern char **environ;

static const char usage[] =
	"usage: weir audit [--follow] [--since T] [--until T] [--denied] [--host PATTERN]\n"
	"                  [--sandbox ID] [--json | --summary] [--file FILE]\n"
	"       weir audit verify [--head HASH] [FILE …]\n"
	"       weir audit head [--file FILE]\n"
	"\n"
	"Read the audit log; check that its chain holds; print what must be kept elsewhere to see that\n"
	"its end was cut off.\n"
	"\n"
	"  -f, --follow           go on as records are written; without --since only new ones\n"
	"      --since T          90s, 15m, 1h, 2d, 1w ago, or 2026-01-31[THH:MM[:SS]][Z]\n"
	"      --until T          records before that\n"
	"      --denied           denied ones only\n"
	"      --host PATTERN     NAME, .NAME (and below), *.NAME (only below)\n"
	"      --sandbox ID       an id, the beginning of one, or a --name\n"
	"      --json             the records as they are, a line each\n"
	"      --summary          by host: how often, bytes, first and last, the rule\n"
	"      --file FILE        another log than the policy's, with its rotated files\n"
	"      --head HASH        verify: what weir audit head printed must be in the log\n"
	"  -h, --help             this text\n"
	"\n"
	"verify exits with 1 when something is wrong and says what.\n";

enum verb { VERB_READ, VERB_VERIFY, VERB_HEAD };

/** struct job - one call; @columns: of the terminal, 0 where stdout is none */
struct job {
	enum verb verb;
	struct audit_wanted wanted;
	bool follow, json, summary, help;
	char *file, *head, *own;
	size_t columns;
	struct audit_summary *sum;
	uint64_t foreign;
	struct audit_reader reader;
	bool unwritten; /* what goes wrong is standard output */
};

/* ---- where ---- */

/* The policy names the file; one that cannot be read must not hide the log. */
static int policy_file(struct job *j, const struct weir_dirs *dirs, struct err *e)
{
	const struct layers_options o = { .quiet = true };
	struct surroundings around = { 0 };
	struct policy *p = NULL;
	struct err why = { 0 };
	int r = layers_load(&o, &p, &around, &why);
	const char *path = NULL;

	if (r < 0)
		note("the policy cannot be read (%s): this is the log of the default place",
		     why.what);
	if (r == 0 && policy_audit_sink(p) == AUDIT_OFF)
		note("the policy says 'audit off': nothing is written to this log");
	path = r == 0 ? policy_audit_file(p) : NULL;
	j->own = path ? strdup(path) : option_audit_default(dirs);
	policy_free(p);
	surroundings_free(&around);
	return !j->own ? err_set(e, ENOMEM, "name the audit log") : 0;
}

static int file_find(struct job *j, struct err *e)
{
	struct person who = { 0 };
	struct weir_dirs dirs = { 0 };
	int r = person_read(&who, environ, e);

	if (r == 0)
		r = weir_dirs_find(&dirs, &who, environ, e);
	if (r == 0)
		r = policy_file(j, &dirs, e);
	person_free(&who);
	weir_dirs_free(&dirs);
	j->file = j->own;
	return r;
}

static int logs_find(struct job *j, char **files, struct audit_logs *l, struct err *e)
{
	int r = 0;

	if (*files) {
		for (; r == 0 && *files; files++)
			r = audit_logs_add(l, *files, e);
		return r;
	}
	if (!j->file)
		r = file_find(j, e);
	if (r == 0)
		r = audit_logs_open(l, j->file, e);
	if (r == 0 && l->n == 0 && !j->follow) {
		(void)err_set(e, ENOENT, "open '%s'", j->file);
		return err_fix(e, "weir run writes it; --file names another one");
	}
	return r;
}

/* ---- reading ---- */

/* What the file holds goes out as it is: every byte of it has been looked at. */
static int say(const struct job *j, const struct audit_reader *r, const json_t *o)
{
	char row[AUDIT_ROW_MAX];

	if (j->json)
		return fwrite_unlocked(r->line, 1, r->len + 1, stdout) == r->len + 1 ? 0 : -EIO;
	return puts(audit_row(o, j->columns, row)) < 0 ? -EIO : 0;
}

static bool is_plain(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (s[i] < ' ' || s[i] > '~')
			return false;
	}
	return true;
}

/* @o stays NULL where the line says enough without it. */
static bool is_record(const struct audit_reader *r, struct audit_members *m, json_t **o)
{
	if (!r->whole)
		return false;
	if (audit_scan(r->line, r->len, m))
		return true;
	*o = is_plain(r->line, r->len) ? audit_line_parse(r->line, r->len) : NULL;
	if (*o)
		audit_members_of(*o, m);
	return *o != NULL;
}

static int line_take(struct job *j, const struct audit_reader *r)
{
	struct audit_members m = { 0 };
	json_t *o = NULL;
	int n = 0;

	if (!is_record(r, &m, &o)) {
		j->foreign += !r->is_rest;
		return 0;
	}
	if (audit_is_wanted(&j->wanted, &m)) {
		if (!o && (j->sum || !j->json))
			o = audit_line_parse(r->line, r->len);
		if (j->sum)
			audit_summary_add(j->sum, o);
		else
			n = say(j, r, o);
	}
	json_decref(o);
	return n;
}

static int lines_read(struct job *j, bool partial)
{
	int r;

	while ((r = audit_reader_next(&j->reader, partial)) > 0) {
		errno = 0;
		if (line_take(j, &j->reader) < 0) {
			j->unwritten = true;
			return errno ? -errno : -EIO;
		}
	}
	return r;
}

static int logs_read(struct job *j, const struct audit_logs *l, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		int r;

		audit_reader_init(&j->reader, l->log[i].fd, 0, l->log[i].size);
		r = lines_read(j, !j->follow);
		if (r < 0)
			return err_set(e, -r, j->unwritten ? "write the records" : "read '%s'",
				       l->log[i].name);
	}
	return 0;
}

/* ---- following ---- */

static int dir_watch(const char *file)
{
	const char *slash = strrchr(file, '/');
	char dir[PATH_MAX] = ".";
	SCOPED_FD int fd = inotify_init1(IN_CLOEXEC);

	if (slash && (size_t)(slash - file) + 2 > sizeof(dir))
		return -ENAMETOOLONG;
	if (slash)
		(void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - file) + 1, file);
	if (fd < 0 || inotify_add_watch(fd, dir, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
		return -errno;
	return take_fd(&fd);
}

/* The files that follow the one with @ino, oldest first; all of them when it is gone. */
static int later_read(struct job *j, ino_t ino, off_t from, struct audit_logs *now, struct err *e)
{
	const bool is_inside = j->reader.is_inside;
	size_t at = now->n;
	int r = 0;

	for (size_t i = 0; i < now->n; i++)
		at = now->log[i].ino == ino ? i : at;
	for (size_t i = at == now->n ? 0 : at; r == 0 && i < now->n; i++) {
		bool is_last = i + 1 == now->n;
		bool is_known = i == at && from <= now->log[i].size; /* else it was shortened */

		audit_reader_init(&j->reader, now->log[i].fd, is_known ? from : 0, -1);
		j->reader.is_inside = is_known && is_inside;
		r = lines_read(j, !is_last);
	}
	return r < 0 ? err_set(e, -r, j->unwritten ? "write the records" : "follow '%s'", j->file)
		     : 0;
}

static off_t reader_at(const struct audit_reader *r)
{
	return r->from - (off_t)(r->have - r->used);
}

/* Return: 1, 0 when whoever reads stdout is gone, -errno */
static int wait_change(int watch)
{
	struct pollfd p[] = { { .fd = watch, .events = POLLIN }, { .fd = STDOUT_FILENO } };
	char events[4096];

	while (poll(p, ARRAY_LEN(p), -1) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	if (p[1].revents & (POLLERR | POLLHUP | POLLNVAL))
		return 0;
	return read(watch, events, sizeof(events)) < 0 ? -errno : 1;
}

static int follow(struct job *j, struct audit_logs *l, struct err *e)
{
	SCOPED_FD int watch = dir_watch(j->file);
	ino_t ino = l->n ? l->log[l->n - 1].ino : 0;
	off_t from = l->n ? l->log[l->n - 1].size : 0;
	int r;

	if (watch < 0)
		return err_set(e, -watch, "watch the directory of '%s'", j->file);
	if (l->n && j->wanted.since[0])
		from = reader_at(&j->reader); /* a line may have been half written */
	for (;;) {
		audit_logs_close(l);
		r = audit_logs_open(l, j->file, e);
		if (r == 0 && l->n > 0)
			r = later_read(j, ino, from, l, e);
		if (r == 0 && l->n > 0) {
			ino = l->log[l->n - 1].ino;
			from = reader_at(&j->reader);
		}
		if (r == 0 && fflush(stdout) != 0)
			r = err_set(e, errno, "write the records");
		if (r < 0)
			return r;
		r = wait_change(watch);
		if (r <= 0)
			return r < 0 ? err_set(e, -r, "watch '%s'", j->file) : 0;
	}
}

/* ---- options ---- */

static size_t columns(void)
{
	struct winsize w;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20
		       ? w.ws_col
		       : 0;
}

enum {
	OPT_SINCE = 256,
	OPT_UNTIL,
	OPT_DENIED,
	OPT_HOST,
	OPT_SANDBOX,
	OPT_JSON,
	OPT_SUMMARY,
	OPT_FILE,
	OPT_HEAD
};

static const struct option longs[] = {
	{ "follow", no_argument, NULL, 'f' },
	{ "since", required_argument, NULL, OPT_SINCE },
	{ "until", required_argument, NULL, OPT_UNTIL },
	{ "denied", no_argument, NULL, OPT_DENIED },
	{ "host", required_argument, NULL, OPT_HOST },
	{ "sandbox", required_argument, NULL, OPT_SANDBOX },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "summary", no_argument, NULL, OPT_SUMMARY },
	{ "file", required_argument, NULL, OPT_FILE },
	{ "head", required_argument, NULL, OPT_HEAD },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static int head_check(const char *hash, struct err *e)
{
	if (strlen(hash) == CHAIN_HEX && strspn(hash, "0123456789abcdef") == CHAIN_HEX)
		return 0;
	(void)err_set(e, 0, "'%s' is no head", hash);
	return err_fix(e, "the first word that weir audit head prints: 64 digits of 0-9a-f");
}

static int option(struct job *j, int c, struct err *e)
{
	switch (c) {
	case 'f':
		j->follow = true;
		return 0;
	case OPT_SINCE:
		return audit_when(optarg, j->wanted.since, e);
	case OPT_UNTIL:
		return audit_when(optarg, j->wanted.until, e);
	case OPT_DENIED:
		j->wanted.denied = true;
		return 0;
	case OPT_HOST:
		j->wanted.host = optarg;
		return 0;
	case OPT_SANDBOX:
		j->wanted.sandbox = optarg;
		return 0;
	case OPT_JSON:
		j->json = true;
		return 0;
	case OPT_SUMMARY:
		j->summary = true;
		return 0;
	case OPT_FILE:
		j->file = optarg;
		return 0;
	case OPT_HEAD:
		j->head = optarg;
		return head_check(optarg, e);
	case 'h':
		j->help = true;
		return 0;
	default:
		return -EINVAL;
	}
}

static bool has_filter(const struct job *j)
{
	const struct audit_wanted *w = &j->wanted;

	return j->follow || j->json || j->summary || w->denied || w->since[0] || w->until[0] ||
	       w->host || w->sandbox;
}

static int check(const struct job *j, char **files, struct err *e)
{
	const char *what = NULL;

	if (j->verb == VERB_READ && *files)
		what = "a word that is neither verify nor head";
	else if (j->verb == VERB_HEAD && *files)
		what = "an argument of head: it takes --file";
	else if (j->verb != VERB_READ && has_filter(j))
		what = "an option that verify and head do not have";
	else if (j->verb != VERB_VERIFY && j->head)
		what = "--head without verify";
	else if (j->summary && j->follow)
		what = "--summary with --follow";
	else if (j->file && *files)
		what = "--file and FILE";
	if (!what)
		return 0;
	(void)err_set(e, 0, "weir audit: %s", what);
	return err_fix(e, "weir audit --help");
}

static int words_read(struct job *j, int argc, char **argv, struct err *e)
{
	int c, r = 0;

	opterr = 0;
	optind = 0;
	while (r == 0 && (c = getopt_long(argc, argv, "+fh", longs, NULL)) != -1) {
		if (c == '?') {
			(void)err_set(e, 0, "weir audit: '%s' is not understood", argv[optind - 1]);
			return err_fix(e, "weir audit --help");
		}
		r = option(j, c, e);
	}
	return r;
}

/* ---- the command ---- */

static int read_job(struct job *j, struct audit_logs *l, struct err *e)
{
	static char out[1 << 17]; /* as long as stdout */
	int r = 0;

	j->columns = columns();
	if (!isatty(STDOUT_FILENO))
		(void)setvbuf(stdout, out, _IOFBF, sizeof(out));
	if (j->summary && !(j->sum = audit_summary_new()))
		return err_set(e, ENOMEM, "count");
	if (!j->follow || j->wanted.since[0])
		r = logs_read(j, l, e);
	if (r == 0 && j->sum && audit_summary_print(j->sum, j->json) < 0)
		r = err_set(e, errno, "write the summary");
	audit_summary_free(j->sum);
	if (r == 0 && j->follow)
		r = follow(j, l, e);
	if (r == 0 && j->foreign > 0)
		note("%llu line%s no record", (unsigned long long)j->foreign,
		     j->foreign == 1 ? " is" : "s are");
	return r;
}

static int job_run(struct job *j, char **files, struct err *e)
{
	struct audit_logs l = { .n = 0 };
	int r = logs_find(j, files, &l, e);

	if (r == 0 && j->verb == VERB_VERIFY)
		r = audit_verify(&l, j->head, e);
	else if (r == 0 && j->verb == VERB_HEAD)
		r = audit_head(&l, e);
	else if (r == 0)
		r = read_job(j, &l, e);
	audit_logs_close(&l);
	if (r >= 0 && fflush(stdout) != 0)
		r = err_set(e, errno, "write the records");
	return r;
}

int cmd_audit(int argc, char **argv)
{
	struct job *j = calloc(1, sizeof(*j));
	struct err e = { 0 };
	int r;

	if (!j) {
		(void)err_set(&e, ENOMEM, "read the audit log");
		return cli_fail(&e);
	}
	if (argc > 1 && (str_eq(argv[1], "verify") || str_eq(argv[1], "head"))) {
		j->verb = str_eq(argv[1], "head") ? VERB_HEAD : VERB_VERIFY;
		argc--;
		argv++;
	}
	r = words_read(j, argc, argv, &e);
	if (r == 0 && j->help)
		r = fputs(usage, stdout) < 0 || fflush(stdout) != 0
			    ? err_set(&e, errno, "print the help")
			    : 0;
	else if (r == 0 && (r = check(j, argv + optind, &e)) == 0)
		r = job_run(j, argv + optind, &e);
	free(j->own);
	free(j);
	return r < 0 ? cli_fail(&e) : r;
}
