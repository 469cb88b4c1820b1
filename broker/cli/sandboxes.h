/* SPDX-License-Identifier: ISC */
/* broker/cli/sandboxes.h - the user's running sandboxes, found by their runtime entries */
#ifndef WEIR_BROKER_CLI_SANDBOXES_H
#define WEIR_BROKER_CLI_SANDBOXES_H

#include <jansson.h>
#include <sys/types.h>

#define SANDBOXES_MAX 1024	/* entries looked at */
#define SANDBOX_REPLY_MAX 65536 /* bytes of one answer */
#define SANDBOX_WAIT_MS 2000	/* for one answer */

/**
 * sandboxes_each() - ask every running sandbox of this user who it is
 * An entry that nobody listens on is removed: its monitor was killed.
 * @runtime: the directory of the entries; it and they must be @uid's own
 * @verb: "info" or another verb of the control socket without arguments
 * @fn: gets the entry's name and the answer, which it borrows
 *
 * Return: how many answered */
unsigned sandboxes_each(const char *runtime, uid_t uid, const char *verb,
			void (*fn)(void *arg, const char *id, const json_t *answer), void *arg);
/** sandbox_ask() - one of them. Return: its answer, for json_decref(), or NULL */
json_t *sandbox_ask(const char *runtime, uid_t uid, const char *id, const char *verb);

#endif
