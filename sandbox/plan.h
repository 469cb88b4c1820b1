/* SPDX-License-Identifier: ISC */
/* sandbox/plan.h - everything the launch needs, decided and opened before anybody can see anything of it.
 * Filled by broker/cli/plan.c in the monitor-to-be, read by the sandbox's first process, which got it by
 * sandbox/handover.h. Descriptors pin what was judged: a mount namespace cannot clone the mounts of
 * another one, so that process opens each path anew and goes on only where it finds the very same file,
 * which the descriptor keeps from being another one under the same number. */
#ifndef WEIR_SANDBOX_PLAN_H
#define WEIR_SANDBOX_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <termios.h>
#include <time.h>

#include "common/addr.h"

/** struct plan_pin - which file a descriptor held when it was judged; type: S_IFMT of its mode */
struct plan_pin {
	dev_t dev;
	ino_t ino;
	mode_t type;
};

/** struct plan_grant - one directory or file of the host that appears inside */
struct plan_grant {
	int fd;			     /* O_PATH, opened once by openat2; what is mounted is this */
	struct plan_pin pin;	     /* of fd; this and the others are filled by handover_give() */
	char *path;		     /* canonical: where it is mounted */
	bool write, is_dir, overlay; /* overlay: read-only through credential whiteouts */
	bool guard;		     /* of P's repository: nobody asked for it */
	bool socket, device;	     /* one unix socket; one node of a device */
	bool host;		     /* of view host, no line of a policy */
};
/** struct plan_link - a symlink re-created inside, so that the user's spelling works */
struct plan_link {
	char *path, *target;
};

/** struct plan_file - to copy into the home directory or /tmp inside; @name relative to it */
struct plan_file {
	char *name, *text;
	size_t len;
	mode_t mode;
};

/** struct plan_tty - a terminal of the sandbox's own in place of the user's */
struct plan_tty {
	bool on[3];	 /* which of 0, 1, 2 it becomes; none: there is no terminal inside */
	bool control;	 /* it is the controlling terminal: job control, /dev/tty */
	bool foreground; /* CMD has it from the start; else CMD is stopped when it reads */
	bool has_modes;	 /* @modes are set; else they are the kernel's usual ones */
	struct termios modes;
	struct winsize size;
};

/* the parts of the host's tree in view host, what the policy grants, and the guarded parts of P's
 * repository */
#define PLAN_GRANTS_MAX 512
/** struct plan_mask - what a hide line names below a tree that is shown as it is */
struct plan_mask {
	char *path;	    /* canonical */
	bool there, is_dir; /* when the plan was made; the monitor follows it */
	bool strict;	    /* the command ends when the name comes back */
	dev_t dev;
	ino_t ino;
	struct timespec changed; /* st_ctim: a number that is used anew has a later one */
};

#define PLAN_MASKS_MAX 64
#define PLAN_LINKS_MAX 256
#define PLAN_HIDDEN_MAX 4096
#define PLAN_KEEP_MAX 64
#define PLAN_REACH_MAX 16
#define PLAN_NETS_MAX 64
#define PLAN_PORTS_MAX 24
#define PLAN_MACHINE_ID_LEN 32
#define PLAN_OWN_PROCESSES 2   /* of the sandbox, not of the command: pid 1 and the keeper */
#define SANDBOX_KEEPER_PID "2" /* what getppid(2) says in CMD: pid 1 forks the keeper first */

