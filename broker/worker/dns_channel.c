/* SPDX-License-Identifier: ISC */
/* broker/worker/dns_channel.c - c-ares in the worker's loop: its sockets, its time, its words.
 * Answers are hostile; c-ares reads them. Here only an answer's flags, code and question are looked at. */
#include "broker/worker/dns_channel.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "broker/worker/dns.h"
#include "broker/worker/state.h"
#include "common/scope.h"

#define QUERY_MS 2000 /* 2 + 4 + 8 s with one server: inside DIAL_S */
#define TRIES 3
#define STRAYS 64 /* datagrams that answer nothing, dropped in one turn */

#define HEADER 12 /* bytes, RFC 1035 section 4.1.1 */
#define FLAGS_AT 2
#define IS_ANSWER 0x80
#define OPCODE 0x78

const char *dns_word(int status)
{
	switch (status) {
	case ARES_ENOTFOUND:
		return "NXDOMAIN";
	case ARES_ENODATA:
		return "the name has no address";
	case ARES_ESERVFAIL:
		return "SERVFAIL";
	case ARES_EREFUSED:
		return "REFUSED";
	case ARES_ENOTIMP:
		return "NOTIMP";
	case ARES_EFORMERR:
		return "FORMERR";
	case ARES_ETIMEOUT:
		return "no answer from the name servers";
	case ARES_ECONNREFUSED:
		return "no name server can be reached";
	case ARES_EBADNAME:
		return "not a name that DNS can hold";
	case ARES_EBADRESP:
		return "a malformed answer";
	default:
		return ares_strerror(status);
	}
}

/* RFC 1035 section 4.1.1, RFC 6895 section 2.3 */
const char *dns_rcode_word(unsigned rcode)
{
	static const char *const words[] = { NULL,	 "FORMERR", "SERVFAIL",
					     "NXDOMAIN", "NOTIMP",  "REFUSED" };

	return rcode < ARRAY_LEN(words) ? words[rcode] : "an error of the name server";
}

/* ---- what is an answer ---- */

static bool is_answer_flags(uint8_t flags)
{
	return (flags & (IS_ANSWER | OPCODE)) == IS_ANSWER;
}

bool dns_is_answer(const uint8_t *p, size_t n)
{
	return n >= HEADER && is_answer_flags(p[FLAGS_AT]);
}

bool dns_stream_feed(struct dns_stream *s, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s->at < 2)
			s->length = (uint16_t)(s->length << 8 | p[i]);
		else if (s->at == 2 + FLAGS_AT && !is_answer_flags(p[i]))
			return false;
		s->at++;
		if (s->at == 2 && s->length < HEADER)
			return false;
		if (s->at == 2u + s->length)
			s->at = s->length = 0;
	}
	return true;
}

/* ---- c-ares' sockets ----
 * They are made here to drop what is no answer, and to see each answer's rcode: c-ares asks the next
 * server after SERVFAIL, NOTIMP and REFUSED, and when all said so it knows no more than that none was
 * of use. */

static struct dns_stream *stream_of(struct dns_channel *ch, int fd)
{
	for (size_t i = 0; i < DNS_STREAMS_MAX; i++) {
		if (ch->stream[i].is_used && ch->stream[i].fd == fd)
			return &ch->stream[i];
	}
	return NULL;
}

static ares_socket_t on_open(int family, int type, int protocol, void *arg)
{
	struct dns_channel *ch = arg;
	struct dns_stream *s = ch->stream;
	SCOPED_FD int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);

	if (fd < 0 || type != SOCK_STREAM)
		return take_fd(&fd);
	while (s < ch->stream + DNS_STREAMS_MAX && s->is_used)
		s++;
	if (s == ch->stream + DNS_STREAMS_MAX) {
		errno = EMFILE;
		return ARES_SOCKET_BAD;
	}
	*s = (struct dns_stream){ .fd = fd, .is_used = true };
	return take_fd(&fd);
}

static int on_close(ares_socket_t fd, void *arg)
{
	struct dns_stream *s = stream_of(arg, fd);

	if (s)
		s->is_used = false;
	return close(fd);
}

static int on_connect(ares_socket_t fd, const struct sockaddr *sa, ares_socklen_t len, void *arg)
{
	(void)arg;
	return connect(fd, sa, len);
}

static ares_ssize_t on_send(ares_socket_t fd, const struct iovec *v, int n, void *arg)
{
	(void)arg;
	return writev(fd, v, n);
}

bool dns_question(const uint8_t *p, size_t n, char out[HOST_MAX + 1])
{
	size_t at = HEADER, len = 0;

	while (at < n && p[at] > 0) {
		size_t label = p[at++];

		if (label > 63 || label > n - at || len + label + 1 > HOST_MAX)
			return false;
		if (len > 0)
			out[len++] = '.';
		memcpy(out + len, p + at, label);
		len += label;
		at += label;
	}
	out[len] = '\0';
	return len > 0 && at < n;
}

