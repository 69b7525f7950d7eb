/* SPDX-License-Identifier: MIT */
/* Rules that more than one key takes part in: what is missing, what is there twice, what cannot be
 * together. A rule speaks only about values that were read without a fault, so that one mistake
 * gives one message. An error is what can never work; a warning is what works and is hardly
 * meant. */
#include "config/load.h"

#include "config/value.h"

#define TOP ((struct prazo_mark){ 1, 1 })

static void check_missing(struct prazo_load *load)
{
    const struct prazo_config *config = load->config;
    if (!prazo__given(load, &config->listeners))
        prazo__fault(load, false, TOP,
                     "listen: missing; expected an address such as 127.0.0.1:8080");
    if (!prazo__given(load, &config->upstreams))
        prazo__fault(load, false, TOP,
                     "upstream: missing; expected an address such as 127.0.0.1:9001");
    for (size_t i = 0; i < config->listener_count; i++) {
        const struct prazo_config_listener *listener = &config->listeners[i];
        const struct prazo_given *list = prazo__given(load, &config->listeners);
        if (prazo__given(load, &listener->address) || !list->node->count)
            continue;
        const struct prazo_node *node =
            list->node->kind == PRAZO_NODE_LIST ? list->node->items[i] : list->node;
        if (node->kind == PRAZO_NODE_MAP)
            prazo__fault(load, false, node->mark, "%s[%zu].address: missing", list->path, i);
    }
}

static void check_servers(struct prazo_load *load, const struct prazo_config_upstream *upstream)
{
    const struct prazo_given *list = prazo__given(load, &upstream->servers);
    for (size_t i = 0; i < upstream->server_count; i++) {
        const struct prazo_config_server *server = &upstream->servers[i];
        const struct prazo_given *given = prazo__given(load, &server->address);
        if (!given && list->node->kind == PRAZO_NODE_LIST &&
            list->node->items[i]->kind == PRAZO_NODE_MAP)
            prazo__fault(load, false, list->node->items[i]->mark, "%s[%zu].address: missing",
                         list->path, i);
        for (size_t j = 0; given && server->address && j < i; j++) {
            const char *other = upstream->servers[j].address;
            if (!other || strcmp(other, server->address) != 0)
                continue;
            prazo__fault(load, false, given->node->mark, "%s: the same server as %s[%zu]",
                         given->path, list->path, j);
            break;
        }
    }
}

static bool is_own_address(const struct prazo_config *config, const struct prazo_addr *addr)
{
    for (size_t i = 0; i < config->listener_count; i++)
        if (config->listeners[i].address && prazo_addr_eq(&config->listeners[i].addr, addr))
            return true;
    return false;
}

static void check_upstreams(struct prazo_load *load)
{
    const struct prazo_config *config = load->config;
    const struct prazo_given *all = prazo__given(load, &config->upstreams);
    for (size_t i = 0; i < config->upstream_count; i++) {
        const struct prazo_config_upstream *upstream = &config->upstreams[i];
        const struct prazo_node *node = all->node;
        bool is_single = strcmp(all->path, "upstream") == 0;
        if (!is_single)
            node = node->items[i];
        if (!prazo__given(load, &upstream->servers) && node->kind == PRAZO_NODE_MAP)
            prazo__fault(load, false, node->mark, "%s%s%s.servers: missing", all->path,
                         is_single ? "" : ".", is_single ? "" : upstream->name);
        check_servers(load, upstream);
        for (size_t j = 0; j < upstream->server_count; j++) {
            const struct prazo_config_server *server = &upstream->servers[j];
            if (!prazo__is_given(load, &server->address) || server->is_name ||
                !is_own_address(config, &server->addr))
                continue;
            const struct prazo_given *given = prazo__given(load, &server->address);
            prazo__fault(load, true, given->node->mark,
                         "%s: this is a listener of this configuration; requests go in circles",
                         given->path);
        }
    }
}

/* ---- addresses of this process ---- */

struct own_address {
    const struct prazo_addr *addr;
    const void *field;
};

/* Port 0 is a new port every time. */
static bool has_port(const struct prazo_addr *addr)
{
    char text[PRAZO_ADDR_TEXT_MAX];
    prazo_addr_format(addr, text);
    size_t len = strlen(text);
    return len < 2 || strcmp(text + len - 2, ":0") != 0;
}

