/* SPDX-License-Identifier: ISC */
/* broker/monitor/gates.c - addresses that a worker may connect to unasked, while a verdict names them.
 * Each connect() of a worker that is asked about costs two switches between the processes. What a
 * verdict has fixed is known before: it lies on a page that the worker can read and not write, and its
 * filter lets a connect() with an address there through. The worker is believed nothing here: what the
 * kernel reads is what stands on the page.
 * It could be reading while this process writes. So a gate has one address for good, and only the first
 * byte of its family changes: AF_INET opens it, AF_UNSPEC shuts it. A new one is opened no sooner than
 * NEW_S after its address was written, when no call that began before can still be reading.
 * Bounds: GATES_MAX addresses in the life of a sandbox; any other is asked about as before. */
#include "broker/monitor/gates.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/feature.h"
#include "common/scope.h"

/* Linux 6.3, newer than Debian 12's headers */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

#define NEW_S 1.
#define LOOK_MAX 8 /* places that are looked at for one address */

static_assert(sizeof(struct sockaddr_in) == GATE_BYTES, "a gate holds one");

void gates_init(struct gates *g)
{
	*g = (struct gates){ .fd = -1 };
}

static int file_make(void)
{
	int fd = memfd_create("weir-gates", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	return fd >= 0 ? fd : memfd_create("weir-gates", MFD_CLOEXEC);
}

void gates_make(struct gates *g)
{
	SCOPED_FD int file = feature_off("gates") ? -1 : file_make(), fd = -1;
	char path[32];
	void *at;

	if (file < 0 || ftruncate(file, GATES_BYTES) < 0)
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	at = mmap(NULL, GATES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (at == MAP_FAILED)
		return;
	g->at = at;
	g->fd = take_fd(&fd);
}

void gates_close(struct gates *g)
{
	if (g->at)
		(void)munmap(g->at, GATES_BYTES);
	scope_close(&g->fd);
	gates_init(g);
}

static uint32_t hash(const struct sockaddr_in *sa)
{
	uint32_t v = sa->sin_addr.s_addr ^ (uint32_t)sa->sin_port * 2654435761U;

	v *= 2654435761U;
	return v >> 16;
}

/* The one byte of a gate that changes once it is written. */
static void family_set(struct sockaddr_in *gate, uint8_t family)
{
	static_assert(AF_INET < 256 && AF_UNSPEC == 0, "one byte tells them apart");
	__atomic_store_n((uint8_t *)gate + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__), family,
			 __ATOMIC_SEQ_CST);
}

static bool holds(const struct sockaddr_in *gate, const struct sockaddr_in *want)
{
	return gate->sin_port == want->sin_port && gate->sin_addr.s_addr == want->sin_addr.s_addr;
}

uint16_t gates_open(struct gates *g, const struct addr *a, uint16_t port, double now)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in want;

	if (!g->at || a->family != 4 || port == 0)
		return 0;
	(void)addr_to_sockaddr(a, port, &ss);
	memcpy(&want, &ss, sizeof(want));
	for (uint32_t i = 0, n = hash(&want); i < LOOK_MAX; i++, n++) {
		struct sockaddr_in *gate = &g->at[n % GATES_MAX];

		if (gate->sin_port == 0) {
			gate->sin_addr = want.sin_addr;
			gate->sin_port = want.sin_port;
			g->since[n % GATES_MAX] = now;
			return 0;
		}
		if (!holds(gate, &want))
			continue;
		if (now - g->since[n % GATES_MAX] < NEW_S || g->users[n % GATES_MAX] == UINT16_MAX)
			return 0;
		if (g->users[n % GATES_MAX]++ == 0)
			family_set(gate, AF_INET);
		return (uint16_t)(n % GATES_MAX + 1);
	}
	return 0;
}

bool gates_is(const struct gates *g, uint16_t gate, const struct addr *a)
{
	return a->family == 4 &&
	       memcmp(&g->at[gate - 1].sin_addr, a->b, sizeof(struct in_addr)) == 0;
}

void gates_shut(struct gates *g, uint16_t *gate)
{
	const uint16_t n = *gate;

	*gate = 0;
	if (n == 0)
		return;
	assert(g->at && n <= GATES_MAX && g->users[n - 1] > 0);
	if (--g->users[n - 1] == 0)
		family_set(&g->at[n - 1], AF_UNSPEC);
}
