/* SPDX-License-Identifier: ISC */
/* common/reason.c - why a connection was allowed, refused or ended. Pure tables. */
#include "common/reason.h"

#include <assert.h>
#include <stddef.h>

#include "common/scope.h"

/* error: RFC 9209 section 2.3; status: SPEC section 5, 0 where no answer is possible any more */
static const struct {
	const char *name, *error;
	unsigned status;
} reasons[] = {
	[REASON_NONE] = { "none", NULL, 0 },
	[REASON_RULE] = { "rule", NULL, 0 },
	[REASON_ASK] = { "ask", "http_request_denied", 403 },
	[REASON_APPROVED] = { "approved", NULL, 0 },
	[REASON_DECLINED] = { "declined", "http_request_denied", 403 },
	[REASON_UNANSWERED] = { "unanswered", "http_request_denied", 403 },
	[REASON_NO_RULE] = { "no_rule", "http_request_denied", 403 },
	[REASON_DENIED] = { "denied", "http_request_denied", 403 },
	[REASON_PORT] = { "port", "http_request_denied", 403 },
	[REASON_PRIVATE_ADDRESS] = { "private_address", "destination_ip_prohibited", 403 },
	[REASON_BAD_NAME] = { "bad_name", "http_request_error", 400 },
	[REASON_BAD_REQUEST] = { "bad_request", "http_request_error", 400 },
	[REASON_ORIGIN_FORM] = { "origin_form", "http_request_error", 400 },
	[REASON_HEAD_TIMEOUT] = { "head_timeout", "http_request_error", 408 },
	[REASON_HEAD_TOO_LARGE] = { "head_too_large", "http_request_error", 431 },
	[REASON_AUDIT_UNAVAILABLE] = { "audit_unavailable", "proxy_internal_error", 503 },
	[REASON_CONNECTION_LIMIT] = { "connection_limit", "connection_limit_reached", 503 },
	[REASON_PROXY_AUTH] = { "proxy_auth", "http_request_denied", 407 },
	[REASON_DNS_ERROR] = { "dns_error", "dns_error", 502 },
	[REASON_DNS_TIMEOUT] = { "dns_timeout", "dns_timeout", 504 },
	[REASON_CONNECT_REFUSED] = { "connect_refused", "connection_refused", 502 },
	[REASON_CONNECT_UNREACHABLE] = { "connect_unreachable", "destination_ip_unroutable", 502 },
	[REASON_CONNECT_TIMEOUT] = { "connect_timeout", "connection_timeout", 504 },
	[REASON_CONNECT_FAILED] = { "connect_failed", "destination_unavailable", 502 },
	[REASON_BAD_RESPONSE] = { "bad_response", "http_protocol_error", 502 },
	[REASON_UPSTREAM] = { "upstream", "destination_unavailable", 502 },
	[REASON_NOT_TLS] = { "not_tls", "tls_protocol_error", 0 },
	[REASON_SNI_MISMATCH] = { "sni_mismatch", "http_request_denied", 0 },
	[REASON_CLOSED] = { "closed", NULL, 0 },
	[REASON_CLIENT_GONE] = { "client_gone", NULL, 0 },
	[REASON_CLIENT_RESET] = { "client_reset", NULL, 0 },
	[REASON_ORIGIN_RESET] = { "origin_reset", "connection_terminated", 502 },
	[REASON_IDLE] = { "idle", NULL, 0 },
	[REASON_CUT] = { "cut", "http_request_denied", 0 },
	[REASON_SHUTDOWN] = { "shutdown", NULL, 0 },
	[REASON_WORKER_DIED] = { "worker_died", "proxy_internal_error", 0 },
	[REASON_INTERNAL] = { "internal", "proxy_internal_error", 503 },
};
static_assert(ARRAY_LEN(reasons) == REASON_COUNT, "each reason has its row");

const char *reason_name(enum reason r)
{
	return (unsigned)r < REASON_COUNT ? reasons[r].name : "unknown";
}

const char *reason_proxy_error(enum reason r)
{
	return (unsigned)r < REASON_COUNT ? reasons[r].error : NULL;
}

unsigned reason_status(enum reason r)
{
	return (unsigned)r < REASON_COUNT ? reasons[r].status : 0;
}
