/* SPDX-License-Identifier: ISC */
/* policy/policy.c - the life of a policy: made, filled with layers, sealed, asked, freed.
 *   OPEN --policy_seal()--> SEALED; lines go in while OPEN, answers come out when SEALED */
#include "policy/policy.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "policy/internal.h"

#define CONNECTIONS_DEFAULT 4096 /* SPEC section 5 */
#define ASK_TIMEOUT_DEFAULT 60	 /* seconds, SPEC section 3 */

static char *keep_str(struct arena *a, const char *s)
{
	return s ? arena_str(a, s, strlen(s)) : NULL;
}

struct policy *policy_new(const struct policy_context *ctx)
{
	struct policy *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	for (size_t i = 0; i < LAYER_COUNT; i++)
		p->lines[i].last = &p->lines[i].first;
	p->rules_end = &p->rules;
	p->grants_end = &p->grants;
	p->dotfiles_end = &p->dotfiles;
	p->envs_end = &p->envs;
	p->forwards_end = &p->forwards;
	p->ctx = *ctx;
	p->ctx.home = keep_str(&p->arena, ctx->home);
	p->ctx.cwd = keep_str(&p->arena, ctx->cwd);
	p->ctx.project = keep_str(&p->arena, ctx->project);
	if ((ctx->home && !p->ctx.home) || (ctx->cwd && !p->ctx.cwd) ||
	    (ctx->project && !p->ctx.project)) {
		policy_free(p);
		return NULL;
	}
	return p;
}

void policy_live(struct policy *p)
{
	assert(!p->sealed);
	p->live = true;
}

void policy_without_user_file(struct policy *p)
{
	p->no_user_file = true;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	arena_free(&p->arena);
	free(p);
}

static int place_in(struct policy *p, struct place *at, enum policy_layer layer, const char *file,
		    struct err *e)
{
	assert(!p->sealed);
	*at = (struct place){ .file = file, .layer = layer };
	at->shared_file = arena_str(&p->arena, file, strlen(file));
	return at->shared_file ? 0 : err_set(e, ENOMEM, "%s", file);
}

int policy_add_text(struct policy *p, enum policy_layer layer, const char *file, const char *text,
		    size_t len, struct err *e)
{
	struct place at;
	int r = place_in(p, &at, layer, file, e);

	return r < 0 ? r : parse_text(p, &at, text, len, &p->lines[layer], e);
}

int policy_add_flag(struct policy *p, const char *flag, const char *keyword, const char *value,
		    struct err *e)
{
	struct place at;
	int r = place_in(p, &at, LAYER_FLAG, flag, e);

	return r < 0 ? r : parse_flag(p, &at, keyword, value, &p->lines[LAYER_FLAG], e);
}

int policy_check_grants(struct policy *p, bool (*exists)(const char *path), struct err *e)
{
	for (struct policy_grant *g = p->grants; g; g = g->next) {
		if (g->inactive || g->kind == GRANT_HIDE || exists(g->path))
			continue;
		if (g->origin->layer == LAYER_FLAG && g->path[0] != '/') {
			(void)err_set(e, 0, "%s: no GPU is there", g->origin->file);
			return err_why(e, "no /dev/dri/renderD*, /dev/nvidia* or /dev/kfd");
		}
		if (g->origin->layer == LAYER_FLAG) {
			(void)err_set(e, 0, "%s: '%s' does not exist", g->origin->file, g->path);
			return g->kind == GRANT_WRITE ? err_fix(e, "mkdir -p '%s'", g->path)
						      : -EINVAL;
		}
		g->inactive = true;
	}
	return 0;
}

static unsigned setting(const struct policy *p, enum setting s, unsigned otherwise)
{
	assert(p->sealed);
	return p->set[s] ? p->set[s]->u.set.number : otherwise;
}

enum policy_network policy_network(const struct policy *p)
{
	return (enum policy_network)setting(p, SET_NETWORK, NETWORK_ALLOWLIST);
}

enum policy_route policy_route(const struct policy *p)
{
	return (enum policy_route)setting(p, SET_ROUTE, ROUTE_BOTH);
}

bool policy_route_is_said(const struct policy *p)
{
	assert(p->sealed);
	return p->set[SET_ROUTE] != NULL;
}

const char *policy_route_name(enum policy_route r)
{
	static const char *const names[] = {
		[ROUTE_PROXY] = "proxy", [ROUTE_TRANSPARENT] = "transparent", [ROUTE_BOTH] = "both"
	};

	return names[r];
}

const struct policy_rule *policy_rules(const struct policy *p)
{
	return p->rules;
}

const struct policy_grant *policy_grants(const struct policy *p)
{
	return p->grants;
}

const struct policy_forward *policy_forwards(const struct policy *p)
{
	return p->forwards;
}

const struct policy_grant *policy_dotfiles(const struct policy *p)
{
	return p->dotfiles;
}

enum policy_view policy_view(const struct policy *p)
{
	return (enum policy_view)setting(p, SET_VIEW, VIEW_PROJECT);
}

enum policy_home policy_home(const struct policy *p)
{
	return (enum policy_home)setting(p, SET_HOME, HOME_PRIVATE);
}

enum policy_cache policy_cache(const struct policy *p)
{
	return (enum policy_cache)setting(p, SET_CACHE, CACHE_KEEP);
}

const struct policy_env *policy_envs(const struct policy *p)
{
	return p->envs;
}

unsigned policy_connections(const struct policy *p)
{
	return setting(p, SET_CONNECTIONS, CONNECTIONS_DEFAULT);
}

unsigned policy_idle_s(const struct policy *p)
{
	return setting(p, SET_IDLE, 0);
}

unsigned policy_ask_timeout_s(const struct policy *p)
{
	return setting(p, SET_ASK_TIMEOUT, ASK_TIMEOUT_DEFAULT);
}

unsigned policy_pids(const struct policy *p)
{
	return setting(p, SET_PIDS, 0);
}

unsigned policy_memory_mib(const struct policy *p)
{
	return setting(p, SET_MEMORY, 0);
}

unsigned policy_cpu_percent(const struct policy *p)
{
	return setting(p, SET_CPU, 0);
}

enum policy_audit_sink policy_audit_sink(const struct policy *p)
{
	return (enum policy_audit_sink)setting(p, SET_AUDIT_SINK, AUDIT_FILE);
}

const char *policy_audit_file(const struct policy *p)
{
	const struct line *l = p->set[SET_AUDIT_SINK];

	return l && l->u.set.number == AUDIT_FILE ? l->u.set.word : NULL;
}

bool policy_audit_required(const struct policy *p)
{
	return setting(p, SET_AUDIT_REQUIRED, false);
}

bool policy_audit_client(const struct policy *p)
{
	return setting(p, SET_AUDIT_CLIENT, false);
}

const struct policy_origin *policy_nested(const struct policy *p)
{
	return setting(p, SET_NESTED, false) ? &p->set[SET_NESTED]->origin : NULL;
}

enum policy_unavailable policy_unavailable(const struct policy *p)
{
	return (enum policy_unavailable)setting(p, SET_ON_UNAVAILABLE, UNAVAILABLE_ERROR);
}
