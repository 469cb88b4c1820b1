/* SPDX-License-Identifier: ISC */
/* policy/internal.h - what the files of policy/ share and nobody else sees.
 * Life of a line: lexer (words) -> parser (struct line) -> merge (rules, grants, settings, index)
 * -> match. Everything of one policy lies in one arena and goes with it. */
#ifndef WEIR_POLICY_INTERNAL_H
#define WEIR_POLICY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/msg.h"
#include "policy/policy.h"

#define POLICY_LINE_MAX 4096	/* bytes of one line, without its LF */
#define POLICY_RULES_MAX 100000 /* lines with a rule, all layers together */
#define POLICY_WORDS_MAX 16	/* words of one line */
#define POLICY_PORTS_MAX 64	/* ports and ranges of one rule */

/* ---- memory: arena.c ---- */

struct arena_block;
struct arena {
	struct arena_block *top;
};
/** arena_get() - zeroed, aligned for any object. Return: NULL when memory is out */
void *arena_get(struct arena *a, size_t bytes);
char *arena_str(struct arena *a, const char *s, size_t len);
void arena_free(struct arena *a);

/* ---- words: lexer.c ---- */

struct word {
	const char *s; /* NUL-terminated */
	size_t len;
	unsigned column; /* 1-, in bytes */
	bool quoted;
};
struct words {
	struct word w[POLICY_WORDS_MAX];
	size_t n;
	size_t comment; /* where the line's comment begins; its length when it has none */
	char text[POLICY_LINE_MAX + 1]; /* the words, one space between, as written */
	char room[POLICY_LINE_MAX + POLICY_WORDS_MAX + 1];
};
/** struct place - where the parser stands, for its messages */
struct place {
	const char *file;
	unsigned line; /* 0: a flag, which has neither line nor column */
	enum policy_layer layer;
	char *shared_file;		    /* @file in the arena, for every origin that names it */
	const struct policy_preset *preset; /* the preset that this text is, or NULL */
};
/** lex_line() - cut one line into words; a comment starts with '#' at the start of a word.
 * Return: 0, or -EINVAL with FILE:LINE:COLUMN in @e */
int lex_line(const struct place *at, const char *line, size_t len, struct words *out,
	     struct err *e);
