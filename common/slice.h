/* SPDX-License-Identifier: ISC */
/* common/slice.h - whoever is waited for gets the processor soon, and no more of it */
#ifndef WEIR_COMMON_SLICE_H
#define WEIR_COMMON_SLICE_H

/**
 * slice_short() - from now on this process, and those it forks, take turns that are as short as the
 * kernel allows
 * A launch is a chain of processes that wake each other. Since Linux 6.6 one that is woken waits until the
 * turn of whoever runs is over; since 6.12 not when its own turns are shorter. Its share stays what it is. Before
 * that, and for other policies than SCHED_OTHER, nothing changes. Call once, with one thread.
 * Source: sched_setattr(2), kernel/sched/fair.c (PREEMPT_SHORT); the least is 0.1 ms, kernel/sched/syscalls.c */
void slice_short(void);
/** slice_back() - as it was before slice_short(), in this process or in one that it was forked from: for what
 * is not weir's own, or computes. Async-signal-safe */
void slice_back(void);

/**
 * slice_apart() - let @pid run on any processor but the one this process is on, where it may run on others
 * A process that is woken goes where it last ran, which on a small machine is where the one it forked is
 * busy now, while another processor idles. Nothing where that fails. Source: sched_setaffinity(2)
 * slice_keep(), slice_anywhere() - let this process run again where it could at slice_keep(), which comes
 * before slice_apart() names it */
void slice_apart(int pid);
void slice_keep(void);
void slice_anywhere(void);

#endif
