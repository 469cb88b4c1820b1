/* SPDX-License-Identifier: ISC */
/* sandbox/nft.c - the packet rules of the transparent route: one table, two chains, six rules at most.
 * Runs once, with the power over the new network namespace; what is written here nobody inside can
 * change. 198.18.0.1 is the sandbox itself. In the words of nft(8):
 *	table inet weir {
 *		chain first {
 *			type filter hook output priority -300;
 *			ip saddr 127.0.0.0/8 ip daddr 127.0.0.0/8 th sport != P notrack
 *			ip6 saddr ::1 ip6 daddr ::1 th sport != Q notrack
 *			ip daddr != { 127.0.0.0/8, 198.18.0.1 } meta l4proto != tcp drop
 *			ip6 daddr != ::1 meta l4proto != tcp drop
 *		}
 *		chain nat {
 *			type nat hook output priority -100;
 *			ip daddr != { 127.0.0.0/8, 198.18.0.1 } meta l4proto tcp redirect to :P
 *			ip6 daddr != ::1 meta l4proto tcp redirect to :Q
 *		}
 *	}
 * Without the first two all that is said on loopback, to the proxy too, would pass through the kernel's
 * table of connections: slower by a tenth, and a full table would be everybody's. */
#include "sandbox/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdbool.h>
#include <string.h>

#include "common/feature.h"
#include "common/nlmsg.h"
#include "common/scope.h"
#include "common/synthetic.h"

#define TABLE "weir"
/* linux/netfilter_ipv4.h */
#define PRIORITY_FIRST (-300) /* NF_IP_PRI_RAW: before connections are looked up */
#define PRIORITY_NAT (-100)   /* NF_IP_PRI_NAT_DST */

/* struct iphdr, ipv6hdr: saddr, daddr */
#define SOURCE(is_v4) ((is_v4) ? 12U : 8U)
#define DESTINATION(is_v4) ((is_v4) ? 16U : 24U)

static const uint8_t loopback4[1] = { 127 };
static const uint8_t loopback6[16] = { [15] = 1 };
static const uint8_t self4[4] = { SYNTHETIC_SELF_BYTES };

static void request(struct nlmsg *m, unsigned type, unsigned flags)
{
	const struct nfgenmsg head = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };

	nlmsg_begin(m, NFNL_SUBSYS_NFTABLES << 8 | type, flags, &head, sizeof(head));
}

