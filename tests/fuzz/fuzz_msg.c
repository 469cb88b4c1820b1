/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_msg.c - every message reader. What a reader accepts must survive being written
 * and read again unchanged: then no two spellings of one message exist. A seed is called after the type
 * that its reader must accept. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg.h"
#include "common/scope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
const char *fuzz_seed(const char *name, const uint8_t *data, size_t len);

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

#define SEED(name)                                                                                 \
	static bool seed_##name(struct msg_rd r)                                                   \
	{                                                                                          \
		static struct msg_##name m;                                                        \
                                                                                                   \
		return msg_get_##name(&r, &m) == 0;                                                \
	}
#define READERS(X)                                                                                 \
	X(ask)                                                                                     \
	X(reject)                                                                                  \
	X(candidates)                                                                              \
	X(dialed)                                                                                  \
	X(done)                                                                                    \
	X(stats)                                                                                   \
	X(name)                                                                                    \
	X(named)                                                                                   \
	X(route)                                                                                   \
	X(config)                                                                                  \
	X(verdict)                                                                                 \
	X(dial)                                                                                    \
	X(entry)                                                                                   \
	X(start)                                                                                   \
	X(started)                                                                                 \
	X(ended)                                                                                   \
	X(listeners)                                                                               \
	X(listen)                                                                                  \
	X(forward)                                                                                 \
	X(half)                                                                                    \
	X(spawned)                                                                                 \
	X(execfail)                                                                                \
	X(exited)                                                                                  \
	X(signal)                                                                                  \
	X(stopped)                                                                                 \
	X(trees)                                                                                   \
	X(resume)
READERS(TRY)
READERS(SEED)

const char *fuzz_seed(const char *name, const uint8_t *data, size_t len)
{
#define ENTRY(name) { #name, seed_##name },
	static const struct {
		const char *name;
		bool (*reads)(struct msg_rd r);
	} readers[] = { READERS(ENTRY){ "cgroup", seed_entry } };
	struct msg_head h;
	struct msg_rd r;

	if (msg_open(&h, &r, data, len) < 0)
		return "its head is refused";
	for (size_t i = 0; i < ARRAY_LEN(readers); i++) {
		if (str_eq(readers[i].name, name))
			return readers[i].reads(r) ? NULL : "its body is refused";
	}
	return rd_end(&r) < 0 ? "there is no reader of that name" : NULL;
}

/* Each reader sees each body: one that trusts the type of the head would show here. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct msg_head h;
	struct msg_rd r;

	if (msg_open(&h, &r, data, len) < 0)
		return 0;
#define TRIED(name) try_##name(r, &h, data, len);
	READERS(TRIED)
	return 0;
}
