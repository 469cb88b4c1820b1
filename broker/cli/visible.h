/* SPDX-License-Identifier: ISC */
/* broker/cli/visible.h - is a file of the host there inside, too? */
#ifndef WEIR_BROKER_CLI_VISIBLE_H
#define WEIR_BROKER_CLI_VISIBLE_H

#include <stdbool.h>

struct sandbox_plan;

/** visible_always() - does @path, as it is spelled, lie in a directory that every sandbox has? */
bool visible_always(const char *path);
/** hidden_is() - is the canonical @path one that no overlay shows, or in one? */
bool hidden_is(const struct sandbox_plan *p, const char *path);
/** visible() - is @path, which exists on the host, there inside too? By its canonical path, and by the
 * grants of @p so far */
bool visible(const struct sandbox_plan *p, const char *path);

#endif
