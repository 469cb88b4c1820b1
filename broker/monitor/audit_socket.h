/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit_socket.h - records to the system's log: syslog by RFC 5424, or the journal */
#ifndef WEIR_BROKER_MONITOR_AUDIT_SOCKET_H
#define WEIR_BROKER_MONITOR_AUDIT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

struct err;

#define SYSLOG_PATH "/dev/log"
#define JOURNAL_PATH "/run/systemd/journal/socket"

/** struct audit_socket - a datagram socket that is connected to nothing: whoever listens at @path may
 * be started anew meanwhile */
struct audit_socket {
	int fd;
	bool is_journal;
	const char *path;
	char host[256];
};

void audit_socket_init(struct audit_socket *s);
/** audit_socket_open() - @asks: before the monitor locks itself: somebody must be listening. Else who
 * does is not asked: connect() is not among what it may call.
 * Return: 0, or -errno with @e */
int audit_socket_open(struct audit_socket *s, bool journal, bool asks, struct err *e);
/** audit_socket_send() - one record, a JSON object of @len bytes without LF; never waits.
 * Return: 0 or -errno */
int audit_socket_send(const struct audit_socket *s, const char *line, size_t len);
/** audit_socket_format() - what is sent for it. Return: bytes, or 0 when it does not fit */
size_t audit_socket_format(const struct audit_socket *s, const char *line, size_t len, char *buf,
			   size_t room);
void audit_socket_close(struct audit_socket *s);

#endif
