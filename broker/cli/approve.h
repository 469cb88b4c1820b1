/* SPDX-License-Identifier: ISC */
/* broker/cli/approve.h - the questions of running sandboxes, for a person */
#ifndef WEIR_BROKER_CLI_APPROVE_H
#define WEIR_BROKER_CLI_APPROVE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

#define APPROVE_ID_MAX 16

/** struct approve - where the sandboxes are, and what the command line said */
struct approve {
	const char *runtime;
	uid_t uid;
	bool json, notify;
	bool is_person; /* there is a terminal to ask on */
};

/** struct asked_item - one open question of one sandbox */
struct asked_item {
	char sandbox[APPROVE_ID_MAX];
	json_int_t id;
	json_t *question; /* owned */
	char *command;	  /* owned; what the sandbox runs, escaped */
};
void asked_item_free(struct asked_item *i);

/** approve_print() - one question, for a person: three lines and the choice. Takes what was typed
 * before off the terminal: only what is typed now can answer */
void approve_print(const struct asked_item *i);
/** approve_row() - one question as a line of the list */
void approve_row(const struct asked_item *i);
/** approve_word() - what was typed (a letter or a word, with its LF) as an answer. Return: its name, ""
 * for none (nothing was typed), NULL for nonsense */
const char *approve_word(const char *line);
/** approve_send() - give @answer. Return: 0, or -errno with @e */
int approve_send(const struct approve *a, const char *sandbox, json_int_t id, const char *answer,
		 struct err *e);
/** approve_watch() - ask or print as questions come, until the terminal is closed or a signal ends it.
 * Return: 0, or -errno with @e */
int approve_watch(const struct approve *a, struct err *e);

#endif
