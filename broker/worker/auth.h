/* SPDX-License-Identifier: ISC */
/* broker/worker/auth.h - the secret of `weir proxy`, which every request of a client must prove */
#ifndef WEIR_BROKER_WORKER_AUTH_H
#define WEIR_BROKER_WORKER_AUTH_H

#include <stdbool.h>

struct head;

/** auth_ok() - does a scanned head carry @secret as the password of Basic credentials, in one
 * Proxy-Authorization field? The user name is not looked at. The time does not depend on how much
 * of the secret is right. Source: RFC 7617, RFC 9110 section 11.7.2 */
bool auth_ok(const struct head *h, const char *secret);

#endif
