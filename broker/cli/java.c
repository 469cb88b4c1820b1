/* SPDX-License-Identifier: ISC */
/* broker/cli/java.c - how the JVMs of this machine learn of the proxy.
 * A JVM reads no proxy variable. It reads net.properties of its JDK, which distributions keep in
 * /etc, where weir can put one of its own; elsewhere JAVA_TOOL_OPTIONS says the same, at the price of
 * a line on stderr. Paths are the user's: what is not where a JDK has it is passed over. */
#include "broker/cli/java.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/scope.h"

#define JVM_DIR "/usr/lib/jvm" /* Debian, Fedora, SUSE and Arch */
#define JVMS_MAX 64	       /* entries of it looked at */

static const char *value_of(char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

static int file_add(struct java *j, const char *path)
{
	size_t n = 0;

	for (; n < JAVA_FILES_MAX && j->files[n]; n++)
		if (str_eq(j->files[n], path))
			return 0;
	if (n == JAVA_FILES_MAX)
		return 0; /* its JVM goes without */
	j->files[n] = strdup(path);
	return j->files[n] ? 0 : -ENOMEM;
}

/* realpath(3) in three system calls, not one for each component: this runs at every launch. */
static bool real_path(const char *path, char real[PATH_MAX])
{
	SCOPED_FD int fd = open(path, O_PATH | O_CLOEXEC);
	char link[40];
	ssize_t n;

	if (fd < 0)
		return false;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, real, PATH_MAX - 1);
	real[n > 0 ? n : 0] = '\0';
	return real[0] == '/';
}

/* The JDK at @home. Return: 1 its file can be replaced, 0 not, -ENOMEM */
static int jdk_add(struct java *j, const char *home)
{
	/* JDK 9 and later; a JDK 8; a JRE 8 */
	static const char *const places[] = { "conf", "jre/lib", "lib" };
	char path[PATH_MAX], real[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		int n = snprintf(path, sizeof(path), "%s/%s/net.properties", home, places[i]);

		if (n < 0 || (size_t)n >= sizeof(path) || !real_path(path, real))
			continue;
		if (strncmp(real, "/etc/", 5) != 0)
			return 0;
		n = file_add(j, real + 5);
		return n < 0 ? n : 1;
	}
	return 0;
}

/* The `java` that PATH leads to, canonical. */
static bool path_java(const char *path, char real[PATH_MAX])
{
	char file[PATH_MAX];

	while (path && *path) {
		size_t len = strcspn(path, ":");
		int n = snprintf(file, sizeof(file), "%.*s/java", (int)len, path);

		if (len && n > 0 && (size_t)n < sizeof(file) && access(file, X_OK) == 0)
			return real_path(file, real);
		path += len + (path[len] == ':');
	}
	return false;
}

static int used_add(struct java *j, char *const *env)
{
	const char *home = value_of(env, "JAVA_HOME");
	char real[PATH_MAX], *slash;
	int r;

	if (home && *home == '/') {
		if ((r = jdk_add(j, home)) < 0)
			return r;
		j->options = r == 0 && access(home, F_OK) == 0;
	}
	if (!path_java(value_of(env, "PATH"), real))
		return 0;
	for (int up = 0; up < 2; up++) /* HOME/bin/java */
		if ((slash = strrchr(real, '/')))
			*slash = '\0';
	if ((r = jdk_add(j, real)) < 0)
		return r;
	j->options = j->options || r == 0;
	return 0;
}

static int installed_add(struct java *j)
{
	DIR *d = opendir(JVM_DIR);
	struct dirent *ent;
	int r = 0;

	for (int n = 0; r >= 0 && d && n < JVMS_MAX && (ent = readdir(d)); n++) {
		char home[PATH_MAX];

		(void)snprintf(home, sizeof(home), JVM_DIR "/%s", ent->d_name);
		if (ent->d_name[0] != '.' &&
		    ent->d_type != DT_LNK) /* a link leads to a neighbour */
			r = jdk_add(j, home);
	}
	if (d)
		(void)closedir(d);
	return r < 0 ? r : 0;
}

int java_find(struct java *j, char *const *env)
{
	int r = used_add(j, env);

	return r < 0 ? r : installed_add(j);
}

void java_free(struct java *j)
{
	for (size_t i = 0; i < ARRAY_LEN(j->files); i++)
		free(j->files[i]);
	*j = (struct java){ .options = false };
}
