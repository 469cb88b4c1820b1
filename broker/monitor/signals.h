/* SPDX-License-Identifier: ISC */
/* broker/monitor/signals.h - signals to weir are signals to the command */
#ifndef WEIR_BROKER_MONITOR_SIGNALS_H
#define WEIR_BROKER_MONITOR_SIGNALS_H

struct monitor;

/** signals_ignore() - before the first write: PIPE and XFSZ are ignored, so that a write fails and
 * says why. CMD gets every signal at its default */
void signals_ignore(struct monitor *m);
/** signals_start() - from now on TERM INT HUP QUIT USR1 USR2 CONT WINCH go to the command */
void signals_start(struct monitor *m);
/** signals_seen() - one has come. The second TERM, or ten seconds after the first, ends the sandbox;
 * one second where the command does not run yet */
void signals_seen(struct monitor *m, int signo);
/** signals_flush() - send what waits, as far as the shim takes it */
void signals_flush(struct monitor *m);
/** signals_stop() - as before signals_ignore() and signals_start() */
void signals_stop(struct monitor *m);

#endif
