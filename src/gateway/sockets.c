/* SPDX-License-Identifier: MIT */
/* The process's listening sockets: bound once, shared by all threads, inherited from systemd where
 * LISTEN_FDS says so. A socket that stays in the configuration is never closed in between, so that
 * no connection in its queue is reset. */
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "gateway/gateway_internal.h"

#define FIRST_INHERITED 3 /* SD_LISTEN_FDS_START of sd_listen_fds(3) */

static int inherited_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    int64_t owner, count;

    if (pid == NULL || fds == NULL || prazo_str_to_i64(prazo_str_z(pid), &owner) != PRAZO_OK ||
        owner != (int64_t)getpid() || prazo_str_to_i64(prazo_str_z(fds), &count) != PRAZO_OK ||
        count > 1024)
        return 0;
    return (int)count;
}

int prazo_sockets_inherited(const struct prazo_addr *addr)
{
    for (int fd = FIRST_INHERITED; fd < FIRST_INHERITED + inherited_count(); fd++) {
        struct prazo_addr bound;
        if (prazo_listen_addr(fd, &bound) == PRAZO_OK && prazo_addr_eq(&bound, addr))
            return fd;
    }
    return -1;
}

const char *prazo_sockets_hint(int err)
{
    switch (err) {
    case PRAZO_E_IN_USE:
        return "address already in use; stop the other process or choose another address";
    case PRAZO_E_DENIED:
        return "permission denied; ports below 1024 and foreign directories need a privilege";
    case PRAZO_E_INVALID:
        return "not an address of this host, or the socket's directory does not exist";
    default:
        return prazo_strerror(err);
    }
}

static size_t find_socket(const struct prazo_gateway *g, const char *address)
{
    for (size_t i = 0; i < g->socket_count; i++) {
        if (g->sockets[i].fd >= 0 && strcmp(g->sockets[i].address, address) == 0)
            return i;
    }
    return SIZE_MAX;
}

static int add_socket(struct prazo_gateway *g, const struct prazo_config_listener *listener)
{
    struct prazo_socket *grown =
        prazo_mem_realloc(g->sockets, (g->socket_count + 1) * sizeof *grown);
    struct prazo_socket s = { .fd = prazo_sockets_inherited(&listener->addr) };

    if (grown == NULL)
        return PRAZO_E_NOMEM;
    g->sockets = grown;
    s.is_inherited = s.fd >= 0;
    if (!s.is_inherited) {
        int err = prazo_listen(&listener->addr, &s.fd);
        if (err != PRAZO_OK) {
            prazo_logf(PRAZO_LOG_ERROR, "cannot listen", "%s (listener %s): %s", listener->address,
                       listener->name, prazo_sockets_hint(err));
            return err;
        }
    }
    s.address = prazo_mem_strdup(listener->address);
    if (s.address == NULL) {
        (void)close(s.fd);
        return PRAZO_E_NOMEM;
    }
    g->sockets[g->socket_count++] = s;
    return PRAZO_OK;
}

static void close_socket(struct prazo_socket *s)
{
    struct prazo_addr addr;
    struct prazo_str none;
    uint16_t port;

    if (s->fd < 0)
        return;
    (void)close(s->fd);
    s->fd = -1;
    if (!s->is_inherited && strncmp(s->address, "unix:", 5) == 0 &&
        prazo_addr_parse(prazo_str_z(s->address), &addr, &none, &port) == PRAZO_OK)
        (void)unlink(s->address + 5);
}

int prazo_sockets_open(struct prazo_gateway *g, const struct prazo_config *config, size_t **ret_map)
{
    size_t before = g->socket_count;
    size_t *map = prazo_mem_calloc(before + config->listener_count + 1, sizeof *map);
    int err = map == NULL ? PRAZO_E_NOMEM : PRAZO_OK;

    for (size_t i = 0; map != NULL && i < before + config->listener_count; i++)
        map[i] = SIZE_MAX;
    for (size_t i = 0; i < config->listener_count && err == PRAZO_OK; i++) {
        size_t at = find_socket(g, config->listeners[i].address);
        if (at == SIZE_MAX && (err = add_socket(g, &config->listeners[i])) == PRAZO_OK)
            at = g->socket_count - 1;
        if (err == PRAZO_OK)
            map[at] = i;
    }
    if (err == PRAZO_OK) {
        *ret_map = map;
        return PRAZO_OK;
    }
    while (g->socket_count > before) {
        struct prazo_socket *s = &g->sockets[--g->socket_count];
        close_socket(s);
        prazo_mem_free(s->address);
    }
    prazo_mem_free(map);
    return err;
}

void prazo_sockets_close_unused(struct prazo_gateway *g, const size_t *map, size_t count)
{
    for (size_t i = 0; i < g->socket_count; i++) {
        if (i >= count || map[i] == SIZE_MAX)
            close_socket(&g->sockets[i]);
    }
}

void prazo_sockets_close_all(struct prazo_gateway *g)
{
    for (size_t i = 0; i < g->socket_count; i++) {
        close_socket(&g->sockets[i]);
        prazo_mem_free(g->sockets[i].address);
    }
    prazo_mem_free(g->sockets);
    g->sockets = NULL;
    g->socket_count = 0;
}
