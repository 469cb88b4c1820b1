/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_dns.c - what a name server sends, and what a client of weir proxy sends as its
 * credentials.
 * Input: a DNS message for dns_question(), dns_stream_feed() and a real channel, where it gets the query's id
 * and comes before an honest NXDOMAIN; and a request head for auth_ok().
 * What must hold: what is no answer counts as none; the query ends. */
#include <ares.h>
#include <arpa/inet.h>
#include <assert.h>
#include <ev.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "broker/worker/auth.h"
#include "broker/worker/dns.h"
#include "broker/worker/dns_channel.h"
#include "broker/worker/head_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TURNS_MAX 256

static struct dns_channel ch;
static int server = -1;

static void nothing(struct dns_channel *c)
{
	dns_channel_wait(c);
}

static void rcode(struct dns_channel *c, const char *name, unsigned code)
{
	(void)c;
	assert(strlen(name) <= HOST_MAX && code > 0 && code < 16);
}

static void channel_make(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sa);
	char csv[64];

	server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ch.on_processed = nothing;
	ch.on_rcode = rcode;
	if (server < 0 || bind(server, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    getsockname(server, (struct sockaddr *)&sa, &len) < 0 ||
	    dns_channel_init(&ch, ev_default_loop(0)) < 0)
		abort();
	(void)snprintf(csv, sizeof(csv), "127.0.0.1:%u", ntohs(sa.sin_port));
	if (ares_set_servers_ports_csv(ch.ares, csv) != ARES_SUCCESS)
		abort();
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *res)
{
	(void)timeouts;
	*(int *)arg = status;
	if (res)
		ares_freeaddrinfo(res);
}

static void through_channel(const uint8_t *data, size_t size)
{
	static const struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT,
							  .ai_family = AF_INET,
							  .ai_socktype = SOCK_STREAM };
	uint8_t query[512], lie[4096];
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int status = -1;
	ssize_t n;

	if (server < 0)
		channel_make();
	ares_getaddrinfo(ch.ares, "allowed.example.org", NULL, &hints, on_answer, &status);
	n = recvfrom(server, query, sizeof(query), 0, (struct sockaddr *)&from, &len);
	if (n < 12)
		abort();
	size = size < sizeof(lie) ? size : sizeof(lie);
	memcpy(lie, data, size);
	memcpy(lie, query, size < 2 ? size : 2);
	(void)sendto(server, lie, size, 0, (struct sockaddr *)&from, len);
	query[2] |= 0x80;
	query[3] = 0x80 | 3;
	(void)sendto(server, query, (size_t)n, 0, (struct sockaddr *)&from, len);
	for (int i = 0; i < TURNS_MAX && status < 0; i++)
		ev_run(ch.loop, EVRUN_NOWAIT);
	assert(dns_is_answer(data, size) || status == ARES_ENOTFOUND);
	ares_cancel(ch.ares);
	while (recv(server, query, sizeof(query), 0) >= 0)
		; /* another try of a query that a lie made it ask anew */
	assert(status >= 0);
}

static void through_stream(const uint8_t *data, size_t size)
{
	struct dns_stream whole = { 0 }, bytes = { 0 };
	bool is_ok = dns_stream_feed(&whole, data, size), is_on = true;

	for (size_t i = 0; i < size && is_on; i++)
		is_on = dns_stream_feed(&bytes, data + i, 1);
	assert(is_on == is_ok &&
	       (!is_ok || (whole.at == bytes.at && whole.length == bytes.length)));
	assert(!is_ok || size < 2 || whole.at < 2u + whole.length || whole.at < 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char secret[] = "no-input-can-hold-this-by-chance";
	char name[HOST_MAX + 1];
	uint8_t *copy = calloc(1, size + 1);
	struct head h;

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	memset(name, 0x55, sizeof(name));
	if (dns_question(copy, size, name) && (!memchr(name, 0, sizeof(name)) || size < 14))
		abort();
	if (size <= HEAD_MAX && head_scan_request((const char *)copy, size, &h) == HEAD_OK &&
	    auth_ok(&h, secret))
		abort();
	through_stream(copy, size);
	through_channel(copy, size);
	free(copy);
	return 0;
}
