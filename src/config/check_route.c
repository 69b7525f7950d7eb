/* SPDX-License-Identifier: MIT */
/* Cross-key rules of routes: references, deadlines, and routes that no request can reach. */
#include "config/load.h"

#include <strings.h>

#include "core/path.h"

#include "config/value.h"

/* "; did you mean 'x'?" or nothing; to is the caller's. */
static const char *suggest(struct prazo_str text, const char *name, const char *before, char *to,
                           size_t bytes)
{
    if (*before || !name || !prazo_text_is_near(text, prazo_str_z(name)))
        return before;
    snprintf(to, bytes, "; did you mean '%s'?", name);
    return to;
}

static void resolve_upstream(struct prazo_load *load, struct prazo_config_route *route,
                             size_t index)
{
    const struct prazo_config *config = load->config;
    const struct prazo_given *given = prazo__given(load, &route->upstream_index);
    if (given && !given->is_ok)
        return;
    if (!given) {
        const struct prazo_given *routes = prazo__given(load, &config->routes);
        const struct prazo_node *node = routes ? routes->node : NULL;
        if (node && node->kind == PRAZO_NODE_LIST)
            node = node->items[index];
        if (config->upstream_count > 1 && node && node->kind == PRAZO_NODE_MAP)
            prazo__fault(load, false, node->mark,
                         "routes[%zu].upstream: missing; there is more than one upstream", index);
        return;
    }
    char shown[PRAZO_SHOWN_BYTES], near[128];
    const char *hint = "";
    for (size_t i = 0; i < config->upstream_count; i++) {
        const char *name = config->upstreams[i].name;
        if (name && prazo_str_eq(prazo_str_z(name), given->node->text)) {
            route->upstream_index = i;
            return;
        }
        hint = suggest(given->node->text, name, hint, near, sizeof(near));
    }
    if (config->upstream_count)
        prazo__fault(load, false, given->node->mark, "%s: there is no upstream %s%s", given->path,
                     prazo__show_node(given->node, shown), hint);
}

static void check_listen(struct prazo_load *load, const struct prazo_config_route *route)
{
    const struct prazo_config *config = load->config;
    const struct prazo_given *given = prazo__given(load, &route->listen);
    if (!given || !given->is_ok || !config->listener_count)
        return;
    char shown[PRAZO_SHOWN_BYTES], near[128];
    const char *hint = "";
    for (size_t i = 0; i < config->listener_count; i++) {
        const char *name = config->listeners[i].name;
        if (name && prazo_str_eq(prazo_str_z(name), given->node->text))
            return;
        hint = suggest(given->node->text, name, hint, near, sizeof(near));
    }
    prazo__fault(load, false, given->node->mark, "%s: there is no listener named %s%s", given->path,
                 prazo__show_node(given->node, shown), hint);
}

static void check_methods(struct prazo_load *load, const struct prazo_config_route *route)
{
    for (size_t i = 0; i < route->method_count; i++) {
        const struct prazo_given *given = prazo__given(load, &route->methods);
        const char *method = route->methods[i];
        if (!method)
            continue;
        const struct prazo_node *node =
            given->node->kind == PRAZO_NODE_LIST ? given->node->items[i] : given->node;
        if (strcmp(method, "CONNECT") == 0 || strcmp(method, "TRACE") == 0)
            prazo__fault(load, false, node->mark, "%s: %s is never passed on", given->path, method);
        for (size_t j = 0; j < i; j++)
            if (route->methods[j] && strcmp(route->methods[j], method) == 0)
                prazo__fault(load, false, node->mark, "%s: %s is there twice", given->path, method);
    }
}

static void check_path(struct prazo_load *load, const struct prazo_config_route *route)
{
    const struct prazo_given *given = prazo__given(load, &route->path);
    if (!given || !given->is_ok || !route->path || route->path[0] != '/')
        return;
    struct prazo_str path = prazo_str_z(route->path);
    if (path.base[path.len - 1] == '*')
        path.len--;
    bool is_ambiguous = false;
    if (!prazo_path_is_normal(path, &is_ambiguous))
        prazo__fault(load, false, given->node->mark,
                     "%s: can never match; write letters, digits and -._~ without %%", given->path);
    else if (is_ambiguous && route->method_count)
        prazo__fault(load, false, given->node->mark,
                     "%s: can never match: with methods, paths with // \\ %%2f %%5c %%00 or dot "
                     "segments are refused",
                     given->path);
}

