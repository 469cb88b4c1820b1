/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit_chain.h - the links of the audit log: each record names the one before by
 * its hash. The bytes that are hashed are those of the line, as they stand in the file, before
 * ,"hash":" - "prev" is among them. weir-audit(5) says the same for other readers. */
#ifndef WEIR_BROKER_MONITOR_AUDIT_CHAIN_H
#define WEIR_BROKER_MONITOR_AUDIT_CHAIN_H

#include <stdbool.h>
#include <stddef.h>

#define CHAIN_HEX 64	/* BLAKE2b of 32 bytes, lower-case hex */
#define CHAIN_BYTES 149 /* ,"prev":"HEX","hash":"HEX"} - without LF */
#define CHAIN_START "0000000000000000000000000000000000000000000000000000000000000000"

/**
 * chain_close() - end the JSON object at @line with "prev", "hash" and its brace
 * @len:  bytes of it so far: an object with members, its last brace not written
 * @link: CHAIN_HEX digits and a NUL: in, the hash of the record before; out, of this one
 * Room for CHAIN_BYTES more must be there. Return: bytes of the line, without LF */
size_t chain_close(char *line, size_t len, char link[CHAIN_HEX + 1]);
/** chain_find() - where "prev" and "hash" of a line are; @len is without LF.
 * Return: false when it does not end like a record; the outputs are then untouched */
bool chain_find(const char *line, size_t len, const char **prev, const char **hash);
/** chain_holds() - is the hash of a line that chain_find() takes the hash of its bytes? */
bool chain_holds(const char *line, size_t len);

#endif
