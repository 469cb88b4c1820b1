/* SPDX-License-Identifier: ISC */
/* broker/worker/client.h - from a client's bytes to a question for the monitor */
#ifndef WEIR_BROKER_WORKER_CLIENT_H
#define WEIR_BROKER_WORKER_CLIENT_H

struct conn;

/** client_ready() - bytes, or an end, while a head is awaited */
void client_ready(struct conn *c);
/** client_timeout() - the head did not come in time: 408 */
void client_timeout(struct conn *c);
/** client_evict() - others need what its head waits in: 408 as well */
void client_evict(struct conn *c);
/** client_again() - an exchange is over and the client is kept: wait for its next request */
void client_again(struct conn *c);
/** client_answer() - the waiting request is a TRACE or OPTIONS that goes no further: answer as its last
 * recipient (RFC 9110 section 7.6.2). Its target was allowed */
void client_answer(struct conn *c);

#endif
