/* SPDX-License-Identifier: ISC */
/* broker/monitor/resolv.c - which DNS servers the worker asks.
 * The file is the administrator's. c-ares reads it, so that the worker's library and the monitor
 * agree on every oddity; no query is ever sent from here. */
#include "resolv.h"

#include <ares.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void resolv_init(struct resolv *r, const char *path)
{
	*r = (struct resolv){ .path = path };
}

/* One server in the csv form; what no longer fits is left out. */
static void csv_add(char *csv, size_t room, const struct ares_addr_port_node *s)
{
	char ip[INET6_ADDRSTRLEN], one[INET6_ADDRSTRLEN + 16];
	int port = s->udp_port ? s->udp_port : 53;
	size_t len = strlen(csv);
	int n;

	if (!inet_ntop(s->family, &s->addr, ip, sizeof(ip)))
		return;
	n = snprintf(one, sizeof(one), s->family == AF_INET6 ? "%s[%s]:%d" : "%s%s:%d",
		     len ? "," : "", ip, port);
	if (n > 0 && (size_t)n < sizeof(one) && len + (size_t)n < room)
		memcpy(csv + len, one, (size_t)n + 1);
}

bool resolv_has(const struct resolv *r, const struct addr *a, uint16_t port)
{
	for (size_t i = 0; i < r->nplaces; i++) {
		if (r->place[i].port == port && addr_eq(&r->place[i].addr, a))
			return true;
	}
	return false;
}

/* To the front; what was there before moves back and in the end out. */
static void place_add(struct resolv *r, const struct ares_addr_port_node *s)
{
	struct resolv_place p = { .port = (uint16_t)(s->udp_port ? s->udp_port : 53) };
	char ip[INET6_ADDRSTRLEN];
	size_t at = 0;

	if (!inet_ntop(s->family, &s->addr, ip, sizeof(ip)) || addr_parse(&p.addr, ip) < 0)
		return;
	while (at < r->nplaces &&
	       !(r->place[at].port == p.port && addr_eq(&r->place[at].addr, &p.addr)))
		at++;
	if (at == RESOLV_PLACES_MAX)
		at--;
	if (at == r->nplaces)
		r->nplaces++;
	memmove(&r->place[1], &r->place[0], at * sizeof(p));
	r->place[0] = p;
}

/* c-ares gives them as options; what is too long for a name is left out. */
static void search_read(struct resolv *r, ares_channel ch)
{
	struct ares_options opt;
	int mask;

	r->nsearch = 0;
	if (ares_save_options(ch, &opt, &mask) != ARES_SUCCESS)
		return;
	for (int i = 0; i < opt.ndomains && r->nsearch < RESOLV_SEARCH_MAX; i++) {
		size_t n = strlen(opt.domains[i]);

		if (n > 0 && n <= HOST_MAX)
			memcpy(r->search[r->nsearch++], opt.domains[i], n + 1);
	}
	ares_destroy_options(&opt);
}

static void file_read(struct resolv *r, char *csv, size_t room)
{
	char lookups[] = "b", file[256];
	struct ares_options opt = { .lookups = lookups, .resolvconf_path = file };
	struct ares_addr_port_node *list = NULL;
	ares_channel ch;

	csv[0] = '\0';
	r->nsearch = 0;
	if ((size_t)snprintf(file, sizeof(file), "%s", r->path) >= sizeof(file))
		return;
	/* with lookups given, c-ares reads no nsswitch.conf, host.conf or svc.conf */
	if (ares_init_options(&ch, &opt, ARES_OPT_LOOKUPS | ARES_OPT_RESOLVCONF) != ARES_SUCCESS)
		return;
	if (ares_get_servers_ports(ch, &list) == ARES_SUCCESS) {
		for (const struct ares_addr_port_node *s = list; s; s = s->next) {
			csv_add(csv, room, s);
			place_add(r, s);
		}
		if (list)
			ares_free_data(list);
	}
	search_read(r, ch);
	ares_destroy(ch);
}

bool resolv_follow(struct resolv *r)
{
	char csv[MSG_SERVERS_MAX + 1];
	struct stat st;
	bool changed;

	if (stat(r->path, &st) < 0)
		memset(&st, 0, sizeof(st));
	else if (!S_ISREG(st.st_mode))
		return false; /* a FIFO there must not hold this process; what was known stays */
	if (r->have && r->dev == st.st_dev && r->ino == st.st_ino && r->size == st.st_size &&
	    r->mtime.tv_sec == st.st_mtim.tv_sec && r->mtime.tv_nsec == st.st_mtim.tv_nsec)
		return false;
	file_read(r, csv, sizeof(csv));
	changed = strcmp(csv, r->servers) != 0;
	memcpy(r->servers, csv, sizeof(csv));
	r->have = true;
	r->dev = st.st_dev;
	r->ino = st.st_ino;
	r->size = st.st_size;
	r->mtime = st.st_mtim;
	return changed;
}
