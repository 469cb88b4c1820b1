/* SPDX-License-Identifier: ISC */
/* broker/cli/hide.h - hide lines: what a sandbox does not see of what it is shown */
#ifndef WEIR_BROKER_CLI_HIDE_H
#define WEIR_BROKER_CLI_HIDE_H

struct err;
struct plan_in;
struct sandbox_plan;

/**
 * hide_plan() - apply the policy's hide lines to what @p shows
 * When P and every grant are known. A grant at or below a hidden path is dropped, P too. Below what is
 * shown through an overlay the name is hidden for good; below a writable tree, or in /usr and its like,
 * what is there now gets a mask, and plan->masks tells the monitor what to watch.
 * Return: 0, or -errno with @e (a place that every sandbox needs; too many) */
int hide_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e);

#endif
