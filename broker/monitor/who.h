/* SPDX-License-Identifier: ISC */
/* broker/monitor/who.h - which process inside holds a client's socket: a claim, never a reason */
#ifndef WEIR_BROKER_MONITOR_WHO_H
#define WEIR_BROKER_MONITOR_WHO_H

#include <stdbool.h>
#include <stdint.h>

struct json_t;
struct monitor;
struct msg_half;

#define WHO_PROCESSES_MAX 512 /* looked at */
#define WHO_FDS_MAX 16384     /* descriptors looked at, of all of them together */
#ifdef __SANITIZE_ADDRESS__   /* whose books take many times as long as the look */
#define WHO_SLOW 20
#else
#define WHO_SLOW 1
#endif
#define WHO_LOOK_US (WHO_SLOW * 10000) /* one look; then it is not known */
/* all looks for records in a second: a flood of refusals costs no more */
#define WHO_SECOND_US (WHO_SLOW * 50000)
#define WHO_EXE_MAX 200
#define WHO_ARGV0_MAX 100

/** struct who - @pid inside the sandbox, 0: not known; the names are escaped */
struct who {
	uint32_t pid;
	char exe[WHO_EXE_MAX + 1], argv0[WHO_ARGV0_MAX + 1];
};

/**
 * who_find() - look for the socket whose ends are @half in the sandbox's own /proc
 * Behind the lock. Costs 20 microseconds for one process, 200 for 300.
 * @w: filled in; pid 0 when nobody holds it, more than WHO_PROCESSES_MAX run, or it takes longer
 *     than WHO_LOOK_US */
void who_find(const struct monitor *m, const struct msg_half *half, struct who *w);
/** who_begin_here() - weir proxy on TCP: its clients are processes of this machine, if of any. Only who is
 * connected to its listener is looked for, and found only among this user's. Before the lock */
void who_begin_here(struct monitor *m);
/** struct who_budget - what looks for records have cost in this second */
struct who_budget {
	double since; /* when it began, loop time */
	uint64_t us;
};
/** who_socket() - the number of the client's socket, asked for before an answer is sent that ends the
 * connection, and with it what the kernel knows of it. Costs 5 microseconds, within WHO_SECOND_US.
 * Return: 0: not known */
uint32_t who_socket(struct monitor *m, const struct msg_half *half);
/** who_udp() - the same of the UDP socket inside that is bound to @port; 0: none */
uint32_t who_udp(struct monitor *m, uint16_t port);
/** who_look() - who_find() for a record. @half: may be NULL, or of family 0: none; @socket:
 * who_socket(), who_udp() or 0
 * @w: pid 0 too when this second's looks have taken WHO_SECOND_US */
void who_look(struct monitor *m, const struct msg_half *half, uint32_t socket, struct who *w);
/** who_json() - {pid, exe, argv0}. Return: a new reference; null where it is not known */
struct json_t *who_json(const struct who *w);

#endif
