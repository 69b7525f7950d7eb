/* SPDX-License-Identifier: MIT */
/* Decides what an admin request gets; answers nothing itself.
 *
 * Cross-site requests (contract 11). A web page can make its visitor's browser send requests to
 * this port. Two things give that away, and either refuses the request on the admin port:
 *   - Origin (or Sec-Fetch-Site) names another site than Host;
 *   - Host is a name other than localhost. With DNS rebinding a page's own name points to this
 *     machine, so that Origin and Host agree; a name can lie in that way, an IP address cannot.
 * Host may be missing (HTTP/1.0). The probe port has no such check, nor have /healthz and /readyz:
 * balancers, kubelets and Prometheus come by name, and there is little to learn or change there. */
#include "gateway/admin_plan.h"

#include <arpa/inet.h>

#include "core/problem.h"
#include "gateway/problems_doc.h"

/* ---- where from ---- */

static bool is_ip(struct prazo_str host, int family)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char ip[sizeof(struct in6_addr)];
    if (host.len == 0 || host.len >= sizeof text)
        return false;
    memcpy(text, host.base, host.len);
    text[host.len] = '\0';
    return strlen(text) == host.len && inet_pton(family, text, ip) == 1;
}

/* host[:port] with an IP literal or localhost. */
static bool is_safe_host(struct prazo_str authority)
{
    const char *close = memchr(authority.base, ']', authority.len);
    if (close && authority.base[0] == '[')
        return is_ip(prazo_str_n(authority.base + 1, (size_t)(close - authority.base) - 1),
                     AF_INET6);
    const char *colon = memchr(authority.base, ':', authority.len);
    struct prazo_str host = authority;
    if (colon)
        host.len = (size_t)(colon - authority.base);
    return is_ip(host, AF_INET) || prazo_str_eq_nocase(host, PRAZO_STR("localhost"));
}

static struct prazo_str get(const struct prazo_head *head, struct prazo_str name)
{
    for (size_t i = 0; i < head->header_count; i++)
        if (prazo_str_eq(head->headers[i].name, name))
            return head->headers[i].value;
    return prazo_str_n(NULL, 0);
}

static bool is_same_origin(struct prazo_str origin, struct prazo_str authority)
{
    static const struct prazo_str schemes[] = { PRAZO_STR_INIT("http://"),
                                                PRAZO_STR_INIT("https://") };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        const size_t len = schemes[i].len;
        if (prazo_str_has_prefix(origin, schemes[i]))
            return authority.base &&
                   prazo_str_eq_nocase(prazo_str_n(origin.base + len, origin.len - len), authority);
    }
    return false; /* "null" and what else is no web page */
}

static bool is_cross_site(const struct prazo_head *head)
{
    const struct prazo_str origin = get(head, PRAZO_STR("origin"));
    const struct prazo_str site = get(head, PRAZO_STR("sec-fetch-site"));
    if (head->authority.len > 0 && !is_safe_host(head->authority))
        return true;
    if (origin.base && !is_same_origin(origin, head->authority))
        return true;
    /* Images and scripts come without Origin. Following a link is no attack: nothing is changed and
     * the page that has the link learns nothing. */
    return site.base && !prazo_str_eq(site, PRAZO_STR("same-origin")) &&
           !prazo_str_eq(site, PRAZO_STR("none")) &&
           !prazo_str_eq(get(head, PRAZO_STR("sec-fetch-mode")), PRAZO_STR("navigate"));
}

/* ---- in which format ---- */

/* Takes the part up to the next ';' off *rest. */
static struct prazo_str next_parameter(struct prazo_str *rest)
{
    const char *end = rest->len ? memchr(rest->base, ';', rest->len) : NULL;
    struct prazo_str part = *rest;
    if (end) {
        part.len = (size_t)(end - rest->base);
        *rest = prazo_str_n(end + 1, rest->len - part.len - 1);
    } else {
        rest->len = 0;
    }
    return prazo_str_trim(part);
}

/* "q=0.5" in thousandths; 1000 for other parameters and what is malformed. */
static int weight_of(struct prazo_str parameter)
{
    int weight = 0, unit = 1000;
    if (parameter.len < 3 || prazo_lower(parameter.base[0]) != 'q' || parameter.base[1] != '=')
        return 1000;
    for (size_t i = 2; i < parameter.len && unit > 0; i++) {
        const char c = parameter.base[i];
        if (c == '.' && i == 3)
            continue;
        if (c < '0' || c > '9')
            return 1000;
        weight += (c - '0') * unit;
        unit /= 10;
    }
    return weight < 1000 ? weight : 1000;
}

