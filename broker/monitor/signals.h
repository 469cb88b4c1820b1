/* SPDX-License-Identifier: ISC */
/* broker/monitor/signals.h - signals to weir are signals to the command */
#ifndef WEIR_BROKER_MONITOR_SIGNALS_H
#define WEIR_BROKER_MONITOR_SIGNALS_H

#include <stdbool.h>

struct monitor;

/** signals_ignore() - before the first write: PIPE and XFSZ are ignored, so that a write fails and
 * says why. CMD gets every signal at its default */
void signals_ignore(struct monitor *m);
/** signals_start() - from now on TERM INT HUP QUIT USR1 USR2 CONT WINCH TSTP go to the command */
void signals_start(struct monitor *m);
/** signals_seen() - one has come. The second TERM, or ten seconds after the first, ends the sandbox;
 * one second where the command does not run yet */
void signals_seen(struct monitor *m, int signo);
/** signals_pass() - send @signo to the command's process group, or as soon as there is one */
void signals_pass(struct monitor *m, int signo);
/** signals_deadline() - the sandbox ends in ten seconds at the latest */
void signals_deadline(struct monitor *m);
/** signals_stoppable() - while @on SIGTSTP does to this process what the kernel has it do */
void signals_stoppable(struct monitor *m, bool on);
/** signals_flush() - send what waits, as far as the shim takes it */
void signals_flush(struct monitor *m);
/** signals_stop() - as before signals_ignore() and signals_start()
 * @is_over: the exit status is known and nothing but the exit follows: what comes now is too late to
 *	     change it, and stays blocked */
void signals_stop(struct monitor *m, bool is_over);

#endif
