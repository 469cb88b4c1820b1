/* SPDX-License-Identifier: ISC */
/* common/stage.h - where the time of a launch goes; in test builds only, nothing elsewhere */
#ifndef WEIR_COMMON_STAGE_H
#define WEIR_COMMON_STAGE_H

#ifdef WEIR_TEST
/** stage_begin() - with WEIR_TEST_STAGES set: make the page that this process and those it forks
 * write to. Call once, first of all */
void stage_begin(void);
/** stage_note() - note that @name, a string that stays, is reached now. Async-signal-safe */
void stage_note(const char *name);
/** stage_print() - in the process that called stage_begin(): the table, on standard error */
void stage_print(void);
#else
static inline void stage_begin(void)
{
}
static inline void stage_note(const char *name)
{
	(void)name;
}
static inline void stage_print(void)
{
}
#endif

#endif
