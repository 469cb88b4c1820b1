/* SPDX-License-Identifier: ISC */
/* broker/worker/misbehave.h - test builds alone: a worker that breaks the protocol on request.
 * WEIR_TEST_MISBEHAVE=NAME in build/test/weir; a host name with "misbehave" in it sets it off. */
#ifndef WEIR_BROKER_WORKER_MISBEHAVE_H
#define WEIR_BROKER_WORKER_MISBEHAVE_H

#include <stdbool.h>

struct conn;
struct msg_ask;

#ifdef WEIR_TEST
/** clock_read() - set clock_scale from WEIR_TEST_CLOCK, per cent */
void clock_read(void);
/** misbehave_ask() - instead of this ASK something else is sent. Return: false: behave */
bool misbehave_ask(struct conn *c, const struct msg_ask *m);
/** misbehave_dialed() / misbehave_done() - the same for DIALED and DONE of that connection */
bool misbehave_dialed(struct conn *c);
bool misbehave_done(struct conn *c);
/** misbehave_outside() - a published connection is dialled with a socket of the host's network */
bool misbehave_outside(void);
#else
#define clock_read() ((void)0)
static inline bool misbehave_ask(struct conn *c, const struct msg_ask *m)
{
	(void)c;
	(void)m;
	return false;
}
static inline bool misbehave_dialed(struct conn *c)
{
	(void)c;
	return false;
}
static inline bool misbehave_done(struct conn *c)
{
	(void)c;
	return false;
}
static inline bool misbehave_outside(void)
{
	return false;
}
#endif

#endif
