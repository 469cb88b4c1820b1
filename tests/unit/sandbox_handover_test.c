/* SPDX-License-Identifier: ISC */
/* tests/unit/sandbox_handover_test.c - a plan arrives whole, and nothing of it points back. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"
#include "sandbox/handover.h"
#include "sandbox/memory.h"
#include "sandbox/plan.h"

#define GRANTS 300
#define HIDDEN 4000
#define ENVS 3000

/* A member more is one that handover.c may have to copy, and plan_fill() here to fill. */
static_assert(sizeof(struct sandbox_plan) == 664, "see whether handover.c copies the new member");

static char *text(const char *what, size_t i)
{
	char *t;

	assert_true(asprintf(&t, "%s %zu", what, i) > 0);
	return t;
}

static char **words(const char *what, size_t n)
{
	char **w = calloc(n + 1, sizeof(w[0]));

	assert_non_null(w);
	for (size_t i = 0; i < n; i++)
		w[i] = text(what, i);
	return w;
}

static void *array(size_t n, size_t size)
{
	void *a = calloc(n, size);

	assert_non_null(a);
	return a;
}

static struct plan_file file(size_t i)
{
	return (struct plan_file){ text("name", i), text("text", i), 6, 0640 };
}

static void plan_lists(struct sandbox_plan *p)
{
	p->grants = array(p->ngrants = GRANTS, sizeof(p->grants[0]));
	for (size_t i = 0; i < GRANTS; i++)
		p->grants[i] = (struct plan_grant){ .fd = i ? -1 : open("/", O_PATH | O_CLOEXEC),
						    .path = text("/grant", i),
						    .write = i & 1 };
	p->links = array(p->nlinks = 2, sizeof(p->links[0]));
	p->masks = array(p->nmasks = 2, sizeof(p->masks[0]));
	p->dotfiles = array(p->ndotfiles = 2, sizeof(p->dotfiles[0]));
	for (size_t i = 0; i < 2; i++) {
		p->links[i] = (struct plan_link){ text("link", i), text("target", i) };
		p->masks[i] = (struct plan_mask){ .path = text("mask", i), .ino = i };
		p->dotfiles[i] = file(i);
	}
	p->tmp_file = file(2);
	p->hidden = words("/hidden", p->nhidden = HIDDEN);
	p->java = words("java", 3);
	p->argv = words("argv", 4);
	p->envp = words("envp", ENVS);
	p->envp_alone = words("alone", 5);
	p->nets = array(p->nnets = 3, sizeof(p->nets[0]));
	p->ports = array(p->nports = 3, sizeof(p->ports[0]));
	p->keep_fds = array(p->nkeep = 3, sizeof(p->keep_fds[0]));
	for (size_t i = 0; i < 3; i++) {
		p->ports[i] = (uint16_t)(100 + i);
		p->keep_fds[i] = (int)(50 + i);
	}
}

static char **const *plan_texts(struct sandbox_plan *p, size_t *n)
{
	static char **texts[15];
	char **const all[] = {
		&p->ports_wide, &p->user,    &p->group, &p->shell,     &p->home,
		&p->hostname,	&p->project, &p->cwd,	&p->kept_home, &p->cache,
		&p->gitdir,	&p->hosts,   &p->exe,	&p->cmd_host,  &p->cmd_interp
	};

	memcpy(texts, all, sizeof(all));
	*n = ARRAY_LEN(all);
	return texts;
}

static void plan_fill(struct sandbox_plan *p)
{
	size_t n;
	char **const *texts;

	plan_init(p);
	plan_lists(p);
	texts = plan_texts(p, &n);
	for (size_t i = 0; i < n; i++)
		*texts[i] = text("text", i);
	p->project_fd = open("/usr", O_PATH | O_CLOEXEC);
	p->exe_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
}

static void words_equal(char *const *a, char *const *b)
{
	size_t i = 0;

	for (; a[i]; i++)
		assert_string_equal(a[i], b[i]);
	assert_null(b[i]);
}

static void lists_equal(const struct sandbox_plan *a, const struct sandbox_plan *b)
{
	assert_int_equal(a->ngrants, b->ngrants);
	for (size_t i = 0; i < a->ngrants; i++) {
		assert_string_equal(a->grants[i].path, b->grants[i].path);
		assert_int_equal(a->grants[i].write, b->grants[i].write);
	}
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(a->links[i].path, b->links[i].path);
		assert_string_equal(a->links[i].target, b->links[i].target);
		assert_string_equal(a->masks[i].path, b->masks[i].path);
		assert_int_equal(a->masks[i].ino, b->masks[i].ino);
		assert_string_equal(a->dotfiles[i].name, b->dotfiles[i].name);
		assert_memory_equal(a->dotfiles[i].text, b->dotfiles[i].text, 6);
	}
	assert_string_equal(a->tmp_file.name, b->tmp_file.name);
	assert_memory_equal(a->tmp_file.text, b->tmp_file.text, 6);
	assert_int_equal(a->nhidden, b->nhidden);
	for (size_t i = 0; i < a->nhidden; i++)
		assert_string_equal(a->hidden[i], b->hidden[i]);
	words_equal(a->java, b->java);
	words_equal(a->argv, b->argv);
	words_equal(a->envp, b->envp);
	words_equal(a->envp_alone, b->envp_alone);
	assert_memory_equal(a->nets, b->nets, a->nnets * sizeof(a->nets[0]));
	assert_memory_equal(a->ports, b->ports, a->nports * sizeof(a->ports[0]));
	assert_memory_equal(a->keep_fds, b->keep_fds, a->nkeep * sizeof(a->keep_fds[0]));
}

