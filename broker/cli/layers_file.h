/* SPDX-License-Identifier: ISC */
/* broker/cli/layers_file.h - read one policy file, once its owner and mode were looked at */
#ifndef WEIR_BROKER_CLI_LAYERS_FILE_H
#define WEIR_BROKER_CLI_LAYERS_FILE_H

#include <stddef.h>

struct err;

/**
 * layers_read_guarded() - the administrator's or the user's own policy file
 * The file, each symlink on the way (at most 8) and the directory of each must belong to the user
 * or root and be writable by nobody else; the file must be regular and at most LAYERS_FILE_MAX.
 * What was checked is what is read: every step goes by descriptor.
 * @text: for free(); not a string: a NUL may be inside
 *
 * Return: 0, -ENOENT when there is no such file (@e is not for printing then), or -errno */
int layers_read_guarded(const char *path, char **text, size_t *len, struct err *e);

#endif
