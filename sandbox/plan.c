/* SPDX-License-Identifier: ISC */
/* sandbox/plan.c - begin and end of a plan */
#include "sandbox/plan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void plan_init(struct sandbox_plan *p)
{
	*p = (struct sandbox_plan){
		.project_fd = -1,
		.gitdir_fd = -1,
		.cgroup_fd = -1,
		.exe_fd = -1,
		.kept_home_fd = -1,
		.cache_fd = -1,
		.stdio = { 0, 1, 2 },
	};
}

static void close_one(int fd)
{
	if (fd >= 0)
		(void)close(fd);
}

/* Values of the environment and arguments may be secrets: they do not stay behind in the heap. */
static void strings_free(char **v)
{
	if (!v)
		return;
	for (size_t i = 0; v[i]; i++) {
		explicit_bzero(v[i], strlen(v[i]));
		free(v[i]);
	}
	free(v);
}

void plan_free(struct sandbox_plan *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->ngrants; i++) {
		close_one(p->grants[i].fd);
		free(p->grants[i].path);
	}
	for (size_t i = 0; i < p->nlinks; i++) {
		free(p->links[i].path);
		free(p->links[i].target);
	}
	for (size_t i = 0; i < p->ndotfiles; i++) {
		free(p->dotfiles[i].name);
		free(p->dotfiles[i].text);
	}
	for (size_t i = 0; i < p->nmasks; i++)
		free(p->masks[i].path);
	free(p->tmp_file.name);
	free(p->tmp_file.text);
	for (size_t i = 0; i < p->nhidden; i++)
		free(p->hidden[i]);
	strings_free(p->argv);
	strings_free(p->envp);
	strings_free(p->envp_alone);
	close_one(p->project_fd);
	close_one(p->gitdir_fd);
	close_one(p->cgroup_fd);
	close_one(p->exe_fd);
	close_one(p->kept_home_fd);
	close_one(p->cache_fd);
	free(p->grants);
	free(p->links);
	free(p->hidden);
	free(p->masks);
	free(p->dotfiles);
	free(p->kept_home);
	free(p->cache);
	free(p->user);
	free(p->group);
	free(p->shell);
	free(p->home);
	free(p->hostname);
	free(p->project);
	free(p->gitdir);
	free(p->cwd);
	strings_free(p->java);
	free(p->hosts);
	free(p->cmd_host);
	free(p->cmd_interp);
	free(p->keep_fds);
	free(p->exe);
	free(p->nets);
	free(p->ports);
	free(p->ports_wide);
	plan_init(p);
}
