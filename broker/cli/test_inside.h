/* SPDX-License-Identifier: ISC */
/* broker/cli/test_inside.h - the probes of weir test that run inside a sandbox */
#ifndef WEIR_BROKER_CLI_TEST_INSIDE_H
#define WEIR_BROKER_CLI_TEST_INSIDE_H

#include <stdint.h>

#define TEST_INSIDE "--inside"	       /* first word of the hidden form of weir test */
#define TEST_SECRET "weir-test-secret" /* value of a variable that must not come along */
#define TEST_NAME                                                                                  \
	"weir-test.invalid" /* what the policy of route transparent allows: resolves nowhere */
#define TEST_BODY_BYTES (2u * 1024 * 1024)

/** test_pattern() - byte @i of the body that the test's origin serves */
static inline uint8_t test_pattern(uint32_t i)
{
	return (uint8_t)(i ^ (i >> 8) ^ (i >> 16));
}

/**
 * test_inside() - run the probes for one network state, a line each on stdout:
 * "ok NAME" or "fail NAME: DETAIL"
 * argv: STATE PORT BENCH-DIRECTORY ABSTRACT-NAME RUNTIME-DIRECTORY HOME GRANTED, or "wait"; the
 * directory and the last may be empty.
 * For TEST_SOCKETS_WAIT a byte is read from stdin
 * Return: 0 when every line could be written */
int test_inside(int argc, char **argv);

#endif
