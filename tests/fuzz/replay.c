/* SPDX-License-Identifier: ISC */
/* tests/fuzz/replay.c - a main() for a fuzz target without libFuzzer: every file of the named
 * corpora once, then a bounded number of simple changes of each. An empty corpus is a failure, and so is
 * a seed that does not do what its name says: see fuzz_seed(). */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* fuzz_seed() - a target may have it: does the file @name still do what it is for?
 * Return: NULL, or what it does instead */
const char *fuzz_seed(const char *name, const uint8_t *data, size_t len) __attribute__((weak));

#define INPUT_MAX (1 << 20)
#define CHANGES 256

static uint32_t seed = 1;

static uint32_t next(void)
{
	seed = seed * 1664525U + 1013904223U;
	return seed >> 8;
}

/* The target gets a block of exactly @len bytes, so that a sanitizer sees one byte too many. */
static void one(const uint8_t *data, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);

	if (!copy)
		abort();
	memcpy(copy, data, len);
	(void)LLVMFuzzerTestOneInput(copy, len);
	free(copy);
}

static void changed(uint8_t *data, size_t len)
{
	for (int i = 0; i < CHANGES && len > 0; i++) {
		size_t at = next() % len;
		uint8_t was = data[at];

		switch (next() % 3) {
		case 0:
			one(data, at);
			break;
		case 1:
			data[at] = (uint8_t)next();
			one(data, len);
			break;
		default:
			data[at] ^= (uint8_t)(1U << next() % 8);
			one(data, len);
			break;
		}
		data[at] = was;
	}
}

static int file(const char *dir, const char *name, uint8_t *buf)
{
	char path[4096];
	size_t len;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f) {
		perror(path);
		return -1;
	}
	len = fread(buf, 1, INPUT_MAX, f);
	(void)fclose(f);
	if (fuzz_seed) {
		const char *wrong = fuzz_seed(name, buf, len);

		if (wrong) {
			(void)fprintf(stderr, "%s: %s\n", path, wrong);
			return -1;
		}
	}
	one(buf, len);
	changed(buf, len);
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t buf[INPUT_MAX];
	int files = 0;

	for (int i = 1; i < argc; i++) {
		DIR *d = opendir(argv[i]);
		struct dirent *e;

		if (!d) {
			perror(argv[i]);
			return 1;
		}
		while ((e = readdir(d))) {
			if (e->d_name[0] == '.')
				continue;
			if (file(argv[i], e->d_name, buf) < 0)
				return 1;
			files++;
		}
		(void)closedir(d);
	}
	(void)printf("replayed %d inputs, %d changes of each\n", files, CHANGES);
	return files > 0 ? 0 : 1;
}
