/* SPDX-License-Identifier: ISC */
/* broker/worker/reply.c - the text of a refusal. */
#include "broker/worker/reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/scope.h"

static const struct {
	unsigned status;
	const char *phrase;
} phrases[] = {
	{ 400, "Bad Request" },
	{ 403, "Forbidden" },
	{ 407, "Proxy Authentication Required" },
	{ 408, "Request Timeout" },
	{ 431, "Request Header Fields Too Large" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
};

static const char *phrase_of(unsigned status)
{
	for (size_t i = 0; i < ARRAY_LEN(phrases); i++) {
		if (phrases[i].status == status)
			return phrases[i].phrase;
	}
	return "Refused";
}

/* The line of the text that says what to type: of a refused CONNECT most clients show the status line and
 * nothing else. put_line() has left nothing in it that a status line may not hold. */
static const char *todo_line(const char *text, unsigned status)
{
	const char *what = status == 403 ? strchr(text, '\n') : NULL;
	const char *rule = what ? strchr(what + 1, '\n') : NULL;

	return rule && rule[1] ? rule + 1 : NULL;
}

ssize_t reply_write(char *out, size_t room, const struct reply *r)
{
	unsigned status = r->status ? r->status : reason_status(r->reason);
	const char *error = reason_proxy_error(r->reason), *todo;
	int n;

	if (status < 400 || status > 599)
		status = 503;
	todo = todo_line(r->text, status);
	n = snprintf(out, room,
		     "HTTP/1.1 %u %s%s%.*s\r\n"
		     "Content-Type: text/plain; charset=utf-8\r\n"
		     "Content-Length: %zu\r\n"
		     "Proxy-Status: weir%s%s%s%s%s; details=\"%s\"\r\n"
		     "Cache-Control: no-store\r\n"
		     "%s%s"
		     "Connection: close\r\n"
		     "\r\n"
		     "%s",
		     status, phrase_of(status), todo ? "; " : "",
		     todo ? (int)strcspn(todo, "\n") : 0, todo ? todo : "", strlen(r->text),
		     error ? "; error=" : "", error ? error : "", r->rcode ? "; rcode=\"" : "",
		     r->rcode ? r->rcode : "", r->rcode ? "\"" : "", reason_name(r->reason),
		     status == 503 ? "Retry-After: 1\r\n" : "",
		     status == 407 ? "Proxy-Authenticate: Basic realm=\"weir\"\r\n" : "",
		     r->is_no_body ? "" : r->text);
	return n < 0 || (size_t)n >= room ? -EMSGSIZE : n;
}

/* one line of the body, whatever was in @in */
static size_t put_line(char *out, size_t room, const char *in)
{
	size_t n = 0;

	while (*in && n + 2 < room) {
		unsigned char c = (unsigned char)*in++;

		if (c == '\n')
			break;
		out[n++] = c < ' ' || c == 0x7f ? '?' : (char)c;
	}
	out[n++] = '\n';
	out[n] = '\0';
	return n;
}

void reply_text(char *out, size_t room, const char *what, const char *rule, const char *todo)
{
	size_t n = 0;

	if (room < 8)
		return;
	n += put_line(out, room - 4, what);
	n += put_line(out + n, room - n - 2, rule ? rule : "no policy rule was asked");
	(void)put_line(out + n, room - n, todo);
}

const char *reply_todo(enum reason reason)
{
	static const char *const see = "see whether the host answers outside the sandbox";
	static const char *const spell = "check the spelling of the name, and outside the sandbox "
					 "/etc/resolv.conf";
	const struct {
		enum reason reason;
		const char *todo;
	} todos[] = {
		{ REASON_ORIGIN_FORM,
		  "use it as a proxy: curl -x http://127.0.0.1:3128 URL, or set "
		  "HTTPS_PROXY=http://127.0.0.1:3128" },
		{ REASON_BAD_REQUEST, "send CONNECT HOST:PORT, or an http:// URL with plain header "
				      "lines" },
		{ REASON_BAD_NAME, "send CONNECT HOST:PORT, or an http:// URL" },
		{ REASON_HEAD_TIMEOUT, "send the whole head within 10 s of its first byte" },
		{ REASON_HEAD_TOO_LARGE, "keep the head of a request below 64 KiB" },
		{ REASON_CONNECTION_LIMIT, "close connections, or try again" },
		{ REASON_PROXY_AUTH, "use the whole URL that weir proxy printed when it started" },
		{ REASON_UPSTREAM,
		  "see the upstream line of the policy, and what that proxy allows" },
		{ REASON_DNS_ERROR, spell },
		{ REASON_DNS_TIMEOUT, spell },
		{ REASON_CONNECT_REFUSED, see },
		{ REASON_CONNECT_UNREACHABLE, see },
		{ REASON_CONNECT_TIMEOUT, see },
		{ REASON_CONNECT_FAILED, see },
		{ REASON_ORIGIN_RESET, see },
		{ REASON_BAD_RESPONSE, see },
	};

	for (size_t i = 0; i < ARRAY_LEN(todos); i++) {
		if (todos[i].reason == reason)
			return todos[i].todo;
	}
	return "try again";
}
