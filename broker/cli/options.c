/* SPDX-License-Identifier: ISC */
/* broker/cli/options.c - what the command line said.
 * One table: a row is an option of every command that takes it, with its help and what it does. An
 * option that is a line of the policy is its row and nothing else. */
#include "broker/cli/options.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "broker/cli/cli.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/num.h"
#include "common/scope.h"
#include "common/words.h"
#include "policy/policy.h"

#define NAME_MAX_BYTES 64
#define ROWS_MAX 64
#define HELP_COLUMN 29 /* where the text of --help begins */

struct row {
	const char *name; /* with its dashes */
	char letter;	  /* or 0 */
	enum group { LISTEN, POLICY, FILES, ENVIRONMENT, OTHER, GROUP_COUNT } group;
	unsigned of;	   /* enum option_of bits */
	const char *value; /* what it takes, as --help calls it; NULL: nothing */
	int (*take)(const struct row *row, struct options *o, const char *value, struct err *e);
	const char *keyword, *front; /* take_line: the policy's keyword, what precedes the value */
	size_t at;		     /* take_flag, take_text: offset in struct options */
	const char *help;	     /* lines, each but the last with its LF; NULL: not listed */
};

static const char *const titles[GROUP_COUNT] = {
	[LISTEN] = "",
	[POLICY] = "Policy, on top of the policy files (each takes the words of a policy line):\n",
	[FILES] = "Files:\n",
	[ENVIRONMENT] = "Environment and descriptors:\n",
	[OTHER] = "",
};

/* ---- what an option does ---- */

static int take_line(const struct row *row, struct options *o, const char *value, struct err *e)
{
	return layers_line(&o->layers, row->name, row->keyword, row->front, value, e);
}

static int take_file(const struct row *row, struct options *o, const char *value, struct err *e)
{
	(void)row;
	return layers_file(&o->layers, value, e);
}

static int take_flag(const struct row *row, struct options *o, const char *value, struct err *e)
{
	(void)value;
	(void)e;
	*(bool *)(void *)((char *)o + row->at) = true;
	return 0;
}

static int take_text(const struct row *row, struct options *o, const char *value, struct err *e)
{
	(void)e;
	*(const char **)(void *)((char *)o + row->at) = value;
	return 0;
}

static int option_fd(const char *option, const char *value, int least, int *out, struct err *e)
{
	uint64_t n;

	if (num_u64(value, (uint64_t)least, 1 << 20, &n) < 0) {
		err_set(e, 0, "%s '%s' is not a descriptor number", option, value);
		return err_fix(e, "a decimal number from %d", least);
	}
	if (fcntl((int)n, F_GETFD) < 0) {
		err_set(e, errno, "%s %s", option, value);
		return err_fix(e, "have it open when weir starts, in a shell by %s>FILE", value);
	}
	*out = (int)n;
	return 0;
}

static int take_keep_fd(const struct row *row, struct options *o, const char *value, struct err *e)
{
	int fd = -1, r = option_fd(row->name, value, 3, &fd, e);

	if (r < 0)
		return r;
	if (isatty(fd)) {
		err_set(e, 0, "--keep-fd %s is a terminal", value);
		return err_why(e, "no descriptor of a terminal may enter the sandbox");
	}
	for (size_t i = 0; i < o->nkeep; i++)
		if (o->keep_fds[i] == fd)
			return 0;
	if (o->nkeep == ARRAY_LEN(o->keep_fds))
		return err_set(e, 0, "more than %zu --keep-fd", ARRAY_LEN(o->keep_fds));
	o->keep_fds[o->nkeep++] = fd;
	return 0;
}

static int take_status_fd(const struct row *row, struct options *o, const char *value,
			  struct err *e)
{
	int r = option_fd(row->name, value, 1, &o->status_fd, e);

