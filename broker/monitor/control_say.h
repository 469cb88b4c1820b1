/* SPDX-License-Identifier: ISC */
/* broker/monitor/control_say.h - what the control socket answers: a function a verb */
#ifndef WEIR_BROKER_MONITOR_CONTROL_SAY_H
#define WEIR_BROKER_MONITOR_CONTROL_SAY_H

struct control_client;
struct json_t;
struct question;

/** control_say() - the reply to @req, which is an object. Return: a new reference, or NULL */
struct json_t *control_say(struct control_client *c, const struct json_t *req);
/** control_failure() - {"ok": false} with @text, and @fix where it is not empty. Return: likewise */
struct json_t *control_failure(const char *text, const char *fix);
/** control_question_json() - one question as people and programs are told. Return: likewise */
struct json_t *control_question_json(const struct question *q);

#endif
