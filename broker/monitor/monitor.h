/* SPDX-License-Identifier: ISC */
/* broker/monitor/monitor.h - what the command line hands to the monitor */
#ifndef WEIR_BROKER_MONITOR_MONITOR_H
#define WEIR_BROKER_MONITOR_MONITOR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct forward;
struct policy;
struct sandbox_plan;
struct target;

#define RUN_ID_LEN 12 /* lower-case hex */

enum tty_mode { TTY_AUTO, TTY_ALWAYS, TTY_NEVER };

/** struct run_answer - what a person said that is to be kept: a line of the policy */
struct run_answer {
	const struct target *target; /* exactly this host and port */
	bool deny, project;	     /* project: for this project, else in the user's file */
	bool is_private, no_sni;
};

struct run {
	struct policy *policy;	   /* sealed; stays the caller's */
	struct sandbox_plan *plan; /* complete but for tty, and stdio[], which the monitor replaces
				    * by pipes where a terminal stays outside */
	char id[RUN_ID_LEN + 1];
	const char *name;	   /* --name, or NULL */
	const char *audit_path;	   /* default or from policy; NULL: no file */
	const char *audit_default; /* for an edit of the policy that names no other; may be NULL */
	bool audit_off;		   /* records go nowhere */
	const char *command;	   /* argv[0], for messages */
	int status_fd;		   /* --status-fd, or -1 */
	pid_t launcher;	     /* our parent, whose end is the sandbox's; 0: it may end before */
	enum tty_mode tty;   /* --tty */
	const char *project; /* P, for who asks; or NULL */
	const char *runtime; /* directory of the runtime entries; NULL: no entry is made */
	const char *config;  /* the user's policy directory, made when missing; or NULL */
	/* a policy that is edited while the sandbox runs; NULL: it stays as it is. reload() reads the
	 * layers anew (layers.h, layers_reload()) and hands over a sealed policy; files() lists what
	 * to watch, NULL-terminated: the list and each path are for free(). Both run behind the lock. */
	int (*reload)(void *live, void (*tell)(void *arg, const char *text), void *arg,
		      struct policy **out, struct err *e);
	char **(*files)(void *live);
	/* put it into its file, also behind the lock; NULL: this sandbox reads no such file. open() makes
	 * ready for it before the lock. Return: 0, or -errno with @e */
	int (*keep)(void *live, const struct run_answer *a, struct err *e);
	void (*keep_open)(void *live);
	const char *keep_user, *keep_project; /* the two files, for people */
	void *live;
	/* weir proxy: no sandbox, but listeners made by the command line */
	const char *listen; /* as typed, for messages and the log; NULL: there is a sandbox */
	int listen_fd;
	const char *secret; /* what each client must prove (TCP), or NULL */
	int (*serving)(const struct run *run, struct err *e); /* tell where it listens */
	/* publish and reach lines in force, with the listeners of the former; the array stays the
	 * caller's, the listeners are the monitor's */
	struct forward *forwards;
	size_t nforwards;
	bool quiet, verbose;
	/* sandbox_start() of @sandbox, nursery_start(), guard_start(): the monitor is linked with none, so
	 * that no call of its own reaches their folders. @sock and @pidfd are then the monitor's */
	void *sandbox;
	int (*sandbox_start)(void *sandbox, const struct sandbox_plan *plan, int *sock, pid_t *pid,
			     int *pidfd, struct err *e);
	void (*sandbox_explain)(
		struct err *e); /* may be NULL: what only the host's namespaces show */
	int (*nursery_start)(int sock, pid_t *pid, int *pidfd, struct err *e);
	int (*guard_start)(int sock, pid_t *pid, int *pidfd,
			   struct err *e); /* no worker is wanted */
};

/**
 * monitor_main() - start the other processes, serve until CMD has ended, clean up
 * Prints nothing but run-time notices; errors come back in @e.
 *
 * Return: CMD's exit status (128+N for a signal), 126/127/125 with @e filled in when CMD did not
 *	   run */
int monitor_main(struct run *run, struct err *e);

#endif
