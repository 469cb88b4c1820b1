/* SPDX-License-Identifier: ISC */
/* policy/policy.h - policy text in, verdicts out. Pure: same input, same answer; no clock, no
 * network, no environment but what is handed in. Enforcement and explanation are one function. */
#ifndef WEIR_POLICY_POLICY_H
#define WEIR_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../common/addr.h"
#include "../common/reason.h"

struct err;
struct target;

/** Layers, lowest first; ties between equally specific rules go to the later one. */
enum policy_layer {
	LAYER_BUILTIN,
	LAYER_ADMIN,   /* /etc/weir/policy */
	LAYER_USER,    /* $XDG_CONFIG_HOME/weir/policy */
	LAYER_ANSWERS, /* answers kept for this project */
	LAYER_PROJECT, /* .weir/policy, only when trusted */
	LAYER_FILE,    /* -p FILE, in the order given */
	LAYER_FLAG,
	LAYER_COUNT
};

enum policy_network { NETWORK_DENY, NETWORK_ALLOWLIST, NETWORK_ALLOW };
enum policy_route { ROUTE_PROXY, ROUTE_TRANSPARENT, ROUTE_BOTH };
enum policy_verdict { POLICY_DENY, POLICY_ALLOW, POLICY_ASK };
enum policy_audit_sink { AUDIT_FILE, AUDIT_SYSLOG, AUDIT_JOURNAL, AUDIT_OFF };
enum policy_unavailable { UNAVAILABLE_ERROR, UNAVAILABLE_WARN, UNAVAILABLE_ALLOW };
enum policy_view { VIEW_PROJECT, VIEW_HOST };
enum policy_home { HOME_PRIVATE, HOME_KEEP };
enum policy_cache { CACHE_KEEP, CACHE_OFF };

/** struct policy_origin - where a line stands: "FILE:LINE" in every message about it */
struct policy_origin {
	enum policy_layer layer;
	char *file;    /* path; "--allow" for a flag; "builtin"; preset rules: "preset python" */
	unsigned line; /* 1-; 0 for a flag */
	char *text;    /* the line as written, without comment, single-spaced */
};

/** struct policy_rule - one allow, deny or ask line */
struct policy_rule {
	enum policy_verdict verdict;
	const struct policy_origin *origin;
	bool is_private, no_sni;
	/* opaque to others: pattern and ports */
	struct policy_pattern *pattern;
	struct policy_rule *next;
};

/** struct policy_grant - one read, write, hide, socket or device line; @path is absolute, not yet
 * canonical, or "gpu". Of a dotfile line: relative to the home directory, no ".." in it */
struct policy_grant {
	enum policy_grant_kind {
		GRANT_READ,
		GRANT_WRITE,
		GRANT_HIDE,
		GRANT_SOCKET,
		GRANT_DEVICE,
		GRANT_DOTFILE
	} kind;
	bool force;    /* write! */
	bool strict;   /* hide … strict: the command ends when the host brings the name back */
	bool inactive; /* its variable is unset or its path is missing: shown, not used */
	char *path;
	const struct policy_origin *origin;
	struct policy_grant *next;
};

/** struct policy_env - one env keep or env set line */
struct policy_env {
	bool set;
	char *name, *value; /* value NULL for keep */
	const struct policy_origin *origin;
	struct policy_env *next;
};

/** struct policy_forward - one publish or reach line
 * @addr: publish: where the host listens. reach: where the host is dialled, 127.0.0.1
 * @port: publish: of the host, 0: any. reach: of the sandbox
 * @to:   publish: of the sandbox. reach: of the host
 * @rule: what a record names: an allow rule that is in no index and has no pattern */
struct policy_forward {
	enum policy_forward_kind { FORWARD_PUBLISH, FORWARD_REACH } kind;
	struct addr addr;
	uint16_t port, to;
	struct policy_rule rule;
	struct policy_forward *next;
};

/** struct policy_upstream - the proxy that allowed connections go through */
struct policy_upstream {
	const char *host; /* canonical, as in struct target; NULL: none */
	bool is_addr;
	struct addr addr; /* when is_addr */
	uint16_t port;
	const char *auth; /* base64 of USER:PASSWORD, or NULL. A secret: for CONFIG alone */
	/* opaque to others: what goes direct */
	struct policy_except *except;
};

struct policy;

