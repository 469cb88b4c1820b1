/* SPDX-License-Identifier: ISC */
/* broker/cli/trust.h - which project policies the user has accepted, by their content */
#ifndef WEIR_BROKER_CLI_TRUST_H
#define WEIR_BROKER_CLI_TRUST_H

#include <stddef.h>
#include <sys/types.h>

struct err;

#define TRUST_HASH_LEN 64  /* hex of 32 bytes of BLAKE2b, as b2sum -l 256 prints them */
#define PROJECT_KEY_LEN 16 /* hex; SPEC section 11 */

/** trust_hash() - of a policy file's bytes */
void trust_hash(const char *text, size_t len, char hex[TRUST_HASH_LEN + 1]);
/** project_key() - what names a project's own files: hex of the BLAKE2b of its canonical path */
void project_key(const char *project, char key[PROJECT_KEY_LEN + 1]);

/**
 * trust_find() - what of @project was accepted
 * @store: path of the trust file: lines "HASH PATH"
 * Return: 1 with @hex filled in, 0 when nothing was, or -errno with @e */
int trust_find(const char *store, uid_t uid, const char *project, char hex[TRUST_HASH_LEN + 1],
	       struct err *e);
/**
 * trust_change() - the store's text with @project accepted as @hex, or no more when @hex is NULL
 * Every other line stays as it is.
 * @out: for free()
 * Return: 1 when it differs from @text, 0 when it is the same, -ENOMEM */
int trust_change(const char *text, size_t len, const char *project, const char *hex, char **out,
		 size_t *out_len);

#endif