/* OpenMetrics if the client named it and likes nothing better (RFC 9110 §12.5.1). */
static bool wants_open_metrics(const struct prazo_head *head)
{
    int open = 0, text = 0;
    for (size_t i = 0; i < head->header_count; i++) {
        struct prazo_str rest = head->headers[i].value, item;
        if (!prazo_str_eq(head->headers[i].name, PRAZO_STR("accept")))
            continue;
        while (prazo_str_next_item(&rest, &item)) {
            const struct prazo_str type = next_parameter(&item);
            int weight = 1000;
            while (item.len > 0) {
                const int w = weight_of(next_parameter(&item));
                weight = w < weight ? w : weight;
            }
            int *best = prazo_str_eq_nocase(type, PRAZO_STR("application/openmetrics-text"))
                            ? &open
                            : &text;
            const bool is_ours =
                best == &open || prazo_str_eq_nocase(type, PRAZO_STR("text/plain")) ||
                prazo_str_eq(type, PRAZO_STR("text/*")) || prazo_str_eq(type, PRAZO_STR("*/*"));
            if (is_ours && weight > *best)
                *best = weight;
        }
    }
    return open > 0 && open >= text;
}

/* ---- which page ---- */

static const struct {
    struct prazo_str path;
    enum admin_page page;
    bool is_probe; /* on the probe port too */
} pages[] = {
    { PRAZO_STR_INIT("/healthz"), ADMIN_HEALTHZ, true },
    { PRAZO_STR_INIT("/readyz"), ADMIN_READYZ, true },
    { PRAZO_STR_INIT("/metrics"), ADMIN_METRICS, true },
    { PRAZO_STR_INIT("/api/state"), ADMIN_STATE, false },
    { PRAZO_STR_INIT("/api/stream"), ADMIN_STREAM, false },
    { PRAZO_STR_INIT("/problems/"), ADMIN_PROBLEMS, false },
};

static enum admin_page find_page(struct prazo_str path, bool is_probe,
                                 struct prazo_str *ret_section)
{
    const struct prazo_str problems = PRAZO_STR("/problems/");
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (prazo_str_eq(path, pages[i].path) && (pages[i].is_probe || !is_probe))
            return pages[i].page;
    if (is_probe || !prazo_str_has_prefix(path, problems))
        return ADMIN_NO_ROUTE;
    const struct prazo_str name = prazo_str_n(path.base + problems.len, path.len - problems.len);
    if (prazo_problem_by_name(name) == PRAZO_PROBLEM_NONE)
        return ADMIN_NO_ROUTE;
    *ret_section = prazo_problems_doc_section(name);
    return ret_section->base ? ADMIN_PROBLEM : ADMIN_NO_ROUTE;
}

static void take_request_id(const struct prazo_head *head, struct prazo_admin_plan *plan)
{
    const struct prazo_header *header = prazo_head_get(head, PRAZO_HDR_X_REQUEST_ID);
    if (!header || header->value.len == 0 || header->value.len > sizeof plan->request_id)
        return;
    for (size_t i = 0; i < header->value.len; i++)
        if (header->value.base[i] <= ' ' || header->value.base[i] > '~')
            return;
    memcpy(plan->request_id, header->value.base, header->value.len);
    plan->request_id_len = header->value.len;
}

void prazo_admin_plan(const struct prazo_head *head, bool is_probe,
                      struct prazo_admin_plan *ret_plan)
{
    struct prazo_admin_plan *plan = ret_plan;
    memset(plan, 0, sizeof *plan);
    plan->is_head = head->method_id == PRAZO_METHOD_HEAD;
    take_request_id(head, plan);
    plan->page = find_page(head->path, is_probe, &plan->section);
    const bool is_health = plan->page == ADMIN_HEALTHZ || plan->page == ADMIN_READYZ;
    if (!is_probe && !is_health && is_cross_site(head)) {
        plan->page = ADMIN_FORBIDDEN;
        return;
    }
    if (plan->page != ADMIN_NO_ROUTE && !plan->is_head && head->method_id != PRAZO_METHOD_GET)
        plan->page = ADMIN_METHOD_NOT_ALLOWED;
    if (plan->page == ADMIN_METRICS)
        plan->is_open_metrics = wants_open_metrics(head);
}
