/* SPDX-License-Identifier: ISC */
/* broker/monitor/ground.c - is a terminal in the middle of something?
 * The bytes are hostile and are only looked at: a stranger can keep the state from being GROUND_TEXT,
 * which whoever waits for it bounds by time.
 *   TEXT --lead byte--> UTF8 --last byte--> TEXT
 *   TEXT --ESC--> ESCAPE --final--> TEXT; ESCAPE --[--> CSI --final--> TEXT
 *   ESCAPE --] P X ^ _--> STRING --BEL, ESC \--> TEXT; anywhere --CAN, SUB--> TEXT */
#include "broker/monitor/ground.h"

#include <string.h>

enum { BEL = 0x07, CAN = 0x18, SUB = 0x1a, ESC = 0x1b };

static uint8_t utf8_more(uint8_t c)
{
	if (c >= 0xf0 && c <= 0xf7)
		return 3;
	if (c >= 0xe0)
		return c <= 0xef ? 2 : 0;
	return c >= 0xc0 ? 1 : 0;
}

static void text(struct ground *g, uint8_t c)
{
	g->more = utf8_more(c);
	g->state = c == ESC ? GROUND_ESCAPE : g->more ? GROUND_UTF8 : GROUND_TEXT;
}

static void escape(struct ground *g, uint8_t c)
{
	if (c < 0x20)
		return; /* ESC begins anew; another control is done in the middle of it */
	if (c == '[')
		g->state = GROUND_CSI;
	else if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_')
		g->state = GROUND_STRING;
	else if (c > 0x2f) /* 0x20-0x2f stand between */
		g->state = GROUND_TEXT;
}

static void step(struct ground *g, uint8_t c)
{
	if ((c == CAN || c == SUB) && g->state != GROUND_TEXT) {
		g->state = GROUND_TEXT;
		return;
	}
	switch (g->state) {
	case GROUND_UTF8:
		if ((c & 0xc0) != 0x80)
			text(g, c); /* a character that was cut short */
		else if (--g->more == 0)
			g->state = GROUND_TEXT;
		return;
	case GROUND_ESCAPE:
		escape(g, c);
		return;
	case GROUND_CSI:
		if (c == ESC)
			g->state = GROUND_ESCAPE;
		else if (c >= 0x40)
			g->state = GROUND_TEXT;
		return;
	case GROUND_STRING:
		if (c == BEL)
			g->state = GROUND_TEXT;
		else if (c == ESC)
			g->state = GROUND_STRING_ESCAPE;
		return;
	case GROUND_STRING_ESCAPE:
		if (c == '\\') {
			g->state = GROUND_TEXT;
			return;
		}
		g->state = GROUND_ESCAPE; /* any other sequence ends the string too */
		escape(g, c);
		return;
	case GROUND_TEXT:
	case GROUND_STATE_COUNT:
		break;
	}
	text(g, c);
}

/* Text needs no step but at its end: what begins a sequence is looked for by memrchr, so that a large
 * output costs next to nothing. */
static size_t text_skip(const uint8_t *buf, size_t len)
{
	const uint8_t *esc = memchr(buf, ESC, len);

	if (esc)
		return (size_t)(esc - buf);
	return len > 3 ? len - 3 : 0; /* a character of four bytes may have begun */
}

void ground_pass(struct ground *g, const void *buf, size_t len)
{
	const uint8_t *p = buf;

	for (size_t i = 0; i < len; i++) {
		if (g->state == GROUND_TEXT && (i += text_skip(p + i, len - i)) >= len)
			return;
		step(g, p[i]);
	}
}

size_t ground_find(const struct ground *g, const void *buf, size_t len)
{
	struct ground at = *g;
	const uint8_t *p = buf;
	size_t i = 0;

	for (; i < len && !ground_is(&at); i++)
		step(&at, p[i]);
	return i;
}
