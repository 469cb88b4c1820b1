/* SPDX-License-Identifier: ISC */
/* common/gates.h - where a worker has the page of addresses that it may connect to unasked.
 * The monitor alone writes it (broker/monitor/gates.c); the worker has it for reading, and its filter
 * lets connect() through when its address lies there (broker/worker/filter_rules.h: gates_rules). The
 * rule headers read this too. */
#ifndef WEIR_COMMON_GATES_H
#define WEIR_COMMON_GATES_H

/* Below everything else that a process has (programs and libraries are placed at random far above; vm.
 * mmap_min_addr is far below): what begins above its end cannot reach into it. */
#define GATES_AT 0x10000000UL
#define GATE_BYTES 16 /* a struct sockaddr_in; a power of two */
#define GATES_MAX 1024
#define GATES_BYTES (GATES_MAX * GATE_BYTES)
#define GATES_END (GATES_AT + GATES_BYTES)
/* No address that a process has reaches up to here. What does is a smaller one to some kernels, which leave
 * a pointer's highest byte out of account for munmap() and the like (arm64, always). */
#define GATES_TAGGED (1ULL << 56)

#endif