static void batch(struct nlmsg *m, unsigned type)
{
	const struct nfgenmsg head = { .nfgen_family = AF_UNSPEC,
				       .version = NFNETLINK_V0,
				       .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	nlmsg_begin(m, type, 0, &head, sizeof(head));
}

static void chain(struct nlmsg *m, const char *name, const char *type, int priority)
{
	size_t hook;

	request(m, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	nlmsg_put_str(m, NFTA_CHAIN_TABLE, TABLE);
	nlmsg_put_str(m, NFTA_CHAIN_NAME, name);
	hook = nlmsg_nest(m, NFTA_CHAIN_HOOK);
	nlmsg_put_be32(m, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
	nlmsg_put_be32(m, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	nlmsg_unnest(m, hook);
	nlmsg_put_str(m, NFTA_CHAIN_TYPE, type);
}

/* ---- expressions ---- */

struct nest {
	size_t elem, data;
};

static struct nest expr(struct nlmsg *m, const char *name)
{
	struct nest n = { .elem = nlmsg_nest(m, NFTA_LIST_ELEM) };

	nlmsg_put_str(m, NFTA_EXPR_NAME, name);
	n.data = nlmsg_nest(m, NFTA_EXPR_DATA);
	return n;
}

static void expr_end(struct nlmsg *m, struct nest n)
{
	nlmsg_unnest(m, n.data);
	nlmsg_unnest(m, n.elem);
}

static void value(struct nlmsg *m, unsigned type, const void *data, size_t len)
{
	size_t at = nlmsg_nest(m, type);

	nlmsg_put(m, NFTA_DATA_VALUE, data, len);
	nlmsg_unnest(m, at);
}

static void compare(struct nlmsg *m, enum nft_cmp_ops op, const void *data, size_t len)
{
	struct nest n = expr(m, "cmp");

	nlmsg_put_be32(m, NFTA_CMP_SREG, NFT_REG_1);
	nlmsg_put_be32(m, NFTA_CMP_OP, op);
	value(m, NFTA_CMP_DATA, data, len);
	expr_end(m, n);
}

static void meta_is(struct nlmsg *m, enum nft_meta_keys key, enum nft_cmp_ops op, uint8_t want)
{
	struct nest n = expr(m, "meta");

	nlmsg_put_be32(m, NFTA_META_KEY, key);
	nlmsg_put_be32(m, NFTA_META_DREG, NFT_REG_1);
	expr_end(m, n);
	compare(m, op, &want, sizeof(want));
}

static void family_is(struct nlmsg *m, bool is_v4)
{
	meta_is(m, NFT_META_NFPROTO, NFT_CMP_EQ, is_v4 ? NFPROTO_IPV4 : NFPROTO_IPV6);
}

static void header(struct nlmsg *m, enum nft_payload_bases base, uint32_t offset,
		   enum nft_cmp_ops op, const void *data, size_t len)
{
	struct nest n = expr(m, "payload");

	nlmsg_put_be32(m, NFTA_PAYLOAD_DREG, NFT_REG_1);
	nlmsg_put_be32(m, NFTA_PAYLOAD_BASE, base);
	nlmsg_put_be32(m, NFTA_PAYLOAD_OFFSET, offset);
	nlmsg_put_be32(m, NFTA_PAYLOAD_LEN, (uint32_t)len);
	expr_end(m, n);
	compare(m, op, data, len);
}

/* Loopback is known by its first byte, or all sixteen. */
static void loopback(struct nlmsg *m, bool is_v4, uint32_t offset, enum nft_cmp_ops op)
{
	header(m, NFT_PAYLOAD_NETWORK_HEADER, offset, op, is_v4 ? loopback4 : loopback6,
	       is_v4 ? sizeof(loopback4) : sizeof(loopback6));
}

/* The destination is not the sandbox itself. */
static void goes_away(struct nlmsg *m, bool is_v4)
{
	family_is(m, is_v4);
	loopback(m, is_v4, DESTINATION(is_v4), NFT_CMP_NEQ);
	if (is_v4)
		header(m, NFT_PAYLOAD_NETWORK_HEADER, DESTINATION(is_v4), NFT_CMP_NEQ, self4,
		       sizeof(self4));
}

static void redirect(struct nlmsg *m, uint16_t port)
{
	const uint16_t be = htons(port);
	struct nest n = expr(m, "immediate");

	nlmsg_put_be32(m, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	value(m, NFTA_IMMEDIATE_DATA, &be, sizeof(be));
	expr_end(m, n);
	n = expr(m, "redir");
	nlmsg_put_be32(m, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
	expr_end(m, n);
}

static void drop(struct nlmsg *m)
{
	struct nest n = expr(m, "immediate");
	size_t data, verdict;

	nlmsg_put_be32(m, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = nlmsg_nest(m, NFTA_IMMEDIATE_DATA);
	verdict = nlmsg_nest(m, NFTA_DATA_VERDICT);
	nlmsg_put_be32(m, NFTA_VERDICT_CODE, NF_DROP);
	nlmsg_unnest(m, verdict);
	nlmsg_unnest(m, data);
	expr_end(m, n);
}

/* ---- rules ---- */

static size_t rule(struct nlmsg *m, const char *in, unsigned flags)
{
	request(m, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags);
	nlmsg_put_str(m, NFTA_RULE_TABLE, TABLE);
	nlmsg_put_str(m, NFTA_RULE_CHAIN, in);
	return nlmsg_nest(m, NFTA_RULE_EXPRESSIONS);
}

/* What the listener at @port answers must be known again: a client may have come from loopback. */
static void rule_notrack(struct nlmsg *m, bool is_v4, uint16_t port)
{
	const uint16_t be = htons(port);
	size_t list = rule(m, "first", 0), elem;

	family_is(m, is_v4);
	loopback(m, is_v4, SOURCE(is_v4), NFT_CMP_EQ);
	loopback(m, is_v4, DESTINATION(is_v4), NFT_CMP_EQ);
	header(m, NFT_PAYLOAD_TRANSPORT_HEADER, 0, NFT_CMP_NEQ, &be, sizeof(be));
	elem = nlmsg_nest(m, NFTA_LIST_ELEM);
	nlmsg_put_str(m, NFTA_EXPR_NAME, "notrack");
	nlmsg_unnest(m, elem);
	nlmsg_unnest(m, list);
}

static void rule_refuse(struct nlmsg *m, bool is_v4, unsigned flags)
{
	size_t list = rule(m, "first", flags);

	goes_away(m, is_v4);
	meta_is(m, NFT_META_L4PROTO, NFT_CMP_NEQ, IPPROTO_TCP);
	drop(m);
	nlmsg_unnest(m, list);
}

static void rule_redirect(struct nlmsg *m, bool is_v4, uint16_t port)
{
	size_t list;

	if (port == 0)
		return;
	list = rule(m, "nat", 0);
	goes_away(m, is_v4);
	meta_is(m, NFT_META_L4PROTO, NFT_CMP_EQ, IPPROTO_TCP);
	redirect(m, port);
	nlmsg_unnest(m, list);
}

/* All or nothing is loaded. Only the last one is acknowledged: else an answer could be heard before a
 * failure behind it. */
static int rules_load(uint16_t port4, uint16_t port6, bool notrack)
{
	struct nlmsg m = { 0 };
	SCOPED_FD int fd = nlmsg_socket(NETLINK_NETFILTER);
	uint32_t last;

	if (fd < 0)
		return fd;
	batch(&m, NFNL_MSG_BATCH_BEGIN);
	request(&m, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	nlmsg_put_str(&m, NFTA_TABLE_NAME, TABLE);
	chain(&m, "nat", "nat", PRIORITY_NAT);
	rule_redirect(&m, true, port4);
	rule_redirect(&m, false, port6);
	chain(&m, "first", "filter", PRIORITY_FIRST);
	if (notrack) {
		rule_notrack(&m, true, port4);
		rule_notrack(&m, false, port6);
	}
	rule_refuse(&m, true, 0);
	rule_refuse(&m, false, NLM_F_ACK);
	last = m.seq;
	batch(&m, NFNL_MSG_BATCH_END);
	return nlmsg_ask(fd, &m, last);
}

int nft_redirect(uint16_t port4, uint16_t port6)
{
	int r = -ENOENT;

	if (feature_off("nf_tables"))
		return -EPROTONOSUPPORT;
	if (!feature_off("notrack"))
		r = rules_load(port4, port6, true);
	/* a kernel without nft_ct, or without something that is needed */
	return r == -ENOENT ? rules_load(port4, port6, false) : r;
}