/** struct policy_context - what words in policy text may refer to; the caller's strings, absolute */
struct policy_context {
	const char *home;     /* ~ */
	const char *cwd;      /* relative paths and "." outside project files */
	const char *project;  /* P: the same in a project file */
	char *const *environ; /* $NAME at the start of a word; `upstream env` */
};

struct policy *policy_new(const struct policy_context *ctx);
void policy_free(struct policy *p);

/**
 * policy_add_text() - parse one file's text as a layer
 * @file: for messages. @text: @len bytes, need no NUL
 * Every line is checked; the first bad one is the error: FILE:LINE:COLUMN: 'word' … expected ….
 * A keyword or suffix word that is not enforced yet is such an error.
 *
 * Return: 0, or -EINVAL / -ENOMEM */
int policy_add_text(struct policy *p, enum policy_layer layer, const char *file, const char *text,
		    size_t len, struct err *e);
/** policy_add_flag() - one line from the command line: @flag "--allow", @keyword "allow", @value its
 * words. A path whose variable is unset is an error here. Return: as above */
int policy_add_flag(struct policy *p, const char *flag, const char *keyword, const char *value,
		    struct err *e);
/**
 * policy_seal() - add the built-in layer, apply locks, merge, index. Once, after the last add.
 * @warn: called for each notice ("… is locked by …"); may be NULL
 * Return: 0, or -EINVAL (a locked flag, a contradiction such as audit off after audit required) */
int policy_seal(struct policy *p, void (*warn)(void *arg, const char *text), void *arg,
		struct err *e);

/** policy_live() - before policy_seal(): the sandbox runs already, so a flag that is locked by now and
 * an audit line that the administrator's "audit required" rules out are struck instead of refused */
void policy_live(struct policy *p);
/** policy_without_user_file() - the user's own file is left out, so that no remedy names it */
void policy_without_user_file(struct policy *p);
/**
 * policy_lint() - find lines that say nothing new and allow lines that a deny line leaves nothing of
 * After policy_seal(); policy_show() then says so too. Presets' lines are not looked at.
 * @tell: called for each, may be NULL
 * Return: how many were found */
size_t policy_lint(struct policy *p, void (*tell)(void *arg, const char *text), void *arg);

/**
 * policy_check_grants() - mark the grants that @exists says are not there
 * A file's read or write grant becomes inactive; the first one of a flag is an error.
 * Return: 0, or -EINVAL with @e filled in */
int policy_check_grants(struct policy *p, bool (*exists)(const char *path), struct err *e);

/* What the merge gave; valid after policy_seal(). */
enum policy_network policy_network(const struct policy *p);
enum policy_route policy_route(const struct policy *p); /* default: both */
/* false: nobody asked for the route that policy_route() gives, and the proxy alone will do */
bool policy_route_is_said(const struct policy *p);
const char *policy_route_name(enum policy_route r);
const struct policy_rule *policy_rules(const struct policy *p);
const struct policy_grant *policy_grants(const struct policy *p);
/** policy_dotfiles() - files of the home directory to copy besides the built-in ones */
const struct policy_grant *policy_dotfiles(const struct policy *p);
enum policy_view policy_view(const struct policy *p);
enum policy_home policy_home(const struct policy *p);
enum policy_cache policy_cache(const struct policy *p);
const struct policy_env *policy_envs(const struct policy *p);
const struct policy_forward *policy_forwards(const struct policy *p);
unsigned policy_connections(const struct policy *p);   /* limit connections, default 4096 */
unsigned policy_idle_s(const struct policy *p);	       /* limit idle, 0: none */
unsigned policy_ask_timeout_s(const struct policy *p); /* ask-timeout, default 60 */
/** policy_pids(), policy_memory_mib(), policy_cpu_percent() - limit pids, memory (MiB) and cpu (100: one
 * processor); 0: none */
unsigned policy_pids(const struct policy *p);
unsigned policy_memory_mib(const struct policy *p);
unsigned policy_cpu_percent(const struct policy *p);
enum policy_audit_sink policy_audit_sink(const struct policy *p);
const char *policy_audit_file(const struct policy *p); /* NULL: the default place */
bool policy_audit_required(const struct policy *p);
/** policy_audit_client() - is it recorded who asked for what is allowed? */
bool policy_audit_client(const struct policy *p);
enum policy_unavailable policy_unavailable(const struct policy *p);
/** policy_nested() - the line that says "nested yes", or NULL */
const struct policy_origin *policy_nested(const struct policy *p);
/** policy_upstream() - the proxy in force, or NULL */
const struct policy_upstream *policy_upstream(const struct policy *p);
/** policy_goes_upstream() - does an allowed target go through it? Not when an exception names the
 * target, and never when it is this machine (@own: the address is one of its own) */
