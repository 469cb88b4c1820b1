/* SPDX-License-Identifier: ISC */
/* broker/monitor/questions.h - a person decides: questions that are open, and what was answered for
 * this sandbox (SPEC section 8) */
#ifndef WEIR_BROKER_MONITOR_QUESTIONS_H
#define WEIR_BROKER_MONITOR_QUESTIONS_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "policy/target.h"
#include "who.h"

struct conn;
struct err;
struct monitor;
struct policy_rule;

#define QUESTIONS_MAX 32	/* open at once; one more is refused as unanswered */
#define QUESTIONS_KEPT_MAX 1024 /* hosts and ports allowed for this sandbox */
#define QUESTION_LINGER_S 30.0	/* a question outlives its last client by so long */
#define QUESTION_RULE_MAX 300
#define QUESTION_WHO_MAX 60

enum answer {
	ANSWER_NONE, /* not answered yet */
	ANSWER_ONCE,
	ANSWER_SANDBOX, /* as long as this sandbox runs */
	ANSWER_PROJECT, /* kept for the project */
	ANSWER_ALWAYS,	/* kept in the user's policy file */
	ANSWER_DENY,	/* once */
	ANSWER_DENY_ALWAYS,
	ANSWER_UNANSWERED, /* nobody's answer: no time is left, or nobody could be asked */
	ANSWER_COUNT
};

/** struct question - about one host and port, for every connection to it
 *   OPEN --last client leaves--> LINGERING --client comes--> OPEN
 *   OPEN --answer--> over;  LINGERING --once, deny--> HELD for who comes back --client comes--> over
 *   OPEN, LINGERING, HELD --no time left--> over */
struct question {
	TAILQ_ENTRY(question) link;
	struct monitor *m;
	uint64_t id; /* 1-, never used again */
	struct target target;
	bool is_private, no_sni;      /* words of the ask rule: a kept line has them too */
	char rule[QUESTION_RULE_MAX]; /* "FILE:LINE: ask *:443", escaped */
	struct who who;		      /* the first that asked, as far as it is known */
	bool is_skipped;	      /* the person at the terminal wants to answer elsewhere */
	TAILQ_HEAD(, conn) waiting;
	size_t nwaiting;
	enum answer held;   /* ANSWER_ONCE or ANSWER_DENY: for who comes back */
	double asked, ends; /* loop time of the first client, and when it ends unanswered */
	ev_timer end;
};

/** struct questions - what is open, and what was allowed for this sandbox */
struct questions {
	TAILQ_HEAD(question_list, question) all; /* oldest first */
	size_t n, nkept;
	uint64_t last; /* id given out last */
	uint64_t asked, answered;
	struct kept {
		char host[HOST_MAX + 1];
		uint16_t port;
	} * kept;
};

void questions_init(struct questions *q);
/** questions_close() - no question is open any more: those who wait for one are forgotten, not
 * answered. For the end of the run */
void questions_close(struct monitor *m);
void questions_free(struct questions *q);

/** answer_word() - "once", "sandbox", …, "unanswered"; NULL for ANSWER_NONE */
const char *answer_word(enum answer a);
/** answer_find() - what a person may say, by its name. Return: ANSWER_NONE for anything else */
enum answer answer_find(const char *name);
bool answer_allows(enum answer a);
/** answer_is_kept() - does it go into a file? */
bool answer_is_kept(enum answer a);

/** questions_known() - what was said for this sandbox about @t, or ANSWER_NONE */
enum answer questions_known(const struct monitor *m, const struct target *t);
/**
 * question_join() - @c waits for an answer about @t
 * Joins the question that is open about it, or opens one. @c must not wait for another.
 * @rule: the ask rule, for people. @is_private, @no_sni: the words it has
 *
 * Return: ANSWER_NONE: it waits, and verdict_resume() is called for it by and by; else the answer,
 *	   which nobody waits for */
enum answer question_join(struct monitor *m, struct conn *c, const struct target *t,
			  const struct policy_rule *rule, bool is_private, bool no_sni);
/** question_who() - "pip, pid 12", escaped, at most QUESTION_WHO_MAX bytes; empty where it is not known.
 * Return: @buf */
const char *question_who(const struct question *q, char buf[QUESTION_WHO_MAX + 1]);
/** question_leave() - @c waits no longer, if it did; the question lingers without clients */
void question_leave(struct monitor *m, struct conn *c);
/** question_find() - an open one, or NULL */
struct question *question_find(const struct monitor *m, uint64_t id);
/**
 * question_answer() - a person has answered
 * Whoever waits gets its verdict before this returns. An answer that is to be kept and cannot be
 * leaves the question open.
 * @by: "terminal" or "control", for the audit
 *
 * Return: 0; 1 when the line that was kept does not count here, with @e saying why; -errno with @e */
int question_answer(struct monitor *m, uint64_t id, enum answer a, const char *by, struct err *e);
/** questions_again() - the policy has changed: who waits about what it decides by now is resumed.
 * Return: 0, or -EBADMSG when the worker is lost */
int questions_again(struct monitor *m);
/** question_left_s() - seconds until it ends unanswered */
double question_left_s(const struct question *q);

#endif