	if (r == 0 && (fcntl(o->status_fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		return err_set(e, 0, "--status-fd %s is open for reading only", value);
	return r;
}

static int take_url_fd(const struct row *row, struct options *o, const char *value, struct err *e)
{
	return option_fd(row->name, value, 1, &o->url_fd, e);
}

static int take_tty(const struct row *row, struct options *o, const char *value, struct err *e)
{
	static const char *const words[] = {
		[TTY_AUTO] = "auto", [TTY_ALWAYS] = "always", [TTY_NEVER] = "never"
	};

	(void)row;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (str_eq(value, words[i])) {
			o->tty = (enum tty_mode)i;
			return 0;
		}
	}
	err_set(e, 0, "--tty '%s' is not auto, always or never", value);
	return err_fix(e, "--tty auto, which is what happens without the option");
}

static int take_name(const struct row *row, struct options *o, const char *value, struct err *e)
{
	static const char ok[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t n = strlen(value);

	if (n == 0 || n > NAME_MAX_BYTES || strspn(value, ok) != n) {
		err_set(e, 0, "%s '%s' is not a name", row->name, value);
		return err_fix(e, "1 to %d letters, digits, '.', '_' or '-'", NAME_MAX_BYTES);
	}
	o->name = value;
	return 0;
}

static int take_connection(const struct row *row, struct options *o, const char *value,
			   struct err *e)
{
	(void)row;
	return connection_file_take(&o->connection, &o->layers, value, e);
}

/* ---- the table ---- */

#define ALL (OF_RUN | OF_PROXY | OF_SHOW)
#define POLICY_LINE(key, words) .take = take_line, .keyword = (key), .front = (words)
#define FLAG(member) .take = take_flag, .at = offsetof(struct options, member)
#define TEXT(member) .take = take_text, .at = offsetof(struct options, member)
#define CALL(function) .take = (function)
#define HELP(text) .help = (text)
/* clang-format off */
static const struct row rows[] = {
	{ "--listen", 0, LISTEN, OF_PROXY, "unix:PATH", TEXT(listen),
	  HELP("a socket for this user alone, in a directory of mode 0700; or\n"
	       "[ADDR:]PORT for TCP, by default on 127.0.0.1; port 0: any;\n"
	       "clients need the secret") },
	{ "--expose", 0, LISTEN, OF_PROXY, NULL, FLAG(expose), HELP("ADDR may be other than loopback") },
	{ "--url-fd", 0, LISTEN, OF_PROXY, "N", CALL(take_url_fd),
	  HELP("write the URL, a line, to descriptor N (default: 1)") },

	{ "--allow", 'a', POLICY, ALL, "TARGET", POLICY_LINE("allow", ""),
	  HELP("allow a host: NAME, .SUFFIX, *.SUFFIX, ADDRESS/PREFIX [:PORTS]\n"
	       "['private': it may resolve to a private address]") },
	{ "--deny", 'd', POLICY, ALL, "TARGET", POLICY_LINE("deny", ""),
	  HELP("deny a host; beats every allow") },
	{ "--ask", 0, POLICY, ALL, "TARGET", POLICY_LINE("ask", ""),
	  HELP("ask a person before a host is reached; allow and deny beat it") },
	{ "--network", 'n', POLICY, ALL, "WORD", POLICY_LINE("network", ""),
	  HELP("deny, allowlist (default) or allow") },
	{ "--route", 0, POLICY, OF_RUN | OF_SHOW, "WORD", POLICY_LINE("route", ""),
	  HELP("both (default), proxy or transparent: how allowed hosts are reached") },
	{ "--policy", 'p', POLICY, ALL, "FILE", CALL(take_file), HELP("one more policy file") },
	{ "--preset", 0, POLICY, ALL, "NAME", POLICY_LINE("include", ""),
	  HELP("weir policy presets lists them") },
	{ "--no-user-policy", 0, POLICY, ALL, NULL, FLAG(layers.no_user_policy),
	  HELP("leave out the user's own policy file") },
	{ "--audit", 0, POLICY, ALL, "WORD", POLICY_LINE("audit", ""),
	  HELP("FILE, syslog, journal or off; required or optional; client or\n"
	       "noclient") },
	{ "--on-unavailable", 0, POLICY, OF_RUN | OF_SHOW, "WORD", POLICY_LINE("on-unavailable", ""),
	  HELP("error (default), warn or allow: run unsandboxed if this machine\n"
	       "cannot make a sandbox") },
	{ "--publish", 0, POLICY, OF_RUN | OF_SHOW, "[ADDR:]PORT[:INNER]", POLICY_LINE("publish", ""),
	  HELP("a port of the sandbox on this machine; loopback unless ADDR\n"
	       "says otherwise; PORT 0: any, told by --status-fd") },
	{ "--reach", 0, POLICY, OF_RUN | OF_SHOW, "PORT[:HOSTPORT]", POLICY_LINE("reach", ""),
	  HELP("a port of this machine's loopback on the sandbox's own") },
	{ "--connection-file", 0, POLICY, OF_RUN, "FILE", CALL(take_connection),
	  HELP("a Jupyter kernel's: its ports are published, it is there inside") },
	{ "--view", 0, POLICY, OF_RUN | OF_SHOW, "WORD", POLICY_LINE("view", ""),
	  HELP("project (default) or host: the whole tree, read-only") },
	{ "--home", 0, POLICY, OF_RUN | OF_SHOW, "WORD", POLICY_LINE("home", ""),
	  HELP("private (default) or keep: for the project") },

	{ "--read", 'r', FILES, OF_RUN | OF_SHOW, "PATH", POLICY_LINE("read", ""),
	  HELP("make a file or directory readable") },
	{ "--write", 'w', FILES, OF_RUN | OF_SHOW, "PATH", POLICY_LINE("write", ""),
	  HELP("make it writable") },
	{ "--hide", 0, FILES, OF_RUN | OF_SHOW, "PATH", POLICY_LINE("hide", ""),
	  HELP("do not show it, whatever else shows what it lies in") },
	{ "--socket", 0, FILES, OF_RUN | OF_SHOW, "PATH", POLICY_LINE("socket", ""),
	  HELP("one unix socket of the host; a variable that names it is kept") },
	{ "--device", 0, FILES, OF_RUN | OF_SHOW, "PATH", POLICY_LINE("device", ""),
	  HELP("one node of a device, or gpu: every GPU's") },
	{ "--chdir", 'C', FILES, ALL, "DIR", TEXT(layers.chdir), HELP("start in DIR") },

	{ "--env", 0, ENVIRONMENT, OF_RUN | OF_SHOW, "K=V", POLICY_LINE("env", "set "),
	  HELP("set a variable") },
	{ "--keep-env", 0, ENVIRONMENT, OF_RUN | OF_SHOW, "K", POLICY_LINE("env", "keep "),
	  HELP("keep one of weir's own") },
	{ "--keep-fd", 0, ENVIRONMENT, OF_RUN, "N", CALL(take_keep_fd), HELP("leave descriptor N open") },
	{ "--status-fd", 0, ENVIRONMENT, OF_RUN, "N", CALL(take_status_fd),
	  HELP("write JSON lines about the run to descriptor N") },
	{ "--tty", 0, ENVIRONMENT, OF_RUN, "WORD", CALL(take_tty),
	  HELP("auto (default): what is a terminal is one inside too; always; never: pipes") },

	{ "--name", 0, OTHER, OF_RUN | OF_PROXY, "NAME", CALL(take_name),
	  HELP("a name for the audit log") },
	{ "--json", 0, OTHER, OF_SHOW | OF_DOCTOR, NULL, FLAG(json), HELP("as JSON") },
	{ "--resolve", 0, OTHER, OF_WHY, NULL, FLAG(resolve),
	  HELP("ask for the addresses of a denied name too") },
	{ "--verbose", 'v', OTHER, ALL, NULL, FLAG(verbose), HELP("say more") },
	{ "--quiet", 'q', OTHER, ALL, NULL, FLAG(layers.quiet),
	  HELP("no notices; errors and warnings stay") },
	{ "--help", 'h', OTHER, ALL | OF_DOCTOR, NULL, FLAG(help), HELP("this text") },
};
/* clang-format on */
static_assert(ARRAY_LEN(rows) < ROWS_MAX, "the tables of getopt_long() have room");

/* ---- reading ---- */

static int say_unknown(unsigned of, const char *command, const char *word, struct err *e)
{
	const char *near, *names[ROWS_MAX];
	char bare[64];
	size_t n = 0;

	if (strncmp(word, "--", 2) != 0) {
		err_set(e, 0, "option '-%c' is unknown or lacks its value", optopt);
		return err_fix(e, "weir %s --help", command);
	}
	(void)snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(word, "="), word);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!(rows[i].of & of))
			continue;
		names[n++] = rows[i].name + 2;
		if (str_eq(bare, rows[i].name)) {
			err_set(e, 0, "option '%s' %s", bare,
				rows[i].value ? "needs a value" : "takes no value");
			return err_fix(e, "weir %s --help", command);
		}
	}
	names[n] = NULL;
	near = nearest_word(bare + 2, names);
	err_set(e, 0, "option '%s' is unknown%s%s%s", bare, near ? "; did you mean '--" : "",
		near ? near : "", near ? "'?" : "");
	return err_fix(e, "weir %s --help%s", command,
		       of & OF_RUN ? "; options of CMD itself go behind --" : "");
}

