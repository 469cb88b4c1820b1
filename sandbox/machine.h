/* SPDX-License-Identifier: ISC */
/* sandbox/machine.h - why a machine cannot make a sandbox, and what to type: for run and doctor alike */
#ifndef WEIR_SANDBOX_MACHINE_H
#define WEIR_SANDBOX_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

struct err;

/** enum machine_container - what weir itself runs in; a guess, which only words depend on */
enum machine_container {
	CONTAINER_NONE,
	CONTAINER_DOCKER,
	CONTAINER_PODMAN,
	CONTAINER_KUBERNETES,
	CONTAINER_COUNT
};
enum machine_container machine_container(void);
/** machine_container_name() - "Docker", …; NULL for CONTAINER_NONE */
const char *machine_container_name(enum machine_container c);

/** machine_why_namespaces() - add cause and remedy to @e, whose num is what the kernel said to a step
 * that makes namespaces or first uses the power over them. Sets e->unavailable where the machine is
 * at fault for good. Return: -e->num */
int machine_why_namespaces(struct err *e);
/** machine_why_proc() - the same for a fresh /proc. Return: -e->num */
int machine_why_proc(struct err *e);
/**
 * machine_explain() - add to the error of a launch what only weir's own namespaces show: a limit of 0,
 * which makes the machine one that cannot make sandboxes. /proc/sys/user is each namespace's own.
 * @e: from sandbox_start() or an EXECFAIL */
void machine_explain(struct err *e);

/** machine_read() - the first line of a small file below /proc or /sys
 * Return: its length without the LF, or -errno; @text is a string either way */
int machine_read(const char *path, char *text, size_t room);

#endif