static void check_deadlines(struct prazo_load *load, const int64_t *default_us,
                            const int64_t *max_us, const char *prefix)
{
    const struct prazo_given *given = prazo__given(load, default_us);
    if (!given || !given->is_ok || *default_us <= *max_us)
        return;
    char shown_default[PRAZO_VALUE_TEXT_MAX], shown_max[PRAZO_VALUE_TEXT_MAX];
    prazo_duration_format(shown_default, *default_us);
    prazo_duration_format(shown_max, *max_us);
    prazo__fault(load, false, given->node->mark, "%s: %s is more than %sdeadline.max, which is %s",
                 given->path, shown_default, prazo__given(load, max_us) ? prefix : "", shown_max);
}

static void check_margin(struct prazo_load *load)
{
    const struct prazo_config *config = load->config;
    const struct prazo_given *margin = prazo__given(load, &config->margin_us);
    if (!margin || !margin->is_ok)
        return;
    for (size_t i = 0; i < config->route_count; i++) {
        const struct prazo_config_route *route = &config->routes[i];
        if (config->margin_us < route->deadline_max_us || !route->label)
            continue;
        prazo__fault(load, false, margin->node->mark,
                     "%s: leaves nothing of the deadline of route '%s'", margin->path,
                     route->label);
        return;
    }
}

/* ---- routes behind others ---- */

static bool covers_text(const char *first, const char *second)
{
    return !first || (second && strcasecmp(first, second) == 0);
}

static bool covers_path(const char *first, const char *second)
{
    size_t len = strlen(first);
    if (first[len - 1] == '*')
        return strncmp(first, second, len - 1) == 0;
    return strcmp(first, second) == 0;
}

static bool covers_methods(const struct prazo_config_route *first,
                           const struct prazo_config_route *second)
{
    if (!first->method_count)
        return true;
    for (size_t i = 0; i < second->method_count; i++) {
        bool is_in = false;
        for (size_t j = 0; j < first->method_count; j++)
            is_in |= second->methods[i] && first->methods[j] &&
                     strcmp(first->methods[j], second->methods[i]) == 0;
        if (!is_in)
            return false;
    }
    return second->method_count > 0;
}

static void check_reach(struct prazo_load *load, size_t index)
{
    const struct prazo_config *config = load->config;
    const struct prazo_config_route *route = &config->routes[index];
    const struct prazo_given *routes = prazo__given(load, &config->routes);
    for (size_t i = 0; i < index; i++) {
        const struct prazo_config_route *first = &config->routes[i];
        if (!first->path || !route->path || !covers_text(first->host, route->host) ||
            !covers_text(first->listen, route->listen) || !covers_path(first->path, route->path) ||
            !covers_methods(first, route))
            continue;
        prazo__fault(load, true, routes->node->items[index]->mark,
                     "routes[%zu]: never reached; routes[%zu] in line %u takes all of it", index, i,
                     routes->node->items[i]->mark.line);
        return;
    }
}

static void check_unused(struct prazo_load *load)
{
    const struct prazo_config *config = load->config;
    const struct prazo_given *all = prazo__given(load, &config->upstreams);
    for (size_t i = 0; i < config->upstream_count; i++) {
        bool is_used = false;
        for (size_t j = 0; j < config->route_count; j++)
            is_used |= config->routes[j].upstream_index == i;
        if (!is_used)
            prazo__fault(load, true, all->node->keys[i].mark, "%s.%s: no route leads to it",
                         all->path, config->upstreams[i].name);
    }
}

void prazo__check_routes(struct prazo_load *load)
{
    struct prazo_config *config = load->config;
    const struct prazo_given *routes = prazo__given(load, &config->routes);
    const struct prazo_given *upstreams = prazo__given(load, &config->upstreams);
    if (!routes && config->upstream_count > 1)
        prazo__fault(load, false, upstreams->node->mark,
                     "routes: missing; with more than one upstream they say which requests go "
                     "where");
    for (size_t i = 0; i < config->route_count; i++) {
        struct prazo_config_route *route = &config->routes[i];
        resolve_upstream(load, route, i);
        check_listen(load, route);
        check_methods(load, route);
        check_path(load, route);
        check_deadlines(load, &route->deadline_default_us, &route->deadline_max_us,
                        "this route's ");
    }
    check_deadlines(load, &config->deadline_default_us, &config->deadline_max_us, "");
    check_margin(load);
    if (load->has_errors)
        return;
    check_unused(load);
    for (size_t i = 0; i < config->route_count; i++)
        check_reach(load, i);
}