/* The table as getopt_long() wants it: an option's value is its row. */
static void for_getopt(unsigned of, struct option longs[ROWS_MAX], char shorts[2 * ROWS_MAX])
{
	size_t n = 0;
	char *s = shorts;

	*s++ = '+';
	*s++ = ':';
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *r = &rows[i];

		if (!(r->of & of))
			continue;
		longs[n++] = (struct option){ .name = r->name + 2,
					      .has_arg = r->value ? required_argument : no_argument,
					      .val = ROWS_MAX * 4 + (int)i };
		if (!r->letter)
			continue;
		*s++ = r->letter;
		if (r->value)
			*s++ = ':';
	}
	longs[n] = (struct option){ 0 };
	*s = '\0';
}

static const struct row *row_of(int c, unsigned of)
{
	if (c >= ROWS_MAX * 4)
		return &rows[c - ROWS_MAX * 4];
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].letter && rows[i].letter == c && (rows[i].of & of))
			return &rows[i];
	return NULL;
}

int options_read(struct options *o, unsigned of, const char *command, int argc, char **argv,
		 int from, struct err *e)
{
	struct option longs[ROWS_MAX];
	char shorts[2 * ROWS_MAX];
	int back = from - 1;

	for_getopt(of, longs, shorts);
	optind = 0; /* from the start, with nothing remembered */
	opterr = 0;
	while (!o->help) {
		int at = optind ? optind : 1;
		int c = getopt_long(argc - back, argv + back, shorts, longs, NULL);
		const struct row *row = c == '?' || c == ':' ? NULL : row_of(c, of);
		int r;

		if (c == -1)
			break;
		r = row ? row->take(row, o, optarg, e)
			: say_unknown(of, command, argv[back + at], e);
		if (r < 0)
			return r;
	}
	return optind + back;
}

