/* SPDX-License-Identifier: ISC */
/* sandbox/handover.c - copying a plan, with all that it points at, into shared memory.
 * The giving half runs in the monitor-to-be, the taking half in the sandbox's first process, which
 * believes it: nobody else can write there. */
#include "sandbox/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"
#include "sandbox/plan.h"

/* Address space; what is not written to costs nothing. Arguments and environment, twice, are the most:
 * 6 MiB for an exec. Source: fs/exec.c, bprm_stack_limits() */
#define ROOM_BYTES (64UL << 20)
#define STDIO_FDS 3

/** struct handover_note - what is said when the plan is there */
struct handover_note {
	uint8_t has_stdio; /* else 0, 1 and 2 are the sandbox's since it began */
	uint8_t has_cgroup;
};

int handover_open(struct handover *h, struct err *e)
{
	void *at = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*h = (struct handover){ 0 };
	if (at == MAP_FAILED) {
		(void)err_set(e, errno, "get memory for the sandbox's plan");
		return err_fix(e, "raise the limit on address space: ulimit -v");
	}
	h->at = at;
	h->size = ROOM_BYTES;
	return 0;
}

void handover_close(struct handover *h)
{
	if (h->at)
		(void)munmap(h->at, h->size);
	h->at = NULL;
}

/* ---- copying: NULL when there is no room, which handover_give() sees at the end ---- */

static void *room_take(struct handover *h, size_t len)
{
	const size_t from = (h->used + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);

	if (from > h->size || len > h->size - from) {
		h->used = h->size + 1;
		return NULL;
	}
	h->used = from + len;
	return (char *)h->at + from;
}

static void *bytes_copy(struct handover *h, const void *from, size_t len)
{
	void *to = from && len ? room_take(h, len) : NULL;

	return to ? memcpy(to, from, len) : NULL;
}

static char *text_copy(struct handover *h, const char *from)
{
	return from ? bytes_copy(h, from, strlen(from) + 1) : NULL;
}

/* NULL-terminated. */
static char **words_copy(struct handover *h, char *const *from)
{
	size_t n = 0;
	char **to;

	if (!from)
		return NULL;
	while (from[n])
		n++;
	if ((to = room_take(h, (n + 1) * sizeof(to[0]))))
		for (size_t i = 0; i <= n; i++)
			to[i] = text_copy(h, from[i]);
	return to;
}

static struct plan_pin pin_of(int fd)
{
	struct stat st;

	/* what cannot be looked at is equal to nothing */
	if (fd < 0 || fstat(fd, &st) < 0)
		return (struct plan_pin){ 0 };
	return (struct plan_pin){ .dev = st.st_dev, .ino = st.st_ino, .type = st.st_mode & S_IFMT };
}

static void grants_copy(struct handover *h, struct sandbox_plan *p)
{
	p->grants = bytes_copy(h, p->grants, p->ngrants * sizeof(p->grants[0]));
	for (size_t i = 0; p->grants && i < p->ngrants; i++) {
		p->grants[i].path = text_copy(h, p->grants[i].path);
		p->grants[i].pin = pin_of(p->grants[i].fd);
		p->grants[i].fd = -1;
	}
}

static void file_copy(struct handover *h, struct plan_file *f)
{
	f->name = text_copy(h, f->name);
	f->text = bytes_copy(h, f->text, f->len);
}