struct sandbox_plan {
	bool view_host; /* the grants show the host's tree, the home directory too */
	bool net_host;	/* network allow: stay in the host's network namespace */
	bool nested;	/* the command may make namespaces and mounts of its own */
	bool listeners; /* network allowlist, not route transparent: make 127.0.0.1:3128 and [::1]:3128 */
	uint16_t reach[PLAN_REACH_MAX]; /* ports to listen on besides, each for a reach line */
	size_t nreach;
	bool transparent; /* network allowlist, not route proxy: names resolve, connections are redirected */
	bool route_optional; /* nobody asked for @transparent: where it cannot be, @listeners do alone */
	struct addr_net *nets; /* of the address rules: they get a route */
	size_t nnets;
	uint16_t *ports; /* of the policy, where packets cannot be redirected; ascending */
	size_t nports;
	char *ports_wide; /* the rule that opens more than PLAN_PORTS_MAX, as a message names it; or NULL */
	uid_t uid;
	gid_t gid;
	char *user, *group; /* names for passwd and group inside */
	char *shell;
	char *home;		    /* canonical $HOME; a private tmpfs inside */
	struct plan_file *dotfiles; /* copied into it */
	size_t ndotfiles;
	struct plan_file tmp_file; /* one to copy into /tmp inside, or name NULL */
	char *kept_home;	   /* home keep: the host's directory, canonical; NULL: private */
	int kept_home_fd;	   /* O_RDONLY, shared lock held: `cache prune` leaves it; or -1 */
	char *cache;		   /* what ~/.cache is inside, likewise; NULL: gone at the end */
	int cache_fd;
	char *hostname;
	char machine_id[PLAN_MACHINE_ID_LEN + 1];
	char *project;	    /* canonical P, NULL when it may not be shared */
	int project_fd;	    /* O_PATH, or -1 */
	bool project_write; /* false: read-only, through an overlay with whiteouts */
	bool git_pinned;    /* P/.git is among the grants, so that nobody inside can rename it */
	char *gitdir;  /* P's git directory outside P, where the command may write; NULL: none */
	int gitdir_fd; /* O_PATH, or -1 */
	char *cwd;     /* absolute, as the command sees it; the user's spelling */
	struct plan_grant *grants; /* sorted by path: a parent before what lies beneath it */
	size_t ngrants;
	struct plan_link *links;
	size_t nlinks;
	char **hidden; /* canonical paths that no overlay may show */
	size_t nhidden;
	struct plan_mask *masks;
	size_t nmasks;
	char **java; /* net.properties below /etc that name the proxy inside; NULL: none */
	char *hosts; /* text of /etc/hosts inside */
	char **argv; /* CMD and its arguments */
	bool prompt; /* weir shell: the files that mark the prompt */
	char **envp; /* the environment inside, complete */
	/* the same where route_optional comes to pass; NULL: as it is */
	char **envp_alone;
	char *cmd_host; /* where the host has CMD, when that is not visible inside; or NULL */
	char *cmd_interp; /* the interpreter of CMD's first line, when the host has it and the inside has not */
	const char *cmd_secret; /* what is there that no grant can show, or NULL; static */
	int stdio[3];		/* what becomes 0, 1, 2 where tty.on does not say otherwise; >= 0 */
	struct plan_tty tty;
	int *keep_fds; /* kept under their own numbers, all > 2 */
	size_t nkeep;
	unsigned
		limit_pids; /* of the command's processes, where the kernel counts those of a user namespace; 0: none */
	unsigned limit_memory_mib; /* of each process's data; 0: none */
	int cgroup_fd; /* cgroup.procs of the sandbox's own cgroup, or -1: it stays in weir's */
	int exe_fd;    /* weir's own program: /run/weir/weir */
	char *exe;     /* its path on the host */
	struct plan_pin project_pin, kept_home_pin, cache_pin, exe_pin;
};

/** plan_is_brokered() - network allowlist: does a worker serve this sandbox? */
static inline bool plan_is_brokered(const struct sandbox_plan *p)
{
	return p->listeners || p->transparent;
}
/** plan_has_own_stdio() - CMD has 0, 1 and 2 of the `weir` command itself */
static inline bool plan_has_own_stdio(const struct sandbox_plan *p)
{
	return p->stdio[0] == 0 && p->stdio[1] == 1 && p->stdio[2] == 2;
}
/** plan_init() - an empty plan: no descriptor, so that plan_free() may follow at any time */
void plan_init(struct sandbox_plan *p);
/** plan_free() - close and free all of it but stdio[] and keep_fds' descriptors */
void plan_free(struct sandbox_plan *p);

#endif
