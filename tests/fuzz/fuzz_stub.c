/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_stub.c - what a program inside sends to the DNS stub of the transparent route.
 * Input: one DNS message. What must hold: whatever is answered is itself a message of one question that
 * the stub would read again, with the same name and type, and it fits. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/worker/stub_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void again(const struct stub_query *q, uint8_t *out, size_t n)
{
	struct stub_query r;
	int rcode;

	/* an answer made a question again: without QR, RA and rcode, and without what it answers */
	out[2] &= 0x01;
	out[3] &= 0x10;
	out[7] = 0;
	out[11] = 0;
	(void)n;
	rcode = stub_parse(&r, out, 12u + q->nquestion);
	assert(rcode == STUB_NOERROR || rcode == STUB_REFUSED);
	assert(r.id == q->id && r.type == q->type && r.nquestion == q->nquestion);
	assert(memcmp(r.question, q->question, q->nquestion) == 0);
	if (rcode == STUB_NOERROR && q->name[0])
		assert(r.nname == q->nname && r.is_bad == q->is_bad && r.kind == q->kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1), out[STUB_ANSWER_MAX];
	struct stub_query q;
	size_t n;
	int rcode;

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	memset(&q, 0x55, sizeof(q));
	rcode = stub_parse(&q, copy, size);
	free(copy);
	if (rcode < 0)
		return 0;
	assert(rcode != STUB_NOERROR || (q.nname <= HOST_MAX && q.name[q.nname] == '\0'));
	assert(rcode != STUB_NOERROR || q.is_bad || strlen(q.name) == q.nname);
	n = stub_answer(out, &q, (enum stub_rcode)rcode, 0xc6120002, "allowed.example.org");
	assert(n >= 12 && n <= 512);
	if (rcode == STUB_NOERROR)
		again(&q, out, n);
	return 0;
}
