/* SPDX-License-Identifier: ISC */
/* broker/worker/filter_args.h - numbers that both the worker's code and its filter must use */
#ifndef WEIR_BROKER_WORKER_FILTER_ARGS_H
#define WEIR_BROKER_WORKER_FILTER_ARGS_H

/* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST: linux/netfilter_ipv4.h, netfilter_ipv6/ip6_tables.h, which
 * do not go together with <netinet/in.h> */
#define ORIGINAL_DST 80

/* The UDP socket at which names are asked for, always here and never closed: the one descriptor from
 * which the worker may send to an address of its choice, which is inside the sandbox then. */
#define WORKER_NAMES_FD 63

#endif