void options_init(struct options *o)
{
	*o = (struct options){ .status_fd = -1, .url_fd = STDOUT_FILENO };
}

void options_free(struct options *o)
{
	layers_options_free(&o->layers);
	connection_file_free(&o->connection);
}

/* ---- help ---- */

static void help_row(const struct row *r, FILE *out)
{
	int n = r->letter ? fprintf(out, "  -%c, ", r->letter) : fprintf(out, "      ");
	const char *s = r->help;

	n += fprintf(out, "%s%s%s", r->name, r->value ? " " : "", r->value ? r->value : "");
	if (n >= HELP_COLUMN)
		n = fprintf(out, "\n") - 1;
	for (;;) {
		int len = (int)strcspn(s, "\n");

		(void)fprintf(out, "%*s%.*s\n", HELP_COLUMN - n, "", len, s);
		n = 0;
		s += len;
		if (!*s++)
			return;
	}
}

void options_help(unsigned of, FILE *out)
{
	for (unsigned g = 0; g < GROUP_COUNT; g++) {
		bool titled = false;

		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			if (rows[i].group != g || !(rows[i].of & of) || !rows[i].help)
				continue;
			if (!titled)
				(void)fprintf(out, "\n%s", titles[g]);
			titled = true;
			help_row(&rows[i], out);
		}
	}
}

/* ---- what run and proxy make the same way ---- */

int option_id(char id[RUN_ID_LEN + 1], struct err *e)
{
	static const char hex[] = "0123456789abcdef";
	unsigned char raw[RUN_ID_LEN];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_set(e, errno, "draw a sandbox id");
	for (size_t i = 0; i < RUN_ID_LEN; i++)
		id[i] = hex[raw[i] & 15];
	id[RUN_ID_LEN] = '\0';
	return 0;
}

char *option_audit_default(const struct weir_dirs *dirs)
{
	char *path;

	return asprintf(&path, "%s/audit.jsonl", dirs->state) < 0 ? NULL : path;
}

int option_audit(const struct policy *policy, const struct weir_dirs *dirs, char **owned,
		 const char **path, struct err *e)
{
	if (policy_audit_sink(policy) != AUDIT_FILE)
		return 0;
	*path = policy_audit_file(policy);
	if (*path)
		return 0;
	*owned = option_audit_default(dirs);
	if (!*owned)
		return err_set(e, ENOMEM, "name the audit log");
	*path = *owned;
	return 0;
}
