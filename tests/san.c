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