/** place_error() - "FILE:LINE:COLUMN: …" or "FLAG: …". Return: -EINVAL */
int place_error(const struct place *at, unsigned column, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- names and targets: target.c, pattern.c ---- */

enum name_fault {
	NAME_OK,
	NAME_EMPTY,
	NAME_TOO_LONG,
	NAME_LABEL_EMPTY,
	NAME_LABEL_TOO_LONG,
	NAME_HYPHEN,
	NAME_BYTE,    /* a byte that no name has */
	NAME_NUMERIC, /* the last label is a number, but the whole is no canonical address */
	NAME_FAULT_COUNT
};
/** name_canon() - one ASCII host name of @len bytes to its canonical spelling; an IPv4 address is
 * NAME_NUMERIC here: ask addr_parse() first */
enum name_fault name_canon(const char *in, size_t len, char out[HOST_MAX + 1]);
/** name_fault_text() - "has an empty label", … */
const char *name_fault_text(enum name_fault f);

struct port_range {
	uint16_t low, high;
};
enum pattern_kind {
	PATTERN_EXACT,	/* a.b */
	PATTERN_SUFFIX, /* .a.b: the name and everything below it */
	PATTERN_BELOW,	/* *.a.b: only what is below it */
	PATTERN_ANY,	/* * */
	PATTERN_NET	/* an address or network */
};
struct policy_pattern {
	enum pattern_kind kind;
	bool all_ports;
	uint8_t nports;
	uint8_t name_len;
	struct port_range *ports;
	char *name; /* without the leading "." or "*." */
	struct addr_net net;
	uint32_t hash, order;	  /* merge.c: later rules have the higher order */
	struct policy_rule *same; /* merge.c: the next rule in this slot of the index */
};
/** pattern_parse() - a target as policy text has it
 * @checked: false for presets, whose names are known to be good
 * Return: 0, or -EINVAL / -ENOMEM */
int pattern_parse(struct arena *a, const struct place *at, const struct word *w,
		  enum policy_verdict verdict, bool checked, struct policy_pattern **out,
		  struct err *e);
bool pattern_has_port(const struct policy_pattern *p, uint16_t port);
/** pattern_same() - the same hosts or addresses, whatever the ports */
bool pattern_same(const struct policy_pattern *a, const struct policy_pattern *b);
enum ports_relation { PORTS_APART, PORTS_OVERLAP, PORTS_COVERED, PORTS_SAME };
/** pattern_ports() - how the ports of @a lie to those of @b; PORTS_COVERED: all of @a are in @b */
enum ports_relation pattern_ports(const struct policy_pattern *a, const struct policy_pattern *b);
/** pattern_ports_format() - ":443,8000-8010", "" where they are the default of @verdict */
#define PORTS_TEXT_MAX (POLICY_PORTS_MAX * 12 + 2)
const char *pattern_ports_format(const struct policy_pattern *p, enum policy_verdict verdict,
				 char buf[PORTS_TEXT_MAX]);
/** pattern_format() - "*.example.org", "10.1.0.0/16", "[fd00::/8]" without ports */
#define PATTERN_TEXT_MAX (HOST_MAX + 3)
const char *pattern_format(const struct policy_pattern *p, char buf[PATTERN_TEXT_MAX]);

/* ---- lines: parser.c ---- */

enum keyword {
	KEY_ALLOW,
	KEY_DENY,
	KEY_ASK,
	KEY_INCLUDE,
	KEY_NETWORK,
	KEY_READ,
	KEY_WRITE, /* write! too */
	KEY_HIDE,
	KEY_DOTFILE,
	KEY_SOCKET,
	KEY_DEVICE,
	KEY_ENV,
	KEY_LIMIT,
	KEY_ASK_TIMEOUT,
	KEY_AUDIT,
	KEY_ON_UNAVAILABLE,
	KEY_ROUTE,
	KEY_VIEW,
	KEY_HOME,
	KEY_NESTED,
	KEY_CACHE,
	KEY_UPSTREAM,
	KEY_PUBLISH,
	KEY_REACH,
	KEY_LOCK,
	KEY_COUNT
};
enum setting {
	SET_NETWORK,
	SET_ROUTE,
	SET_VIEW,
	SET_HOME,
	SET_NESTED,
	SET_CACHE,
	SET_ON_UNAVAILABLE,
	SET_CONNECTIONS,
	SET_IDLE,
	SET_ASK_TIMEOUT,
	SET_PIDS,
	SET_MEMORY,
	SET_CPU,
	SET_AUDIT_SINK,
	SET_AUDIT_REQUIRED,
	SET_AUDIT_CLIENT,
	SET_UPSTREAM,
	SET_COUNT
};
/** struct line - one parsed line that says something */
struct line {
	struct policy_origin origin;
	const struct policy_preset *from; /* the preset it stands in, or NULL */
	enum keyword key;
	unsigned column; /* of its second word */
	union {
		struct policy_rule rule;
		struct policy_grant grant;
		struct policy_env env;
		struct policy_forward forward;
		const struct policy_preset *preset;
		struct {
			enum setting what;
			unsigned number;
			const char *word;
			struct policy_upstream *upstream;
		} set;
		struct {
			enum keyword key;
			struct line *value; /* "lock network deny": the line "network deny" */
		} lock;
	} u;
	const struct line *locked_by; /* merge.c: struck */
	const struct line *repeats;   /* lint.c: an earlier line says the same */
	const struct line *dead_by;   /* lint.c: a deny line leaves nothing of this one */
	struct line *next;
};
struct line_list {
	struct line *first, **last;
};

const char *keyword_name(enum keyword k);
const char *setting_name(enum setting s); /* "network", "limit connections", … */
/** parse_text() - every line of @text into @to */
int parse_text(struct policy *p, const struct place *at, const char *text, size_t len,
	       struct line_list *to, struct err *e);
/** parse_flag() - one line from the command line; @at names the flag */
int parse_flag(struct policy *p, const struct place *at, const char *keyword, const char *value,
	       struct line_list *to, struct err *e);
/** preset_find() - Return: NULL when no preset has that name */
const struct policy_preset *preset_find(const char *name);

/* ---- publish and reach lines: forward.c ---- */

/** forward_parse() - @w: the @n words of the line; @f->kind is set */
int forward_parse(const struct place *at, const struct word *w, size_t n, struct policy_forward *f,
		  struct err *e);

/* ---- the upstream line: upstream.c ---- */

struct policy_except {
	struct policy_pattern *pattern;
	struct policy_except *next;
};
/** upstream_parse() - @w: the @n words of the line. No message holds the URL */
int upstream_parse(struct policy *p, const struct place *at, const struct word *w, size_t n,
		   struct policy_upstream **out, struct err *e);
/** upstream_redact() - the line's text without its credentials */
char *upstream_redact(struct arena *a, const char *text);

/* ---- the whole: merge.c ---- */

struct policy {
	struct arena arena;
	struct policy_context ctx;
	struct line_list lines[LAYER_COUNT];
	size_t nlines;
	bool sealed, live, no_user_file;

	const struct line *locks[KEY_COUNT];
	const struct line *set[SET_COUNT]; /* the line that decides, NULL: the default */
	const struct line *no_default;	   /* the "include none" in force */
	struct policy_rule *rules, **rules_end;
	struct policy_grant *grants, **grants_end;
	struct policy_grant *dotfiles, **dotfiles_end;
	struct policy_env *envs, **envs_end;
	struct policy_forward *forwards, **forwards_end;

	struct policy_rule **index; /* power of two slots, chained through pattern->same */
	uint32_t index_mask;
	struct policy_rule *any;	     /* the rules for "*" */
	uint64_t prefixes4[1], prefixes6[3]; /* bit i: some rule has this prefix length */
	bool has_nets;
};

/** name_hash_step() - the hash of a name is built from its last byte to its first, so that one pass
 * gives the hash of every suffix */
#define NAME_HASH_START 2166136261u
static inline uint32_t name_hash_step(uint32_t h, char c)
{
	return (h ^ (uint8_t)c) * 16777619u;
}
uint32_t net_hash(const struct addr_net *n);

/** text_add() - append printf text to @buf of @room bytes; cut, never overrun. Return: bytes now */
size_t text_add(char *buf, size_t room, size_t at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
