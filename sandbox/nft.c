/* SPDX-License-Identifier: ISC */
/* sandbox/nft.c - the packet rules of the transparent route: one table, two chains, four rules at most.
 * Runs once, with the power over the new network namespace; what is written here nobody inside can
 * change. In the words of nft(8):
 *	table inet weir {
 *		chain nat {
 *			type nat hook output priority -100;
 *			ip daddr != 127.0.0.0/8 meta l4proto tcp redirect to :P
 *			ip6 daddr != ::1 meta l4proto tcp redirect to :Q
 *		}
 *		chain refuse {
 *			type filter hook output priority 0;
 *			ip daddr != 127.0.0.0/8 meta l4proto != tcp drop
 *			ip6 daddr != ::1 meta l4proto != tcp drop
 *		}
 *	} */
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

#define TABLE "weir"
#define PRIORITY_NAT (-100) /* NF_IP_PRI_NAT_DST, linux/netfilter_ipv4.h */

static const uint8_t loopback4[1] = { 127 };
static const uint8_t loopback6[16] = { [15] = 1 };

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

/* The destination is not loopback: by its first byte, or all sixteen. */
static void goes_away(struct nlmsg *m, bool is_v4)
{
	const size_t len = is_v4 ? sizeof(loopback4) : sizeof(loopback6);
	struct nest n;

	meta_is(m, NFT_META_NFPROTO, NFT_CMP_EQ, is_v4 ? NFPROTO_IPV4 : NFPROTO_IPV6);
	n = expr(m, "payload");
	nlmsg_put_be32(m, NFTA_PAYLOAD_DREG, NFT_REG_1);
	nlmsg_put_be32(m, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	nlmsg_put_be32(m, NFTA_PAYLOAD_OFFSET, is_v4 ? 16 : 24); /* struct iphdr, ipv6hdr: daddr */
	nlmsg_put_be32(m, NFTA_PAYLOAD_LEN, (uint32_t)len);
	expr_end(m, n);
	compare(m, NFT_CMP_NEQ, is_v4 ? loopback4 : loopback6, len);
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

/* @port 0: what is not TCP is dropped. @flags: NLM_F_ACK for the last one */
static void rule(struct nlmsg *m, const char *in, bool is_v4, uint16_t port, unsigned flags)
{
	size_t list;

	request(m, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags);
	nlmsg_put_str(m, NFTA_RULE_TABLE, TABLE);
	nlmsg_put_str(m, NFTA_RULE_CHAIN, in);
	list = nlmsg_nest(m, NFTA_RULE_EXPRESSIONS);
	goes_away(m, is_v4);
	meta_is(m, NFT_META_L4PROTO, port ? NFT_CMP_EQ : NFT_CMP_NEQ, IPPROTO_TCP);
	if (port)
		redirect(m, port);
	else
		drop(m);
	nlmsg_unnest(m, list);
}

int nft_redirect(uint16_t port4, uint16_t port6)
{
	struct nlmsg m = { 0 };
	SCOPED_FD int fd = feature_off("nf_tables") ? -EPROTONOSUPPORT
						    : nlmsg_socket(NETLINK_NETFILTER);
	uint32_t last;

	if (fd < 0)
		return fd;
	batch(&m, NFNL_MSG_BATCH_BEGIN);
	request(&m, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	nlmsg_put_str(&m, NFTA_TABLE_NAME, TABLE);
	chain(&m, "nat", "nat", PRIORITY_NAT);
	chain(&m, "refuse", "filter", 0);
	if (port4)
		rule(&m, "nat", true, port4, 0);
	if (port6)
		rule(&m, "nat", false, port6, 0);
	rule(&m, "refuse", true, 0, 0);
	rule(&m, "refuse", false, 0, NLM_F_ACK);
	last = m.seq;
	batch(&m, NFNL_MSG_BATCH_END);
	return nlmsg_ask(fd, &m, last);
}
