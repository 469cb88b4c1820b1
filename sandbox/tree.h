/* SPDX-License-Identifier: ISC */
/* sandbox/tree.h - the mount tree of a sandbox, built by descriptors and entered by pivot_root */
#ifndef WEIR_SANDBOX_TREE_H
#define WEIR_SANDBOX_TREE_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/msg.h"

struct err;
struct plan_pin;
struct sandbox_plan;
struct tree;

/**
 * tree_begin() - what is the same in every tree of a view: the system's directories, /var, /dev, /proc
 * Call in a mount namespace of one's own, with all capabilities over it, as pid 1 of its own pid
 * namespace.
 * @uid, @view_host: as in the plan
 * @pts: a devpts to mount on /dev/pts, the caller's; -1: a fresh one
 * Return: 0, or -errno with @e: the caller must end, the tree is half made */
int tree_begin(struct tree *t, uid_t uid, bool view_host, int pts, struct err *e);

/**
 * tree_enter() - build the rest of the tree, @plan's, and make it this process's root
 * After it the host's tree lies on the new root and no path but "/.." leads there: tree_leave() comes
 * next, before anything runs that is not weir's. @t keeps nothing but what is the caller's from now on:
 * proc, an O_RDONLY directory descriptor of the new /proc, and picks, descriptors of fspick(2) of
 * overlays that may be made to look anew.
 * @before: called with @arg before /sys is made: enters the network namespace that it shows
 *
 * Return: 0, or -errno with @e: the caller must end, the tree is half made */
int tree_enter(struct tree *t, const struct sandbox_plan *plan,
	       int (*before)(void *arg, struct err *e), void *arg, struct err *e);

/** tree_drop() - close what tree_begin() opened, in a process that was forked since and makes no tree */
void tree_drop(const struct tree *t);

/**
 * tree_leave() - take the host's tree away, by the process that called tree_enter()
 * The kernel does so at once and then waits until nobody can be looking, often for longer than the
 * whole tree took to build: whoever waits for the host's tree to be gone asks tree_left().
 * Return: 0, or -errno with @e */
int tree_leave(struct err *e);
/** tree_left() - is nothing mounted on this process's root directory any more? */
bool tree_left(void);

/* ---- for sandbox/etc.c and sandbox/tree*.c ---- */

/** struct tree - under construction
 * @stage: one tmpfs, mounted where the host's tree hides it: the root directory, the private
 *	   directories and the upper layers of the overlays are directories of it, each mounted or
 *	   layered by itself, so that none can be reached from another
 * @root:  its directory "root", mounted: the new root */
struct tree {
	const struct sandbox_plan *plan; /* tree_enter()'s */
	uid_t uid;			 /* tree_begin()'s, like the next two */
	bool view_host;
	int pts;
	int stage, root;
	dev_t dev;	      /* of the tmpfs */
	int picks[TREES_MAX]; /* fspick(2) of the overlays over trees of the host */
	size_t npicks;
	dev_t home_dev;	 /* of the home directory inside: the same, unless it is kept */
	int proc;	 /* the new /proc, O_RDONLY */
	unsigned layers; /* made so far */
};

/** tree_dir() - open a directory below @at, making what is missing, never through a symlink.
 * Return: an O_PATH descriptor the caller owns, or -errno with @e */
int tree_dir(int at, const char *path, mode_t mode, struct err *e);
/** tree_file() - make an empty file below @at where there is none: a place to mount on.
 * Return: an O_PATH descriptor the caller owns, or -errno with @e */
int tree_file(int at, const char *path, struct err *e);
/* tree_write(), tree_whiteout(): below a directory of the stage that the command never gets to write,
 * so that no path in it is anybody else's. Missing parents are made. */
/** tree_write() - write a small file below @at. Return: 0, or -errno with @e */
int tree_write(int at, const char *path, mode_t mode, const char *text, struct err *e);
/** tree_whiteout() - hide what a lower layer may have at @path. Return: 0, or -errno with @e */
int tree_whiteout(int at, const char *path, struct err *e);
/** tree_hide() - hide @path of @lower; where @lower has no such parent directory (or a link), hide the
 * parent: should it appear later, what is in it does not. Return: 0, or -errno with @e */
int tree_hide(int layer, int lower, const char *path, struct err *e);
/** tree_fs() - a new file system of @type, not mounted yet
 * @opts: pairs of name and value (NULL: a flag), the last with name NULL; or NULL
 * Return: a mount descriptor, the caller's, or -errno with @e */
int tree_fs(const char *type, const char *const opts[][2], unsigned attr, struct err *e);
/** tree_layer() - a fresh, empty directory for an overlay. Return: descriptor, or -errno */
int tree_layer(struct tree *t, struct err *e);
/** tree_overlay() - mount @lower read-only at the open place @on, with @layer on top of it
 * Return: 0; -EINVAL without @e when @lower has mounts beneath it, or overlay is not there;
 *	   else -errno with @e */
int tree_overlay(int layer, int lower, int on, const char *name, struct err *e);
/** tree_pinned() - open @path in this namespace and make sure it is what @pin was when it was judged.
 * Return: an O_PATH descriptor the caller owns, or -errno with @e */
int tree_pinned(const char *path, const struct plan_pin *pin, struct err *e);
/** tree_bind() - clone the open @source with all beneath it and mount it at the open place @on
 * @attr: MOUNT_ATTR_… to set. Return: 0, or -errno with @e */
int tree_bind(int source, int on, unsigned long long attr, const char *name, struct err *e);

#endif
