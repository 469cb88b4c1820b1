/* SPDX-License-Identifier: ISC */
/* sandbox/nft.h - the packet rules of the transparent route, in the sandbox's own network namespace */
#ifndef WEIR_SANDBOX_NFT_H
#define WEIR_SANDBOX_NFT_H

#include <stdint.h>

/**
 * nft_redirect() - TCP to any place but loopback and the sandbox's own address goes to a listener on
 * loopback instead, whatever its port; anything else to such a place is refused at once with EPERM
 * Only what has a route is touched: the ranges that sandbox/transparent.c makes local.
 * @port4, @port6: where 127.0.0.1 and ::1 listen, host order; 0: that family is left alone
 *
 * Return: 0, or -errno: nothing is in force then. A kernel without nf_tables, its inet family or
 *	   redirection gives one of several, -EOPNOTSUPP and -ENOENT among them
 * Source: linux/netfilter/nf_tables.h */
int nft_redirect(uint16_t port4, uint16_t port6);

#endif
