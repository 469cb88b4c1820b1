/* SPDX-License-Identifier: ISC */
/* broker/cli/java.h - how the JVMs of this machine learn of the proxy */
#ifndef WEIR_BROKER_CLI_JAVA_H
#define WEIR_BROKER_CLI_JAVA_H

#include <stdbool.h>

#define JAVA_FILES_MAX 16

/** struct java - what was found; freed by java_free() */
struct java {
	char *files[JAVA_FILES_MAX + 1]; /* canonical net.properties below /etc, without "/etc/" */
	bool options; /* the JVM in use has its file elsewhere: JAVA_TOOL_OPTIONS must say it */
};

/**
 * java_find() - look for JDKs: $JAVA_HOME, the `java` of PATH, and /usr/lib/jvm
 * @env: weir's environment, of which JAVA_HOME and PATH are read
 * Return: 0, or -ENOMEM */
int java_find(struct java *j, char *const *env);
void java_free(struct java *j);

#endif
