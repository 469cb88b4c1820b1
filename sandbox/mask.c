/* SPDX-License-Identifier: ISC */
/* sandbox/mask.c - empty files and directories over what a hide line names in a writable tree.
 * The place is reached without following a link and must be what the plan saw. A mask holds against
 * the command; the host takes it away by replacing the name, which the monitor watches. */
#include "sandbox/mask.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"
#include "sandbox/tree.h"

#define MASK_FILE "layer/masked"

/* There is nothing in either. */
static int cover_open(struct tree *t, bool is_dir, struct err *e)
{
	if (is_dir)
		return tree_layer(t, e);
	if (faccessat(t->stage, MASK_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		SCOPED_FD int dir = tree_dir(t->stage, "layer", 0755, e);
		int r = dir < 0 ? dir : tree_write(t->stage, MASK_FILE, 0, "", e);

		if (r < 0)
			return r;
	}
	return tree_file(t->stage, MASK_FILE, e);
}

static int mask_mount(struct tree *t, const struct plan_mask *m, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
					   RESOLVE_BENEATH };
	SCOPED_FD int on = (int)syscall(SYS_openat2, t->root, m->path + 1, &how, sizeof(how));
	SCOPED_FD int from = -1;
	struct stat st;

	if (on < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "hide '%s'", m->path);
	if (fstat(on, &st) < 0 || st.st_dev != m->dev || st.st_ino != m->ino ||
	    S_ISDIR(st.st_mode) != m->is_dir)
		return err_set(e, 0, "'%s' was replaced while the sandbox was being made", m->path);
	if ((from = cover_open(t, m->is_dir, e)) < 0)
		return from;
	return tree_bind(from, on,
			 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
				 MOUNT_ATTR_NOEXEC,
			 m->path, e);
}

int masks_mount(struct tree *t, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < t->plan->nmasks && r == 0; i++)
		if (t->plan->masks[i].there)
			r = mask_mount(t, &t->plan->masks[i], e);
	return r;
}