static void pin_is(const struct plan_pin *pin, const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(pin->dev, st.st_dev);
	assert_int_equal(pin->ino, st.st_ino);
	assert_int_equal(pin->type, st.st_mode & S_IFMT);
}

/* No word of what was handed over is an address of this program's heap. */
static void points_nowhere(const struct handover *h, const void *heap)
{
	const uintptr_t from = (uintptr_t)heap, to = (uintptr_t)sbrk(0);
	const uintptr_t *word = h->at;

	if (MEMORY_SANITIZED)
		return; /* the heap lies elsewhere, in pieces */
	assert_true(from < to);
	for (size_t i = 0; i < h->used / sizeof(word[0]); i++)
		if (word[i] >= from && word[i] < to)
			fail_msg("word %zu of what was handed over points into the giver's heap",
				 i);
}

static void opened(struct handover *h, int sv[2])
{
	struct err e = { 0 };

	assert_int_equal(handover_open(h, &e), 0);
	assert_int_equal(fd_pair(sv), 0);
}

static void closed(struct handover *h, const int sv[2])
{
	handover_close(h);
	(void)close(sv[0]);
	(void)close(sv[1]);
}

static void test_whole(void **state)
{
	void *heap = *state;
	struct sandbox_plan p, *got;
	struct handover h;
	struct err e = { 0 };
	size_t n;
	int sv[2];

	plan_fill(&p);
	opened(&h, sv);
	assert_int_equal(handover_give(&h, &p, sv[0], &e), 0);
	points_nowhere(&h, heap);
	got = handover_take(&h, sv[1]);
	assert_non_null(got);
	assert_ptr_equal(got, h.at);
	lists_equal(&p, got);
	(void)plan_texts(&p, &n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(*plan_texts(&p, &n)[i], *plan_texts(got, &n)[i]);
	pin_is(&got->project_pin, "/usr");
	pin_is(&got->exe_pin, "/proc/self/exe");
	pin_is(&got->grants[0].pin, "/");
	assert_int_equal(got->grants[1].pin.ino, 0);
	for (size_t i = 0; i < got->ngrants; i++)
		assert_int_equal(got->grants[i].fd, -1);
	assert_true(plan_has_own_stdio(got));
	assert_int_equal(got->cgroup_fd, -1);
	closed(&h, sv);
	plan_free(&p);
}

/* What is used, not compared, comes by number: other standard descriptors, and the cgroup's. */
static void test_descriptors(void **state)
{
	struct sandbox_plan p, *got;
	struct handover h;
	struct err e = { 0 };
	int sv[2], pipes[2];
	char byte = 0;

	(void)state;
	plan_fill(&p);
	opened(&h, sv);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	p.stdio[1] = pipes[1];
	p.cgroup_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(handover_give(&h, &p, sv[0], &e), 0);
	got = handover_take(&h, sv[1]);
	assert_non_null(got);
	assert_int_not_equal(got->stdio[1], p.stdio[1]);
	assert_int_equal(write(got->stdio[1], "x", 1), 1);
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	assert_int_equal(byte, 'x');
	assert_int_not_equal(got->cgroup_fd, p.cgroup_fd);
	assert_int_equal(write(got->cgroup_fd, "0", 1), 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(close(got->stdio[i]), 0);
	(void)close(got->cgroup_fd);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
	closed(&h, sv);
	plan_free(&p);
}

/* By another process that began before there was a plan, as it is in earnest. */
static void test_between_processes(void **state)
{
	struct sandbox_plan p;
	struct handover h;
	struct err e = { 0 };
	int sv[2], status;
	pid_t pid;

	(void)state;
	opened(&h, sv);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		const struct sandbox_plan *got;

		(void)close(sv[0]);
		got = handover_take(&h, sv[1]);
		_exit(got && got->nhidden == HIDDEN &&
				      str_eq(got->hidden[HIDDEN - 1], "/hidden 3999") &&
				      str_eq(got->envp[ENVS - 1], "envp 2999")
			      ? 7
			      : 1);
	}
	(void)close(sv[1]);
	plan_fill(&p);
	assert_int_equal(handover_give(&h, &p, sv[0], &e), 0);
	handover_close(&h);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	(void)close(sv[0]);
	plan_free(&p);
}

static void test_nobody(void **state)
{
	struct sandbox_plan p;
	struct handover h;
	struct err e = { 0 };
	int sv[2];

	(void)state;
	plan_fill(&p);
	opened(&h, sv);
	(void)close(sv[1]);
	assert_int_equal(handover_give(&h, &p, sv[0], &e), 0); /* its last word says why */
	(void)close(sv[0]);
	assert_int_equal(fd_pair(sv), 0);
	(void)close(sv[0]);
	assert_null(handover_take(&h, sv[1]));
	handover_close(&h);
	(void)close(sv[1]);
	plan_free(&p);
}

static void test_too_large(void **state)
{
	struct sandbox_plan p;
	struct handover h;
	struct err e = { 0 };
	int sv[2];

	(void)state;
	plan_fill(&p);
	opened(&h, sv);
	free(p.hosts);
	p.hosts = malloc(h.size);
	assert_non_null(p.hosts);
	memset(p.hosts, 'x', h.size - 1);
	p.hosts[h.size - 1] = '\0';
	assert_int_equal(handover_give(&h, &p, sv[0], &e), -E2BIG);
	assert_string_equal(e.what, "hand over the sandbox's plan");
	closed(&h, sv);
	plan_free(&p);
}

int main(void)
{
	void *heap = malloc(16); /* where it begins: what is handed over comes later */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(test_whole, heap),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_between_processes),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test(test_too_large),
	};
	int failed = heap ? cmocka_run_group_tests(tests, NULL, NULL) : 1;

	free(heap);
	return failed;
}
