/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_msg.c - every message reader. What a reader accepts must survive being written
 * and read again unchanged: then no two spellings of one message exist. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define TRY(name)                                                                                  \
	static void try_##name(struct msg_rd r, const struct msg_head *h, const uint8_t *data,     \
			       size_t len)                                                         \
	{                                                                                          \
		static struct msg_##name m;                                                        \
		static struct msg_wr w;                                                            \
                                                                                                   \
		memset(&m, 0xa5, sizeof(m));                                                       \
		if (msg_get_##name(&r, &m) < 0)                                                    \
			return;                                                                    \
		wr_open(&w, (enum msg_type)h->type, h->conn);                                      \
		msg_put_##name(&w, &m);                                                            \
		if (w.bad || w.len != len ||                                                       \
		    memcmp(w.buf + sizeof(*h), data + sizeof(*h), len - sizeof(*h)) != 0)          \
			abort();                                                                   \
	}
TRY(ask)
TRY(reject)
TRY(candidates)
TRY(dialed)
TRY(done)
TRY(stats)
TRY(name)
TRY(named)
TRY(route)
TRY(config)
TRY(verdict)
TRY(dial)
TRY(entry)
TRY(started)
TRY(ended)
TRY(listeners)
TRY(spawned)
TRY(execfail)
TRY(exited)
TRY(signal)
TRY(stopped)
TRY(trees)
TRY(resume)

/* Each reader sees each body: one that trusts the type of the head would show here. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct msg_head h;
	struct msg_rd r;

	if (msg_open(&h, &r, data, len) < 0)
		return 0;
	try_ask(r, &h, data, len);
	try_reject(r, &h, data, len);
	try_candidates(r, &h, data, len);
	try_dialed(r, &h, data, len);
	try_done(r, &h, data, len);
	try_stats(r, &h, data, len);
	try_name(r, &h, data, len);
	try_named(r, &h, data, len);
	try_route(r, &h, data, len);
	try_config(r, &h, data, len);
	try_verdict(r, &h, data, len);
	try_dial(r, &h, data, len);
	try_entry(r, &h, data, len);
	try_started(r, &h, data, len);
	try_ended(r, &h, data, len);
	try_listeners(r, &h, data, len);
	try_spawned(r, &h, data, len);
	try_execfail(r, &h, data, len);
	try_exited(r, &h, data, len);
	try_signal(r, &h, data, len);
	try_stopped(r, &h, data, len);
	try_trees(r, &h, data, len);
	try_resume(r, &h, data, len);
	return 0;
}