static void lists_copy(struct handover *h, struct sandbox_plan *p)
{
	p->nets = bytes_copy(h, p->nets, p->nnets * sizeof(p->nets[0]));
	p->ports = bytes_copy(h, p->ports, p->nports * sizeof(p->ports[0]));
	p->keep_fds = bytes_copy(h, p->keep_fds, p->nkeep * sizeof(p->keep_fds[0]));
	p->dotfiles = bytes_copy(h, p->dotfiles, p->ndotfiles * sizeof(p->dotfiles[0]));
	for (size_t i = 0; p->dotfiles && i < p->ndotfiles; i++)
		file_copy(h, &p->dotfiles[i]);
	file_copy(h, &p->tmp_file);
	p->links = bytes_copy(h, p->links, p->nlinks * sizeof(p->links[0]));
	for (size_t i = 0; p->links && i < p->nlinks; i++) {
		p->links[i].path = text_copy(h, p->links[i].path);
		p->links[i].target = text_copy(h, p->links[i].target);
	}
	p->masks = bytes_copy(h, p->masks, p->nmasks * sizeof(p->masks[0]));
	for (size_t i = 0; p->masks && i < p->nmasks; i++)
		p->masks[i].path = text_copy(h, p->masks[i].path);
	p->hidden = bytes_copy(h, p->hidden, p->nhidden * sizeof(p->hidden[0]));
	for (size_t i = 0; p->hidden && i < p->nhidden; i++)
		p->hidden[i] = text_copy(h, p->hidden[i]);
	p->java = words_copy(h, p->java);
	p->argv = words_copy(h, p->argv);
	p->envp = words_copy(h, p->envp);
	p->envp_alone = words_copy(h, p->envp_alone);
}

static void texts_copy(struct handover *h, struct sandbox_plan *p)
{
	char **const texts[] = { &p->ports_wide, &p->user,     &p->group,     &p->shell,
				 &p->home,	 &p->hostname, &p->project,   &p->cwd,
				 &p->kept_home,	 &p->cache,    &p->gitdir,    &p->hosts,
				 &p->exe,	 &p->cmd_host, &p->cmd_interp };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		*texts[i] = text_copy(h, *texts[i]);
}

/* The copy lies at the beginning, where the other process looks. */
static int plan_put(struct handover *h, const struct sandbox_plan *plan, struct err *e)
{
	struct sandbox_plan *p;

	h->used = 0;
	if (!h->at || !(p = bytes_copy(h, plan, sizeof(*plan))))
		return err_set(e, EINVAL, "hand over the sandbox's plan");
	p->project_pin = pin_of(plan->project_fd);
	p->kept_home_pin = pin_of(plan->kept_home_fd);
	p->cache_pin = pin_of(plan->cache_fd);
	p->exe_pin = pin_of(plan->exe_fd);
	p->project_fd = p->kept_home_fd = p->cache_fd = p->exe_fd = p->gitdir_fd = -1;
	grants_copy(h, p);
	lists_copy(h, p);
	texts_copy(h, p);
	if (h->used > h->size)
		return err_set(e, E2BIG, "hand over the sandbox's plan");
	return 0;
}

int handover_give(struct handover *h, const struct sandbox_plan *plan, int sock, struct err *e)
{
	const struct handover_note note = { .has_stdio = !plan_has_own_stdio(plan),
					    .has_cgroup = plan->cgroup_fd >= 0 };
	int fds[STDIO_FDS + 1], r = plan_put(h, plan, e);
	size_t n = 0;

	if (r < 0)
		return r;
	for (size_t i = 0; note.has_stdio && i < STDIO_FDS; i++)
		fds[n++] = plan->stdio[i];
	if (note.has_cgroup)
		fds[n++] = plan->cgroup_fd;
	r = fd_send(sock, &note, sizeof(note), fds, n);
	return r == 0 || r == -EPIPE || r == -ECONNRESET
		       ? 0
		       : err_set(e, -r, "hand over the sandbox's plan");
}

struct sandbox_plan *handover_take(const struct handover *h, int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct sandbox_plan *plan = h->at;
	struct handover_note note = { 0 };
	int fds[STDIO_FDS + 1];
	size_t nfds = ARRAY_LEN(fds);

	while (poll(&p, 1, -1) < 0)
		if (errno != EINTR)
			return NULL;
	if (fd_recv(sock, &note, sizeof(note), fds, &nfds) != (ssize_t)sizeof(note) ||
	    nfds != (note.has_stdio ? (size_t)STDIO_FDS : 0) + note.has_cgroup)
		return NULL;
	if (note.has_stdio)
		memcpy(plan->stdio, fds, sizeof(plan->stdio));
	plan->cgroup_fd = note.has_cgroup ? fds[nfds - 1] : -1;
	return plan;
}
