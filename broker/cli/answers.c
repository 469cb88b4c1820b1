/* SPDX-License-Identifier: ISC */
/* broker/cli/answers.c - keep what a person said as a line of a policy file.
 * Runs in the monitor, locked by then, with a target that was parsed and nothing else that the
 * sandbox chose; the command's words are the user's own and stand in a comment, escaped. The files
 * are those that the layers were read from, judged again by the same rules. */
#include "broker/cli/answers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "broker/cli/edit_file.h"
#include "broker/cli/layers.h"
#include "broker/monitor/monitor.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "policy/target.h"

#define COMMAND_MAX 80 /* bytes of the command in a comment */

void answers_init(struct answers *a, const struct surroundings *at, char *const *argv)
{
	*a = (struct answers){ .at = at, .argv = argv, .lock = -1 };
	for (size_t i = 0; i < at->nsources; i++) {
		const struct layers_source *s = &at->sources[i];

		if (s->layer == LAYER_USER)
			a->user = s->path;
		if (s->layer == LAYER_ANSWERS)
			a->project = s->path;
	}
}

void answers_open(struct answers *a)
{
	SCOPED_FREE char *path = NULL;

	if (a->lock >= 0)
		return;
	if (asprintf(&path, "%s/policy.lock", a->at->dirs.state) < 0) {
		path = NULL;
		(void)err_set(&a->why, ENOMEM, "keep an answer");
		return;
	}
	a->lock = edit_lock_open(path, &a->why);
	if (a->lock < 0)
		a->lock = -1;
}

void answers_close(struct answers *a)
{
	scope_close(&a->lock);
	a->lock = -1;
}

static void words_of(const struct run_answer *r, char out[POLICY_WORDS_TEXT_MAX])
{
	bool six = r->target->is_addr && r->target->addr.family == 6;

	(void)snprintf(out, POLICY_WORDS_TEXT_MAX, "%s%s%s:%u%s%s", six ? "[" : "", r->target->host,
		       six ? "]" : "", r->target->port,
		       r->is_private && !r->deny && !r->target->is_addr ? " private" : "",
		       r->no_sni && !r->deny ? " no-sni" : "");
}

/* "2026-11-29T22:10Z for: pip install numpy" */
static void comment_of(const struct answers *a, char *out, size_t room)
{
	time_t now = time(NULL);
	size_t n, from;
	struct tm tm;

	n = gmtime_r(&now, &tm) ? strftime(out, room, "%Y-%m-%dT%H:%MZ for:", &tm) : 0;
	out[n] = '\0';
	from = n;
	for (char *const *w = a->argv; w && *w && n - from < COMMAND_MAX; w++) {
		int got = snprintf(out + n, room - n, " %.*s", COMMAND_MAX, *w);

		if (got < 0 || (size_t)got >= room - n)
			break;
		n += (size_t)got;
	}
	if (n - from > COMMAND_MAX)
		out[from + COMMAND_MAX] = '\0';
}

/* edit_file_fn */
static int change(void *arg, const char *text, size_t len, char **out, size_t *out_len,
		  struct err *e)
{
	return policy_edit_text(arg, text, len, out, out_len, e);
}

int answers_keep(struct answers *a, const struct run_answer *r, struct err *e)
{
	char words[POLICY_WORDS_TEXT_MAX], comment[2 * COMMAND_MAX + 64];
	const char *path = r->project ? a->project : a->user;
	struct policy_edit how = { .verb = r->deny ? EDIT_DENY : EDIT_ALLOW,
				   .words = words,
				   .comment = comment,
				   .file = path };
	int got;

	if (!path)
		return err_set(e, 0, "this sandbox reads no file that the answer could be kept in");
	if (a->lock < 0) {
		*e = a->why;
		return err_in(e, "keep an answer");
	}
	words_of(r, words);
	comment_of(a, comment, sizeof(comment));
	got = edit_file_by(path, a->at->who.uid, a->lock, ANSWERS_LOCK_MS, change, &how, e);
	return got < 0 ? got : 0;
}
