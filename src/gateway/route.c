/* SPDX-License-Identifier: MIT */
/* Routes in file order, the first that matches (contract 7, 13). The path is matched with its
 * unreserved %XX decoded; the upstream gets it as it was sent. */
#include "gateway/route.h"

#include "core/path.h"
#include "http/h1.h"

/* Without the port, and an IPv6 literal with its brackets. */
static struct prazo_str host_of(struct prazo_str authority)
{
    size_t len = authority.len;

    while (len > 0 && authority.base[len - 1] >= '0' && authority.base[len - 1] <= '9')
        len--;
    return len > 0 && authority.base[len - 1] == ':' ? prazo_str_n(authority.base, len - 1)
                                                     : authority;
}

static bool has_method(const struct prazo_config_route *route, struct prazo_str method)
{
    if (route->methods == NULL)
        return true;
    for (size_t i = 0; i < route->method_count; i++) {
        if (prazo_str_eq(prazo_str_z(route->methods[i]), method))
            return true;
    }
    return false;
}

/* All but the method. */
static bool matches(const struct prazo_config_route *route, struct prazo_str path,
                    struct prazo_str authority, const char *listener)
{
    if (route->path != NULL && !prazo_path_matches(prazo_str_z(route->path), path))
        return false;
    if (route->listen != NULL && strcmp(route->listen, listener) != 0)
        return false;
    return route->host == NULL ||
           (authority.base != NULL &&
            prazo_str_eq_nocase(prazo_str_z(route->host), host_of(authority)));
}

static void take(struct prazo_call *call, size_t index)
{
    struct prazo_snapshot *s = call->view->snapshot;
    size_t upstream = s->config->routes[index].upstream_index;

    call->route = &s->config->routes[index];
    call->series = s->routes[index];
    call->upstream_config = &s->config->upstreams[upstream];
    call->upstream = s->upstreams[upstream];
    call->servers = s->servers[upstream];
}

/* Allow lists what routes of this path take; kept short, each method once. */
static void add_allowed(struct prazo_call *call, const struct prazo_config_route *route)
{
    char *at = (char *)(uintptr_t)call->allow.base;

    for (size_t i = 0; at != NULL && i < route->method_count; i++) {
        struct prazo_str m = prazo_str_n(route->methods[i], strlen(route->methods[i]));
        if (call->allow.len + m.len + 2 > PRAZO_ALLOW_BYTES_MAX ||
            prazo_h1_list_has(call->allow, m))
            continue;
        if (call->allow.len > 0) {
            memcpy(at + call->allow.len, ", ", 2);
            call->allow.len += 2;
        }
        memcpy(at + call->allow.len, m.base, m.len);
        call->allow.len += m.len;
    }
}

enum prazo_problem prazo_call_route(struct prazo_call *call, const struct prazo_head *head,
                                    const char **ret_detail)
{
    const struct prazo_config *config = call->view->snapshot->config;
    const char *listener = prazo_call_listener_name(call);
    struct prazo_str path = call->path;
    bool is_ambiguous, is_other_method = false;

    if (path.base[0] == '*')
        return PRAZO_PROBLEM_NONE;
    if (!prazo_path_is_normal(path, &is_ambiguous)) {
        char *normal = prazo_arena_alloc(&call->arena, path.len);
        if (normal == NULL)
            return PRAZO_PROBLEM_INTERNAL;
        path = prazo_str_n(normal, prazo_path_normalize(path, normal, &is_ambiguous));
    }
    for (size_t i = 0; i < config->route_count; i++) {
        const struct prazo_config_route *route = &config->routes[i];
        if (!matches(route, path, head->authority, listener))
            continue;
        if (!has_method(route, call->method)) {
            if (!is_other_method)
                call->allow =
                    prazo_str_n(prazo_arena_alloc(&call->arena, PRAZO_ALLOW_BYTES_MAX), 0);
            add_allowed(call, route);
            is_other_method = true;
            continue;
        }
        if (is_ambiguous && route->needs_clean_path) {
            *ret_detail = "The path can be read in more than one way.";
            return PRAZO_PROBLEM_BAD_REQUEST;
        }
        take(call, i);
        return PRAZO_PROBLEM_NONE;
    }
    *ret_detail = is_other_method ? "No route takes this method here." : NULL;
    return is_other_method ? PRAZO_PROBLEM_METHOD_NOT_ALLOWED : PRAZO_PROBLEM_NO_ROUTE;
}