/* True if the second of the two was found to be taken by the first. */
static bool check_pair(struct prazo_load *load, const struct own_address *a,
                       const struct own_address *b)
{
    if (!has_port(a->addr) || !prazo_addr_eq(a->addr, b->addr))
        return false;
    const struct prazo_given *given_a = prazo__given(load, a->field);
    const struct prazo_given *given_b = prazo__given(load, b->field);
    if (given_a && given_b) {
        prazo__fault(load, false, given_b->node->mark, "%s: the same address as %s", given_b->path,
                     given_a->path);
        return true;
    }
    /* One of them is the default of `admin`, and a default gives way. */
    const struct prazo_given *given = given_a ? given_a : given_b;
    if (given)
        prazo__fault(load, true, given->node->mark,
                     "%s: this is the default of admin, which is none now", given->path);
    load->config->admin_address = NULL;
    return true;
}

static void check_addresses(struct prazo_load *load)
{
    const struct prazo_config *config = load->config;
    struct own_address own[64 + 2];
    size_t count = 0;
    for (size_t i = 0; i < config->listener_count; i++)
        if (config->listeners[i].address)
            own[count++] =
                (struct own_address){ &config->listeners[i].addr, &config->listeners[i].address };
    if (config->admin_address)
        own[count++] = (struct own_address){ &config->admin_addr, &config->admin_address };
    if (config->probe_address)
        own[count++] = (struct own_address){ &config->probe_addr, &config->probe_address };
    for (size_t i = 0; i < count; i++) {
        bool is_taken = false;
        for (size_t j = 0; j < i && !is_taken; j++)
            is_taken = check_pair(load, &own[j], &own[i]);
    }
}

static void check_listener_names(struct prazo_load *load)
{
    const struct prazo_config *config = load->config;
    for (size_t i = 0; i < config->listener_count; i++) {
        const struct prazo_config_listener *listener = &config->listeners[i];
        for (size_t j = 0; j < config->listener_count; j++) {
            const struct prazo_given *given = prazo__given(load, &listener->name);
            const char *other = config->listeners[j].name;
            /* The second of two given ones is at fault, and always one that was given. */
            bool is_first = j > i && prazo__given(load, &config->listeners[j].name);
            if (i == j || is_first || !given || !listener->name || !other ||
                strcmp(listener->name, other) != 0)
                continue;
            prazo__fault(load, false, given->node->mark, "%s: listen[%zu] has this name too",
                         given->path, j);
            break;
        }
    }
}

static void check_limits(struct prazo_load *load)
{
    const struct prazo_config *config = load->config;
    const struct prazo_given *uri = prazo__given(load, &config->limit_uri);
    if (uri && uri->is_ok && config->limit_uri > config->limit_headers) {
        char headers[PRAZO_VALUE_TEXT_MAX];
        prazo_size_format(headers, config->limit_headers);
        prazo__fault(load, false, uri->node->mark, "%s: more than limits.headers, which is %s",
                     uri->path, headers);
    }
}

static void check_timeouts(struct prazo_load *load)
{
    const struct prazo_config *config = load->config;
    for (size_t i = 0; i < config->upstream_count; i++) {
        const struct prazo_config_upstream *upstream = &config->upstreams[i];
        const struct prazo_given *attempt = prazo__given(load, &upstream->attempt_timeout_us);
        if (!attempt || !attempt->is_ok || upstream->attempt_timeout_us == PRAZO_CONFIG_NONE ||
            upstream->attempt_timeout_us >= upstream->connect_timeout_us)
            continue;
        char connect[PRAZO_VALUE_TEXT_MAX];
        prazo_duration_format(connect, upstream->connect_timeout_us);
        prazo__fault(load, true, attempt->node->mark,
                     "%s: less than connect_timeout, which is %s: a slow connection uses it up",
                     attempt->path, connect);
    }
}

void prazo__check(struct prazo_load *load)
{
    check_missing(load);
    check_upstreams(load);
    check_addresses(load);
    check_listener_names(load);
    check_limits(load);
    check_timeouts(load);
    prazo__check_routes(load);
}