bool policy_goes_upstream(const struct policy *p, const struct target *t, bool own);

/** struct policy_match - a verdict and why */
struct policy_match {
	enum policy_verdict verdict;
	enum reason
		reason; /* REASON_RULE, ASK, NO_RULE, DENIED, PORT, PRIVATE_ADDRESS (localhost) */
	const struct policy_rule
		*rule;		 /* the deciding one; NULL for no_rule. For PORT: the rule whose
					 * name matched but not its ports */
	bool is_private, no_sni; /* the union over every matching allow rule; of ask rules when
					 * the verdict is POLICY_ASK */
};

/** policy_match() - the verdict for a target, before any address of a name is known.
 * A target that is an address is final but for its class; *@m is always filled. */
void policy_match(const struct policy *p, const struct target *t, struct policy_match *m);
/** policy_any_port() - is there a port on which the target is not denied?
 * @t: its port is set to the lowest one. Return: false when there is none; @t is untouched */
bool policy_any_port(const struct policy *p, struct target *t);
/**
 * policy_open_ports() - every port that some rule opens, in ascending order
 * @out: room for @max; @wide: set to the first rule that opens more than all of them may be together
 * Return: how many, or -E2BIG with *@wide */
int policy_open_ports(const struct policy *p, uint16_t *out, size_t max,
		      const struct policy_rule **wide);
/** policy_open_nets() - the networks that the address rules open, each once. Return: how many are in
 * @out, which holds @max; -E2BIG: more */
int policy_open_nets(const struct policy *p, struct addr_net *out, size_t max);
/**
 * policy_judge_addr() - may this address of an allowed target be dialled?
 * @m:   from policy_match(); a target that is to be asked about is judged as if it were allowed
 * @own: @a is one of this machine's addresses (counts as loopback)
 * @by:  the rule that refuses or asks
 * For a target typed as an address, @a is that address.
 *
 * Return: REASON_NONE when it may, REASON_DENIED (a deny rule covers it), REASON_PRIVATE_ADDRESS,
 *	   REASON_ASK (an ask rule covers the address that a name leads to, and no allow rule does) */
enum reason policy_judge_addr(const struct policy *p, const struct target *t,
			      const struct policy_match *m, const struct addr *a, bool own,
			      const struct policy_rule **by);
/** policy_needs_candidates() - must the monitor see every address this target resolves to?
 * (the rule has private, or address rules exist) */
bool policy_needs_candidates(const struct policy *p, const struct policy_match *m);

/**
 * policy_change() - the one line that would change the verdict, without LF
 * @reason: REASON_RULE or REASON_NONE when it is allowed, else why not. Knows the locks.
 * Return: bytes written without the NUL */
size_t policy_change(const struct policy *p, const struct target *t, enum reason reason,
		     const struct policy_rule *rule, const struct addr *addr, char *buf,
		     size_t room);

/** struct policy_said - one rule that speaks about a target, and what became of it */
struct policy_said {
	const struct policy_rule *rule;
	enum policy_standing {
		SAID_DECIDES,
		SAID_BEATEN, /* by the deciding rule; an allow rule's suffix words count all the same */
		SAID_OTHER_PORT,
		SAID_LOCKED /* struck by an administrator's lock */
	} standing;
	const struct policy_origin *lock; /* for SAID_LOCKED */
};
/**
 * policy_matching() - every rule that names the target, the deciding one first
 * By the same walk as policy_match(); struck lines besides.
 * Return: how many are in @out, at most @max */
size_t policy_matching(const struct policy *p, const struct target *t, struct policy_said *out,
		       size_t max);
/** policy_locked() - the administrator's line that locks @keyword, or NULL */
const struct policy_origin *policy_locked(const struct policy *p, const char *keyword);
/** policy_origin_where() - "FILE:LINE", "--allow", "builtin" or "preset python:3", escaped, into @buf.
 * Return: @buf */
