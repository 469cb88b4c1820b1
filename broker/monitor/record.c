/* SPDX-License-Identifier: ISC */
/* broker/monitor/record.c - what of a run and its connections goes to the audit log.
 * Hosts are the canonical ones that were judged, or escaped where nothing canonical exists; byte
 * counts are the worker's word, everything else is the monitor's own. */
#include "broker/monitor/record.h"

#include <assert.h>
#include <jansson.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "common/scope.h"

static const char *const protos[] = {
	[PROTO_CONNECT] = "connect", [PROTO_HTTP] = "http",   [PROTO_SOCKS5] = "socks5",
	[PROTO_PUBLISH] = "publish", [PROTO_REACH] = "reach", [PROTO_TRANSPARENT] = "transparent",
	[PROTO_DNS] = "dns",
};
static_assert(ARRAY_LEN(protos) == PROTO_COUNT, "a name for every protocol");

const char *proto_name(unsigned proto)
{
	return proto < PROTO_COUNT ? protos[proto] : NULL;
}

json_t *record_limits(const struct monitor *m)
{
	static const char *const names[] = {
		[COUNT_CONNECTIONS] = "connection_limit",
		[COUNT_DESCRIPTORS] = "descriptors",
		[COUNT_FULL] = "paused",
		[COUNT_HEAD_TIMEOUT] = "head_timeout",
		[COUNT_HEAD_SIZE] = "head_too_large",
		[COUNT_IDLE] = "idle",
		[COUNT_DNS_TIMEOUT] = "dns_timeout",
		[COUNT_DIAL_TIMEOUT] = "connect_timeout",
		[COUNT_SECRET] = "proxy_auth",
		[COUNT_PEER] = "other_user",
	};
	json_t *o = NULL;

	static_assert(ARRAY_LEN(names) == COUNT_COUNT, "a name for every count");
	for (size_t i = 0; i < COUNT_COUNT; i++) {
		uint64_t n = (uint64_t)m->counts[i] + m->counts_before[i];

		if (n == 0)
			continue;
		if (!o)
			o = json_object();
		(void)json_object_set_new(o, names[i], json_integer((json_int_t)n));
	}
	return o;
}

void record_flush(struct monitor *m)
{
	if (audit_queued(m->audit) == 0)
		return;
	audit_flush(m->audit);
	if (audit_queued(m->audit) > 0 && !ev_is_active(&m->audit_timer))
		ev_timer_again(m->loop, &m->audit_timer);
}

void record_event(struct monitor *m, const char *event, json_t *extra)
{
	const struct audit_record rec = { .event = event, .extra = extra };

	(void)audit_write(m->audit, &rec, false);
}

/* Who came to a published port: the worker's word, as it saw it. */
static json_t *peer_of(const struct conn *c)
{
	char text[ADDR_TEXT_MAX];

	return c->peer.family ? json_pack("{s:s}", "peer", addr_format(&c->peer, text)) : NULL;
}

bool record_names_client(const struct monitor *m, const struct conn *c)
{
	return policy_audit_client(m->policy) || c->said != ANSWER_NONE;
}

int record_allow(struct monitor *m, const struct conn *c)
{
	struct who who = { .pid = 0 };
	const struct audit_record rec = {
		.event = "verdict",
		.serial = c->serial,
		.proto = proto_name(c->proto),
		.host = c->target.host,
		.port = c->target.port,
		.verdict = "allow",
		.reason = c->match.reason,
		.rule = c->match.rule,
		.extra = peer_of(c),
		.approval = answer_word((enum answer)c->said),
		.client = &who,
	};

	if (record_names_client(m, c))
		who_look(m, &c->ends, 0, &who);
	return audit_write(m->audit, &rec, policy_audit_required(m->policy));
}

void record_deny(struct monitor *m, const struct refused *r)
{
	struct who who = { .pid = 0 };
	const struct audit_record rec = {
		.event = "verdict",
		.serial = r->serial,
		.proto = proto_name(r->proto),
		.host = r->host,
		.port = r->port,
		.verdict = "deny",
		.reason = r->reason,
		.rule = r->rule,
		.approval = r->approval,
		.client = &who,
	};

	if (r->ends || r->socket)
		who_look(m, r->ends, r->socket, &who);
	(void)audit_write(m->audit, &rec, false);
}

void record_flood_end(struct monitor *m)
{
	if (m->strangers > STRANGERS_MAX)
		record_event(m, "strangers_refused",
			     json_pack("{s:I}", "count",
				       (json_int_t)(m->strangers - STRANGERS_MAX)));
	m->strangers = 0;
}

bool record_is_flood(struct monitor *m, enum reason reason)
{
	double now = ev_now(m->loop);

	if (!m->run->secret || (reason != REASON_PROXY_AUTH && reason != REASON_HEAD_TIMEOUT &&
				reason != REASON_CONNECTION_LIMIT))
		return false;
	if (now - m->strangers_at >= STRANGERS_S || now < m->strangers_at) {
		record_flood_end(m);
		m->strangers_at = now;
	}
	return ++m->strangers > STRANGERS_MAX;
}

void record_end(struct monitor *m, const struct conn *c, const struct msg_done *done,
		enum reason reason)
{
	double ms = (ev_now(m->loop) - c->since) * 1000.0;
	const struct audit_record rec = {
		.event = "end",
		.serial = c->serial,
		.proto = proto_name(c->proto),
		.host = c->target.host,
		.port = c->target.port,
		.addr = &c->addr,
		.sni = done && done->sni_host ? c->target.host
		       : done && done->sni[0] ? done->sni
					      : NULL,
		.reason = reason,
		.counts = true,
		.up = done ? done->up : 0,
		.down = done ? done->down : 0,
		.requests = done ? done->requests : 0,
		.ms = ms > 0 ? (uint64_t)ms : 0,
	};

	if (forward_count(m, c, reason))
		return;
	m->up += rec.up;
	m->down += rec.down;
	(void)audit_write(m->audit, &rec, false);
}
