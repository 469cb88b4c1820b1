/* SPDX-License-Identifier: ISC */
/* broker/monitor/ground.h - is a terminal in the middle of something? Pure. */
#ifndef WEIR_BROKER_MONITOR_GROUND_H
#define WEIR_BROKER_MONITOR_GROUND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ground_state {
	GROUND_TEXT,   /* between characters: a prompt may be drawn here */
	GROUND_UTF8,   /* @more bytes of a character are to come */
	GROUND_ESCAPE, /* after ESC and what may stand between it and the last byte */
	GROUND_CSI,    /* ESC [ … */
	GROUND_STRING, /* OSC, DCS, SOS, PM, APC: up to ST or BEL */
	GROUND_STRING_ESCAPE,
	GROUND_STATE_COUNT
};

struct ground {
	enum ground_state state; /* zeroed: GROUND_TEXT */
	uint8_t more;
};

/**
 * ground_pass() - follow @len bytes that went to the terminal
 * Source: ECMA-48 section 5, xterm's ctlseqs (BEL ends an OSC), RFC 3629 */
void ground_pass(struct ground *g, const void *buf, size_t len);
/** ground_find() - how many of @len bytes bring @g to the nearest GROUND_TEXT: 0 when it is there
 * already, @len when it is not in them. @g is not changed */
size_t ground_find(const struct ground *g, const void *buf, size_t len);
static inline bool ground_is(const struct ground *g)
{
	return g->state == GROUND_TEXT;
}

#endif
