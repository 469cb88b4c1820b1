/* SPDX-License-Identifier: ISC */
/* broker/cli/options.h - what the command line said: one table for weir run, shell, proxy and policy */
#ifndef WEIR_BROKER_CLI_OPTIONS_H
#define WEIR_BROKER_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "broker/cli/connection_file.h"
#include "broker/cli/layers.h"
#include "broker/monitor/monitor.h"

#define OPTIONS_KEEP_FDS_MAX 64

/** enum option_of - which command takes an option: bits */
enum option_of {
	OF_RUN = 1, /* weir shell too */
	OF_PROXY = 2,
	OF_SHOW = 4, /* weir policy show and why, weir test */
	OF_WHY = 8,  /* weir policy why alone */
	OF_DOCTOR = 16,
};

/** struct options - what was typed. Set up by options_init(), freed by options_free(); strings are
 * argv's own */
struct options {
	struct layers_options layers; /* -q too */
	bool help, verbose, json;
	const char *name;		    /* NULL: none */
	int keep_fds[OPTIONS_KEEP_FDS_MAX]; /* run: open, none a terminal, no repeats */
	size_t nkeep;
	int status_fd;			   /* run: open for writing, or -1 */
	enum tty_mode tty;		   /* run */
	const char *listen;		   /* proxy, or NULL */
	int url_fd;			   /* proxy: open; 1 unless said */
	bool expose;			   /* proxy */
	bool resolve;			   /* policy why */
	struct connection_file connection; /* run */
};

void options_init(struct options *o);
void options_free(struct options *o);

/**
 * options_read() - take options up to the first word that is none, or to --help, or past "--"
 * @of:	     whose options, enum option_of bits; others are unknown
 * @command: as the person knows it, "run": for messages
 * @from:    where to begin, 1 at first
 *
 * Return: the index of the first word that is no option, argc at the end; or a negative number with
 *	   @e filled in */
int options_read(struct options *o, unsigned of, const char *command, int argc, char **argv,
		 int from, struct err *e);
/** options_help() - the lines of --help for the options of @of, under their titles */
void options_help(unsigned of, FILE *out);

/** option_id() - draw the id of a sandbox or proxy. Return: 0, or a negative number with @e */
int option_id(char id[RUN_ID_LEN + 1], struct err *e);
/** option_audit_default() - where the audit log is when no line says so. Return: for free(), or NULL */
char *option_audit_default(const struct weir_dirs *dirs);
/** option_audit() - where the audit log is: the policy's file, or the default one, whose name is
 * *@owned, for free(). *@path stays NULL when the log is off. Return: as option_id() */
int option_audit(const struct policy *policy, const struct weir_dirs *dirs, char **owned,
		 const char **path, struct err *e);

#endif
