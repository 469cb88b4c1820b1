/* SPDX-License-Identifier: ISC */
/* broker/cli/test_promise.h - the probes of weir test, for test_inside.c and the files that hold them */
#ifndef WEIR_BROKER_CLI_TEST_PROMISE_H
#define WEIR_BROKER_CLI_TEST_PROMISE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/cli/test_sockets.h"
#include "common/err.h"

#define PROMISE_DETAIL_MAX 200

/** struct inside - what the host's side made to be attacked, and what a probe saw */
struct inside {
	uint16_t port;		    /* of the origin on the host's loopback */
	const char *dir, *abstract; /* the bench's directory */
	const char *user_home;	    /* of who runs weir test; $HOME is the bench's */
	bool granted;		    /* ~/.cargo is a read grant */
	struct socket_bases bases;  /* of the sockets */
	char detail[PROMISE_DETAIL_MAX];
};

/** promise_bad() - the promise does not hold: say how. Return: -1 */
int promise_bad(struct inside *in, const char *fmt, ...) PRINTF(2, 3);

/* Each returns 0 when the promise holds, else -1 with @in->detail. */

/* test_net.c: what can be reached */
int promise_allowed(struct inside *in);
int promise_tunnel(struct inside *in);
int promise_denied(struct inside *in);
int promise_private(struct inside *in); /* loopback, LAN and metadata through the proxy */
int promise_no_proxy(struct inside *in);
int promise_direct(struct inside *in);
int promise_dns(struct inside *in);
int promise_loopback(struct inside *in);
int promise_lan(struct inside *in);
int promise_metadata(struct inside *in);
int promise_unix(struct inside *in);
int promise_unix_later(struct inside *in); /* first has the host make them */
int promise_unix_moved(struct inside *in);
int promise_unix_project(struct inside *in);
int promise_abstract(struct inside *in);
int promise_host_network(struct inside *in); /* in network allow it is there */

/* test_route.c: the transparent route */
int promise_route_names(struct inside *in);
int promise_route_range(struct inside *in);
int promise_route_datagrams(struct inside *in);
int promise_route_rules(struct inside *in);

/* test_box.c: files, processes, rights */
int promise_project(struct inside *in);
int promise_write_outside(struct inside *in);
int promise_hooks(struct inside *in);
int promise_credentials(struct inside *in);
int promise_environ(struct inside *in);
int promise_descriptors(struct inside *in);
int promise_privileges(struct inside *in);
int promise_terminal(struct inside *in);
int promise_processes(struct inside *in);
int promise_pid1(struct inside *in);
int promise_sys(struct inside *in);

/* test_kernel.c: doors of the kernel */
int promise_vsock(struct inside *in);
int promise_raw(struct inside *in);
int promise_families(struct inside *in);
int promise_namespace(struct inside *in);
int promise_mount(struct inside *in);
int promise_machinery(struct inside *in);
int promise_set_id(struct inside *in);
int promise_tiocsti(struct inside *in);

#endif
