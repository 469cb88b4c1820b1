/* SPDX-License-Identifier: ISC */
/* sandbox/clients.c - files of /etc that tell programs of the proxy.
 * For those that read no variable, or for which a file of the host's outweighs it. The host's /etc is
 * the administrator's: its net.properties are copied, with lines behind that count. */
#include "sandbox/clients.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/scope.h"
#include "sandbox/environ.h"
#include "sandbox/plan.h"
#include "sandbox/tree.h"

#define PROPERTIES_MAX 16384 /* bytes of the host's file; a JDK's has 5,000 */

/* The last of these files is read last, before apt.conf alone: a proxy that the host's name does not
 * count. https follows http where nothing is said of it (apt-transport-https(1)). */
#define APT_DIR "apt/apt.conf.d"
#define APT_FILE APT_DIR "/zzz-weir"

/* A property that is said twice counts as said last (java.util.Properties). */
static int java_write(int layer, int etc, const char *file, struct err *e)
{
	static const char lines[] = "\n"
				    "# written by weir: the policy's proxy\n"
				    "java.net.useSystemProxies=false\n"
				    "http.proxyHost=" ENVIRON_PROXY_HOST "\n"
				    "http.proxyPort=" ENVIRON_PROXY_PORT "\n"
				    "https.proxyHost=" ENVIRON_PROXY_HOST "\n"
				    "https.proxyPort=" ENVIRON_PROXY_PORT "\n"
				    "http.nonProxyHosts=localhost|127.*|[::1]\n";
	SCOPED_FD int fd = openat(etc, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[PROPERTIES_MAX + sizeof(lines)];
	ssize_t n = fd < 0 ? -1 : read(fd, text, PROPERTIES_MAX);

	if (n < 0 || n == PROPERTIES_MAX)
		return 0; /* gone, unreadable, or not what it is called: left as it is */
	text[n] = '\0';
	if (strlen(text) != (size_t)n)
		return 0;
	memcpy(text + n, lines, sizeof(lines));
	return tree_write(layer, file, 0444, text, e);
}

/* Root inside cannot become _apt, the user that apt fetches as. */
static int apt_write(int layer, int etc, const struct sandbox_plan *p, struct err *e)
{
	static const char proxy[] = "Acquire::http::Proxy \"" ENVIRON_PROXY "\";\n"
				    "Acquire::https::Proxy \"" ENVIRON_PROXY "\";\n"
				    "Acquire::http::Proxy-Auto-Detect \"\";\n"
				    "Acquire::https::Proxy-Auto-Detect \"\";\n";
	static const char user[] = "APT::Sandbox::User \"root\";\n";
	char text[sizeof(proxy) + sizeof(user)];

	if (faccessat(etc, APT_DIR, F_OK, 0) < 0)
		return 0;
	(void)snprintf(text, sizeof(text), "%s%s", p->listeners ? proxy : "",
		       p->uid == 0 ? user : "");
	return text[0] ? tree_write(layer, APT_FILE, 0444, text, e) : 0;
}

int clients_write(int layer, int etc, const struct sandbox_plan *p, struct err *e)
{
	int r = apt_write(layer, etc, p, e);

	for (size_t i = 0; r == 0 && p->listeners && p->java && p->java[i]; i++)
		r = java_write(layer, etc, p->java[i], e);
	if (r ==
	    -EFBIG) { /* ulimit -f: a JVM that could write nothing either keeps the host's file */
		*e = (struct err){ 0 };
		return 0;
	}
	return r;
}
