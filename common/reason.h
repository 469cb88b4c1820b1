/* SPDX-License-Identifier: ISC */
/* common/reason.h - why a connection was allowed, refused or ended: one enum for the wire, the
 * Proxy-Status header, the audit log and the manual page. */
#ifndef WEIR_COMMON_REASON_H
#define WEIR_COMMON_REASON_H

#include <stdint.h>

enum reason {
	REASON_NONE,
	/* a verdict */
	REASON_RULE,		/* an allow rule matched */
	REASON_NO_RULE,		/* nothing matched */
	REASON_DENIED,		/* a deny rule matched */
	REASON_PORT,		/* the name has a rule, but not for this port */
	REASON_PRIVATE_ADDRESS, /* only addresses that the rule does not admit */
	REASON_BAD_NAME,	/* the target is not a host name or address */
	REASON_BAD_REQUEST,	/* malformed head */
	REASON_ORIGIN_FORM,	/* a request to the proxy itself */
	REASON_HEAD_TIMEOUT,
	REASON_HEAD_TOO_LARGE,
	REASON_AUDIT_UNAVAILABLE,
	REASON_CONNECTION_LIMIT,
	REASON_PROXY_AUTH, /* the secret of `weir proxy` is missing or wrong */
	/* the network */
	REASON_DNS_ERROR,
	REASON_DNS_TIMEOUT,
	REASON_CONNECT_REFUSED,
	REASON_CONNECT_UNREACHABLE,
	REASON_CONNECT_TIMEOUT,
	REASON_CONNECT_FAILED, /* any other errno */
	REASON_BAD_RESPONSE,   /* the origin's head or framing is not HTTP */
	REASON_UPSTREAM,       /* the upstream proxy refused or failed */
	REASON_NOT_TLS,
	REASON_SNI_MISMATCH,
	/* an end */
	REASON_CLOSED, /* both sides finished */
	REASON_CLIENT_GONE,
	REASON_CLIENT_RESET,
	REASON_ORIGIN_RESET,
	REASON_IDLE,
	REASON_CUT,	 /* the policy changed */
	REASON_SHUTDOWN, /* the sandbox ended */
	REASON_WORKER_DIED,
	REASON_INTERNAL,
	/* a person */
	REASON_ASK,	   /* an ask rule matched: a person is asked */
	REASON_APPROVED,   /* and allowed it */
	REASON_DECLINED,   /* and did not */
	REASON_UNANSWERED, /* nobody was there, or nobody answered in time */
	REASON_COUNT
};

/** reason_name() - weir's word, as in the audit log: "no_rule" */
const char *reason_name(enum reason r);
/** reason_proxy_error() - the RFC 9209 section 2.3 error type, or NULL where none fits */
const char *reason_proxy_error(enum reason r);
/** reason_status() - the HTTP status of a refusal for this reason (SPEC section 5), 0 for none */
unsigned reason_status(enum reason r);

#endif
