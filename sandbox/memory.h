/* SPDX-License-Identifier: ISC */
/* sandbox/memory.h - what the command line's memory held is not what pid 1 and the keeper hold */
#ifndef WEIR_SANDBOX_MEMORY_H
#define WEIR_SANDBOX_MEMORY_H

/* AddressSanitizer keeps its own record of heap and stacks beside them: its builds, which never ship,
 * forget nothing and stay on the stack they have. */
#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMORY_SANITIZED 1
#endif
#endif
#ifndef MEMORY_SANITIZED
#define MEMORY_SANITIZED 0
#endif

/**
 * memory_check() - does all that malloc() has given out lie where memory_forget() will find it?
 * Where the kernel lets the heap not grow (a limit on data or address space, too little memory) libc
 * takes memory from elsewhere, which would then be kept.
 * Return: 0, or -ENOMEM */
int memory_check(void);

/**
 * memory_forget() - drop the heap, the old stack and with it argv and the environment
 * For a copy of the command's process that will never return into it: call it on another stack than
 * the one the process began with. After it malloc() must not be used, and nothing that points into
 * the heap, argv or environ. Needs /proc of this process at @maps: a path.
 *
 * Return: 0, or -errno: then nothing can be relied on and the caller must end */
int memory_forget(const char *maps);

#endif
