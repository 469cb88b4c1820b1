/* SPDX-License-Identifier: ISC */
/* broker/cli/visible.c - is a file of the host there inside, too?
 * Runs in the command's own process, on a plan that is being made. */
#include "broker/cli/visible.h"

#include <limits.h>
#include <stdlib.h>

#include "broker/cli/places.h"
#include "common/scope.h"
#include "sandbox/plan.h"

bool hidden_is(const struct sandbox_plan *p, const char *path)
{
	for (size_t i = 0; i < p->nhidden; i++)
		if (path_within(path, p->hidden[i]))
			return true;
	return false;
}

bool visible_always(const char *path)
{
	static const char *const always[] = { "/usr",	"/bin",	   "/sbin", "/lib",	 "/lib32",
					      "/lib64", "/libx32", "/etc",  "/nix/store" };

	for (size_t i = 0; i < ARRAY_LEN(always); i++)
		if (path_within(path, always[i]))
			return true;
	return false;
}

bool visible(const struct sandbox_plan *p, const char *path)
{
	char real[PATH_MAX];

	if (!realpath(path, real))
		return false;
	for (size_t i = 0; i < p->nmasks; i++)
		if (path_within(real, p->masks[i].path))
			return false;
	if (visible_always(real))
		return true;
	if (p->project && path_within(real, p->project))
		return p->project_write || !hidden_is(p, real);
	for (size_t i = 0; i < p->ngrants; i++)
		if (path_within(real, p->grants[i].path))
			return p->grants[i].write || !hidden_is(p, real);
	return false;
}