const char *policy_origin_where(const struct policy_origin *o, char *buf, size_t room);
/** policy_layer_name() - "builtin", "administrator", "user", … */
const char *policy_layer_name(enum policy_layer layer);

/* ---- what people type: words.c of the command line, edit.c ---- */

#define POLICY_WORDS_TEXT_MAX 1024
/**
 * policy_target_words() - an argument, which may be a URL, as the words of a policy line
 * "https://user@pypi.org/simple" is "pypi.org", "ssh://git.example:2222/x private" is
 * "git.example:2222 private", anything else is itself. Nothing of it is judged.
 * Return: 0, or -EINVAL with what to write instead */
int policy_target_words(const char *arg, char out[POLICY_WORDS_TEXT_MAX], struct err *e);
/**
 * policy_target_parse() - one host and one port as a person types them: HOST, HOST:PORT, a URL;
 * Unicode is taken. Without a port: the scheme's, else 443.
 * Return: 0, or -EINVAL / -ENOMEM with @e */
int policy_target_parse(const char *arg, struct target *t, struct err *e);

enum policy_edit_verb { EDIT_ALLOW, EDIT_DENY, EDIT_ASK, EDIT_FORGET };
#define POLICY_EDIT_COMMENT "# weir: " /* what weir itself writes behind a line begins so */
#define POLICY_EDIT_COMMENT_MAX 512
/** struct policy_edit - one change of a policy file's text */
struct policy_edit {
	enum policy_edit_verb verb;
	const char *words;   /* from policy_target_words() */
	const char *comment; /* one line to stand behind POLICY_EDIT_COMMENT; NULL: none */
	const char *file;    /* for messages */
	void (*tell)(void *arg, const char *text); /* each line taken out or put in; may be NULL */
	void *arg;
};
/**
 * policy_edit_text() - the text of a policy file with one rule more, or without one
 * Allow, deny and ask take out the other lines for the same hosts that would outweigh or be outweighed,
 * and put one line at the end unless it stands there already. Forget takes out each rule for the
 * hosts, whatever its ports, or with exactly the ports when @words names some. What
 * stood behind "#" on a line that goes becomes a line of its own; every other byte stays. The text must parse as the user's layer, before and after.
 * @out: for free()
 *
 * Return: 1 when it changed, 0 when not (@out is not set then), or -EINVAL / -ENOMEM with @e */
int policy_edit_text(const struct policy_edit *how, const char *text, size_t len, char **out,
		     size_t *out_len, struct err *e);

/** policy_rule_names() - is @r (may be NULL) for exactly this name, spelled in full? */
bool policy_rule_names(const struct policy_rule *r, const char *host);
/** policy_rule_where() - "FILE:LINE" or "--allow" into @buf. Return: @buf */
const char *policy_rule_where(const struct policy_rule *r, char *buf, size_t room);
/**
 * policy_refusal() - the three lines of a refusal: what happened; which rule, or that none matches;
 * what to type to allow it. Used for the wire, the terminal and explanation alike.
 * @p:    whose locks and layers decide what is worth typing; may be NULL
 * @addr: for REASON_PRIVATE_ADDRESS the address, may be NULL
 * Return: bytes written without the NUL; each line ends in LF */
size_t policy_refusal(const struct policy *p, const struct target *t, enum reason reason,
		      const struct policy_rule *rule, const struct addr *addr, char *buf,
		      size_t room);

/** struct policy_fixed - what no policy changes, for the end of what is shown: @list names the table it is
 * from. Ends with a NULL list */
struct policy_fixed {
	const char *list, *path, *what;
};

/** policy_holes() - each line in force that opens more than public hosts: paths, ports, devices, private
 * addresses, the host's network or view, namespaces, runs without a sandbox (weir test) */
void policy_holes(const struct policy *p,
		  void (*tell)(void *arg, const struct policy_origin *origin), void *arg);
/** policy_show() - the merged policy as text with origins (weir policy show) */
void policy_show(const struct policy *p, FILE *out);
/** policy_show_json() - the same as one JSON object. @fixed: may be NULL. Return: 0 or -ENOMEM */
int policy_show_json(const struct policy *p, const struct policy_fixed *fixed, FILE *out);
/** policy_presets() - NULL-terminated; name, one line, text */
struct policy_preset {
	const char *name, *summary, *text;
};
const struct policy_preset *policy_presets(void);

#endif