static void rcode_note(struct dns_channel *ch, const uint8_t *p, size_t n)
{
	char name[HOST_MAX + 1];
	unsigned rcode = n > HEADER ? p[3] & 0x0f : 0;

	if (rcode != 0 && is_answer_flags(p[FLAGS_AT]) && dns_question(p, n, name))
		ch->on_rcode(ch, name, rcode);
}

static ares_ssize_t on_recv(ares_socket_t fd, void *buf, size_t len, int flags, struct sockaddr *sa,
			    ares_socklen_t *salen, void *arg)
{
	struct dns_stream *s = stream_of(arg, fd);
	ares_socklen_t room = salen ? *salen : 0;
	ssize_t n = recvfrom(fd, buf, len, flags, sa, salen);

	for (int i = 0; !s && n >= 0 && !dns_is_answer(buf, (size_t)n); i++) {
		if (i == STRAYS) { /* the rest is there at the next turn */
			errno = EAGAIN;
			return -1;
		}
		if (salen)
			*salen = room;
		n = recvfrom(fd, buf, len, flags, sa, salen);
	}
	if (s && n > 0 && !dns_stream_feed(s, buf, (size_t)n)) {
		errno = EBADMSG; /* c-ares gives the connection up, and asks the next server */
		return -1;
	}
	if (n > 0)
		rcode_note(arg, buf, (size_t)n);
	return n;
}

/* ---- c-ares in the loop ---- */

void dns_channel_wait(struct dns_channel *ch)
{
	struct timeval tv, *next = ares_timeout(ch->ares, NULL, &tv);

	ev_timer_stop(ch->loop, &ch->timer);
	if (!next)
		return;
	ev_timer_set(&ch->timer, (double)next->tv_sec + (double)next->tv_usec / 1e6 + 0.001, 0.);
	ev_timer_start(ch->loop, &ch->timer);
}

static void on_socket(struct ev_loop *loop, ev_io *io, int revents)
{
	struct dns_channel *ch = io->data;
	ares_socket_t fd = io->fd;

	(void)loop;
	ares_process_fd(ch->ares, revents & EV_READ ? fd : ARES_SOCKET_BAD,
			revents & EV_WRITE ? fd : ARES_SOCKET_BAD);
	ch->on_processed(ch);
}

static void on_timer(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct dns_channel *ch = container_of(t, struct dns_channel, timer);

	(void)loop;
	(void)revents;
	ares_process_fd(ch->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	ch->on_processed(ch);
}

/* c-ares opens or closes a socket, or waits for something else on it */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns_channel *ch = arg;
	int events = (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0);
	ev_io *io = NULL;

	for (size_t i = 0; i < DNS_SOCKETS_MAX && !io; i++) {
		if (ev_is_active(&ch->io[i]) && ch->io[i].fd == fd)
			io = &ch->io[i];
	}
	if (io)
		ev_io_stop(ch->loop, io);
	for (size_t i = 0; i < DNS_SOCKETS_MAX && !io; i++) {
		if (!ev_is_active(&ch->io[i]))
			io = &ch->io[i];
	}
	if (!io || events == 0)
		return; /* no room: the query times out */
	ev_io_set(io, fd, events);
	ev_io_start(ch->loop, io);
}

int dns_channel_init(struct dns_channel *ch, struct ev_loop *loop)
{
	static const struct ares_socket_functions sockets = { on_open, on_close, on_connect,
							      on_recv, on_send };
	static struct in_addr nowhere;
	static char lookups[] = "b", resolvconf[] = "/dev/null";
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = QUERY_MS,
		.tries = TRIES,
		.ndots = 1,
		.servers = &nowhere,
		.nservers = 1,
		.domains = NULL,
		.ndomains = 0,
		.lookups = lookups,
		.sock_state_cb = on_socket_state,
		.sock_state_cb_data = ch,
		.resolvconf_path = resolvconf,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		   ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB |
		   ARES_OPT_RESOLVCONF;

	ch->loop = loop;
	for (size_t i = 0; i < DNS_SOCKETS_MAX; i++) {
		ev_io_init(&ch->io[i], on_socket, -1, 0);
		ch->io[i].data = ch;
	}
	ev_init(&ch->timer, on_timer);
	nowhere.s_addr = htonl(INADDR_LOOPBACK);
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS ||
	    ares_init_options(&ch->ares, &o, mask) != ARES_SUCCESS)
		return -ENOMEM;
	ares_set_socket_functions(ch->ares, &sockets, ch);
	return 0;
}
