/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_audit.c - the reader of the audit log: a file of anybody's bytes
 * Input: the file. Every byte is read once and in order, what is taken without a tree is what a tree says,
 * what is shown of a line is fit for a terminal, and judging the chain ends. */
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker/cli/audit_log.h"
#include "broker/cli/audit_scan.h"
#include "broker/cli/audit_show.h"
#include "broker/cli/audit_verify.h"
#include "common/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void shown(const struct audit_reader *r, struct audit_summary *sum)
{
	const struct audit_wanted w = { .since = "2026", .host = ".example", .sandbox = "0" };
	struct audit_members m = { 0 }, seen = { 0 };
	json_t *o = audit_line_parse(r->line, r->len);
	bool is_taken = audit_scan(r->line, r->len, &seen);
	char row[AUDIT_ROW_MAX];

	if (is_taken && !o)
		abort();
	if (!o)
		return;
	audit_members_of(o, &m);
	if (is_taken && audit_is_wanted(&w, &m) != audit_is_wanted(&w, &seen))
		abort();
	(void)audit_is_wanted(&w, &m);
	audit_summary_add(sum, o);
	for (const char *c = audit_row(o, 0, row); *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			abort();
	if (strlen(audit_row(o, 40, row)) > 40)
		abort();
	json_decref(o);
}

static int file_of(const uint8_t *data, size_t size)
{
	int fd = memfd_create("log", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	return fd;
}

static void quiet(void)
{
	static bool done;

	if (!done && !freopen("/dev/null", "we", stdout))
		abort();
	done = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct audit_reader r;
	struct audit_summary *sum = audit_summary_new();
	struct audit_logs l = { .n = 1 };
	struct err e = { 0 };
	off_t at = 0;

	quiet();
	l.log[0] = (struct audit_log){ .name = strdup("log"),
				       .fd = file_of(data, size),
				       .size = (off_t)size };
	audit_reader_init(&r, l.log[0].fd, 0, (off_t)size);
	while (audit_reader_next(&r, true) > 0) {
		if (r.at != at || r.at + (off_t)r.len > (off_t)size)
			abort();
		at += (off_t)r.len;
		if (at < (off_t)size && data[at] == '\n')
			at++;
		shown(&r, sum);
	}
	if (at != (off_t)size)
		abort();
	(void)audit_verify(&l, NULL, &e);
	audit_logs_close(&l);
	audit_summary_free(sum);
	return 0;
}
