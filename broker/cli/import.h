/* SPDX-License-Identifier: ISC */
/* broker/cli/import.h - other tools' settings as policy text */
#ifndef WEIR_BROKER_CLI_IMPORT_H
#define WEIR_BROKER_CLI_IMPORT_H

#include <stddef.h>
#include <stdio.h>

struct err;

/**
 * import_settings() - translate settings in JSON or JSONC (comments, trailing commas) to a policy
 * Knows the settings of srt (network.allowedDomains, network.deniedDomains, filesystem.allowWrite,
 * denyRead, denyWrite) and a block "sandbox" with network, allowHosts, allowWrite, onUnavailable.
 * What has no equivalent becomes a comment; what is printed parses.
 * @file: for messages
 *
 * Return: 0, or -EINVAL with @e filled in and nothing printed */
int import_settings(const char *file, const char *text, size_t len, FILE *out, struct err *e);

#endif
