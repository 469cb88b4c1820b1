/* SPDX-License-Identifier: ISC */
/* tests/san.c - defaults of the sanitizers for build/san-.../weir.
 * A locked process can neither stop its threads to look for leaks nor start a symbolizer, and its
 * environment is empty, so the words are compiled in. The unit tests are linked without this. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0:symbolize=0:abort_on_error=0:exitcode=86";
}

const char *__ubsan_default_options(void)
{
	return "symbolize=0:print_stacktrace=0";
}

#if defined(__x86_64__) && defined(__SANITIZE_ADDRESS__)
/* The sanitizer's own vfork() takes everything from the foot of the main stack to the stack pointer
 * for frames of the child and clears its shadow. The sandbox's processes run on a stack of their own,
 * below the main one: the difference is negative and the shadow overrun. This one clears what a
 * child can have used: 64 KiB. */
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	pop %rdi\n"
	"	mov $58, %eax\n" /* SYS_vfork */
	"	syscall\n"
	"	push %rdi\n"
	"	test %eax, %eax\n"
	"	jle 1f\n"
	"	push %rax\n"
	"	lea -65536(%rsp), %rdi\n"
	"	mov $65536, %esi\n"
	"	call __asan_unpoison_memory_region@PLT\n"
	"	pop %rax\n"
	"1:	ret\n"
	".size vfork, .-vfork\n");
#endif
