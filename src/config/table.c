/* SPDX-License-Identifier: MIT */
/* Every configuration key, once: name, type, place, default, bounds, help. The order is that of the
 * reference and of the effective configuration. A key has a row only if the program obeys it.
 *
 * Bounds are there against slips of the pen (an hour instead of a second) and against numbers that
 * memory cannot carry; where a bound has another reason, it stands beside the row. */
#include "config/table.h"

#include "config/config.h"

#include <string.h>

#define KIB (INT64_C(1) << 10)
#define MIB (INT64_C(1) << 20)
#define TIB (INT64_C(1) << 40)
#define US INT64_C(1)
#define MS (1000 * US)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)

#define FIELD(type, name)                                                                          \
    .offset = offsetof(struct type, name), .width = sizeof(((struct type *)0)->name)
#define BESIDE(type, name) .beside = offsetof(struct type, name)
#define CONFIG(name) .in = PRAZO_IN_CONFIG, FIELD(prazo_config, name)
#define LISTENER(name) .in = PRAZO_IN_LISTENER, FIELD(prazo_config_listener, name)
#define UPSTREAM(name) .in = PRAZO_IN_UPSTREAM, FIELD(prazo_config_upstream, name)
#define SERVER(name) .in = PRAZO_IN_SERVER, FIELD(prazo_config_server, name)
#define ROUTE(name) .in = PRAZO_IN_ROUTE, FIELD(prazo_config_route, name)
#define NONE .words = "none", .word_value = PRAZO_CONFIG_NONE

/* Threads beyond this would need more per-thread counter blocks than the metrics keep. */
#define THREADS_MAX 64

/* One row reads best as two to four lines; the formatter would make a line of every field. */
/* clang-format off */
const struct prazo_key prazo_keys[] = {
    { .path = "name", .type = PRAZO_KEY_TEXT, CONFIG(name), .otherwise = "the host's name",
      .help = "Name of this process in its log and state; nothing else depends on it." },

    { .path = "listen", .type = PRAZO_KEY_LIST, CONFIG(listeners),
      BESIDE(prazo_config, listener_count), .entry_bytes = sizeof(struct prazo_config_listener),
      .otherwise = "required", .min = 1, .max = 64,
      .help = "Where clients connect: an address, or a list." },
    { .path = "listen[]", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_LISTENER, .scalar = "address",
      .help = "One listener; an address stands for `{address: …}`." },
    { .path = "listen[].name", .type = PRAZO_KEY_NAME, LISTENER(name),
      .otherwise = "`default` for a single listener, else `listen-1`, `listen-2`, …",
      .help = "Its label in metrics, and what a route's `listen` refers to." },
    { .path = "listen[].address", .type = PRAZO_KEY_ADDRESS, LISTENER(address),
      BESIDE(prazo_config_listener, addr), .otherwise = "required",
      .help = "IP and port, `:port` for every interface, or `unix:/path`." },
    { .path = "listen[].trust", .type = PRAZO_KEY_LIST, LISTENER(cidrs),
      BESIDE(prazo_config_listener, cidr_count),
      .word_at = offsetof(struct prazo_config_listener, trust),
      .entry_bytes = sizeof(struct prazo_cidr), .fallback = "loopback",
      .words = "none|all|loopback", .min = 1, .max = 1000,
      .help = "Whose `x-deadline-sent-ms`, `x-retry-budget`, `x-attempt`, `prazo-*` and "
              "`x-forwarded-*` headers are believed. `loopback` is 127.0.0.0/8, ::1 and the peers "
              "of a Unix socket; a list names address blocks and nothing else." },
    { .path = "listen[].trust[]", .type = PRAZO_KEY_CIDR, .in = PRAZO_IN_ENTRY,
      .width = sizeof(struct prazo_cidr), .help = "An address block; its host bits are 0." },
    { .path = "listen[].half_close", .type = PRAZO_KEY_WORD, LISTENER(half_close_waits),
      .fallback = "abandon", .words = "abandon|wait",
      .help = "What a client's FIN before its answer is complete means: it has gone, or it only "
              "has nothing more to send." },

    { .path = "admin", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_CONFIG, .scalar = "address",
      .needs_restart = true, .help = "The admin port; an address stands for `{address: …}`." },
    { .path = "admin.address", .type = PRAZO_KEY_ADDRESS, CONFIG(admin_address),
      BESIDE(prazo_config, admin_addr), .fallback = "127.0.0.1:9901", .words = "none",
      .needs_restart = true,
      .help = "Where metrics, health and state are served. If nothing is configured and the "
              "default address is taken, prazo warns and runs without; a configured address that "
              "is taken ends the start with exit code 2." },
    { .path = "probe", .type = PRAZO_KEY_ADDRESS, CONFIG(probe_address),
      BESIDE(prazo_config, probe_addr), .fallback = "none", .words = "none",
      .needs_restart = true,
      .help = "An address for `/healthz`, `/readyz` and `/metrics` only, such as for a kubelet." },
    { .path = "threads", .type = PRAZO_KEY_COUNT, CONFIG(threads), .fallback = "auto",
      .words = "auto", .word_value = PRAZO_CONFIG_AUTO, .min = 1, .max = THREADS_MAX,
      .needs_restart = true,
      .help = "Event loops. `auto`: the smallest of CPU affinity, cgroup CPU quota rounded up, "
              "and 4." },

    { .path = "log", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_CONFIG, .help = "The log, to stderr." },
    { .path = "log.level", .type = PRAZO_KEY_WORD, CONFIG(log_level), .fallback = "info",
      .words = "debug|info|warn|error", .help = "The least important level that is written." },
    { .path = "log.requests", .type = PRAZO_KEY_WORD, CONFIG(log_requests), .fallback = "errors",
      .words = "errors|all|none",
      .help = "Which requests get a line: those that prazo answered itself or that failed, all, "
              "or none." },
    { .path = "log.format", .type = PRAZO_KEY_WORD, CONFIG(log_format), .words = "json|text",
      .otherwise = "`text` on a terminal, else `json`", .help = "One line a message in both." },
    { .path = "log.query", .type = PRAZO_KEY_SWITCH, CONFIG(log_query), .fallback = "off",
      .words = "on|off",
      .help = "Whether query strings are logged: they often hold personal data." },

    { .path = "deadline", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_CONFIG,
      .scalar = "default|max",
      .help = "How long a request may take; a duration stands for both `default` and `max`." },
    { .path = "deadline.default", .type = PRAZO_KEY_DURATION, CONFIG(deadline_default_us),
      .otherwise = "10s, or `deadline.max` if that is less", .min = MS, .max = 366 * DAY,
      .help = "For requests that bring no deadline." },
    { .path = "deadline.max", .type = PRAZO_KEY_DURATION, CONFIG(deadline_max_us),
      .fallback = "10s", .min = MS, .max = 366 * DAY, .help = "No request gets more." },
    { .path = "deadline.margin", .type = PRAZO_KEY_DURATION, CONFIG(margin_us),
      .fallback = "auto", .words = "auto", .word_value = 0, .min = MS, .max = HOUR,
      .help = "What is kept back so that the answer still finds somebody listening. `auto`: a "
              "twentieth of what is left, 1 ms to 150 ms." },
    { .path = "deadline.skew", .type = PRAZO_KEY_DURATION, CONFIG(skew_us), .fallback = "5s",
      .min = 0, .max = DAY,
      .help = "Clocks farther apart than this disagree: then the time between the sender's two "
              "instants counts, not the local clock." },
    { .path = "deadline.malformed", .type = PRAZO_KEY_WORD, CONFIG(rejects_malformed),
      .fallback = "default", .words = "default|reject",
      .help = "A malformed deadline counts as absent, or is answered with 400." },

    { .path = "limits", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_CONFIG,
      .help = "What one request or connection may use." },
    { .path = "limits.headers", .type = PRAZO_KEY_SIZE, CONFIG(limit_headers),
      .fallback = "32KiB", .min = KIB, .max = MIB,
      .help = "Header section of a request or an answer, all lines together." },
    { .path = "limits.uri", .type = PRAZO_KEY_SIZE, CONFIG(limit_uri), .min = 64, .max = MIB,
      .otherwise = "8KiB, or `limits.headers` if that is less", .help = "The request target." },
    { .path = "limits.body", .type = PRAZO_KEY_SIZE, CONFIG(limit_body), .fallback = "none", NONE,
      .min = 1, .max = 1024 * TIB, .help = "The body of a request." },
    { .path = "limits.replay_body", .type = PRAZO_KEY_SIZE, CONFIG(limit_replay_body),
      .fallback = "64KiB", .min = 0, .max = 64 * MIB,
      .help = "Bodies up to this size are held so that they can be sent again; larger ones stream "
              "through." },
    { .path = "limits.answer_buffer", .type = PRAZO_KEY_SIZE, CONFIG(limit_answer_buffer),
      .fallback = "256KiB", .min = 4 * KIB, .max = 64 * MIB,
      .help = "How much of an answer is read ahead of a slow client." },
    { .path = "limits.connections", .type = PRAZO_KEY_COUNT, CONFIG(limit_connections),
      .fallback = "10000", .min = 1, .max = 1000000,
      .help = "Client connections of the process; beyond it prazo stops accepting." },
    { .path = "limits.header_time", .type = PRAZO_KEY_DURATION, CONFIG(limit_header_time_us),
      .fallback = "10s", .min = MS, .max = HOUR,
      .help = "From the first byte of a request to the end of its header section." },
    { .path = "limits.idle", .type = PRAZO_KEY_DURATION, CONFIG(limit_idle_us), .fallback = "75s",
      .min = MS, .max = DAY, .help = "How long a client connection may lie idle." },

    { .path = "shutdown", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_CONFIG,
      .help = "What happens after SIGTERM." },
    { .path = "shutdown.delay", .type = PRAZO_KEY_DURATION, CONFIG(shutdown_delay_us),
      .fallback = "2s", .min = 0, .max = HOUR,
      .help = "Listeners serve on for at least this long, so that load balancers notice." },
    { .path = "shutdown.drain", .type = PRAZO_KEY_DURATION, CONFIG(shutdown_drain_us),
      .fallback = "10s", .min = 0, .max = HOUR,
      .help = "How long connections that still send requests keep the listeners open after the "
              "delay, and how long work in flight may take after that." },

    { .path = "problems", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_CONFIG,
      .help = "Problem documents (RFC 9457) of prazo's own answers." },
    { .path = "problems.base_url", .type = PRAZO_KEY_URL, CONFIG(problems_base_url),
      .fallback = "none", .words = "none",
      .help = "What their `type` begins with instead of `urn:prazo:problem:`." },

    { .path = "upstream", .type = PRAZO_KEY_SINGLE, CONFIG(upstreams),
      .help = "Short for `upstreams: {default: …}`." },
    { .path = "upstreams", .type = PRAZO_KEY_NAMED, CONFIG(upstreams),
      BESIDE(prazo_config, upstream_count), .entry_bytes = sizeof(struct prazo_config_upstream),
      .otherwise = "required", .min = 1, .max = 1000,
      .help = "Where requests go, by name; this, or `upstream` for a single one." },
    { .path = "upstreams.*", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_UPSTREAM,
      .scalar = "servers", .help = "One upstream; an address or a list of them stands for "
                                   "`{servers: …}`. The name is its label in metrics." },
    { .path = "upstreams.*.servers", .type = PRAZO_KEY_LIST, UPSTREAM(servers),
      BESIDE(prazo_config_upstream, server_count),
      .entry_bytes = sizeof(struct prazo_config_server), .otherwise = "required", .min = 1,
      .max = 64, .help = "Servers that do the same work." },
    { .path = "upstreams.*.servers[]", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_SERVER,
      .scalar = "address", .help = "One server; an address stands for `{address: …}`." },
    { .path = "upstreams.*.servers[].address", .type = PRAZO_KEY_SERVER, SERVER(address),
      .otherwise = "required",
      .help = "IP and port, `unix:/path`, or `host:port`; a name is resolved again as its TTL "
              "says." },
    { .path = "upstreams.*.host", .type = PRAZO_KEY_HOST, UPSTREAM(host_name),
      BESIDE(prazo_config_upstream, host_mode), .fallback = "keep", .words = "keep|server",
      .help = "The Host that is sent: the client's, the server's address, or a name." },
    { .path = "upstreams.*.connections", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_UPSTREAM,
      .help = "Connections to the upstream." },
    { .path = "upstreams.*.connections.max", .type = PRAZO_KEY_COUNT, UPSTREAM(connections_max),
      .fallback = "none", NONE, .min = 1, .max = 65535,
      .help = "Open at the same time, all servers together." },
    { .path = "upstreams.*.connections.idle", .type = PRAZO_KEY_COUNT, UPSTREAM(connections_idle),
      .fallback = "32", .min = 0, .max = 65535, .help = "Kept open without work." },
    { .path = "upstreams.*.connections.idle_timeout", .type = PRAZO_KEY_DURATION,
      UPSTREAM(idle_timeout_us), .fallback = "4s", .min = MS, .max = DAY,
      .help = "How long one may lie idle: less than the server's own limit (often 5 s), or a "
              "request meets a closing connection." },
    { .path = "upstreams.*.connect_timeout", .type = PRAZO_KEY_DURATION,
      UPSTREAM(connect_timeout_us), .fallback = "500ms", .min = MS, .max = HOUR,
      .help = "The whole connect phase, all servers together." },
    { .path = "upstreams.*.attempt_timeout", .type = PRAZO_KEY_DURATION,
      UPSTREAM(attempt_timeout_us), .fallback = "none", NONE, .min = MS, .max = DAY,
      .help = "One attempt, all of it, where another could follow. This version never repeats "
              "an attempt, so it changes nothing yet." },
    { .path = "upstreams.*.read_timeout", .type = PRAZO_KEY_DURATION, UPSTREAM(read_timeout_us),
      .fallback = "none", NONE, .min = MS, .max = DAY,
      .help = "Longest silence while an answer is expected." },
    { .path = "upstreams.*.abandon_wait", .type = PRAZO_KEY_DURATION, UPSTREAM(abandon_wait_us),
      .fallback = "10s", .min = 0, .max = HOUR,
      .help = "How long an abandoned attempt is watched for its end." },
    { .path = "upstreams.*.finish_timeout", .type = PRAZO_KEY_DURATION,
      UPSTREAM(finish_timeout_us), .fallback = "60s", .min = MS, .max = DAY,
      .help = "How long an abandoned attempt may go on under `on_abandon: finish`." },
    { .path = "upstreams.*.clock", .type = PRAZO_KEY_WORD, UPSTREAM(is_foreign),
      .fallback = "shared", .words = "shared|foreign",
      .help = "`shared`: deadlines are sent as instants. `foreign`, for third parties: as a "
              "duration, `x-timeout-ms`." },
    { .path = "upstreams.*.on_abandon", .type = PRAZO_KEY_WORD, UPSTREAM(on_abandon),
      .fallback = "close", .words = "close|drain|finish",
      .help = "What becomes of an attempt whose request is abandoned: hang up and watch, read on "
              "and keep the connection, or let it complete." },
    { .path = "upstreams.*.eject", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_UPSTREAM,
      .help = "Leaving out a server that cannot be reached; never the last one." },
    { .path = "upstreams.*.eject.after", .type = PRAZO_KEY_COUNT, UPSTREAM(eject.after),
      .fallback = "5", .min = 1, .max = 1000000,
      .help = "Consecutive connect failures or resets." },
    { .path = "upstreams.*.eject.for", .type = PRAZO_KEY_DURATION, UPSTREAM(eject.for_us),
      .fallback = "10s", .min = MS, .max = DAY, .help = "How long it gets no requests." },
    { .path = "upstreams.*.eject.most", .type = PRAZO_KEY_PERCENT, UPSTREAM(eject.most_percent),
      .fallback = "50%", .min = 0, .max = 100,
      .help = "The share of servers that may be out at the same time; 0% ejects none." },

    { .path = "routes", .type = PRAZO_KEY_LIST, CONFIG(routes), BESIDE(prazo_config, route_count),
      .entry_bytes = sizeof(struct prazo_config_route), .min = 1, .max = 1000,
      .otherwise = "everything goes to the only upstream",
      .help = "Which requests go where; the first that matches, in the order of the file." },
    { .path = "routes[]", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_ROUTE,
      .help = "One route. Its label in metrics is made of methods, host and path, such as "
              "`POST /orders/*`; a second one of the same label gets ` #2`." },
    { .path = "routes[].path", .type = PRAZO_KEY_PATH, ROUTE(path), .fallback = "*",
      .help = "A path, or a prefix that ends in `*`." },
    { .path = "routes[].methods", .type = PRAZO_KEY_LIST, ROUTE(methods),
      BESIDE(prazo_config_route, method_count), .entry_bytes = sizeof(char *), .min = 1,
      .max = 32, .otherwise = "all",
      .help = "Methods that match. With them, paths that can be read in two ways are refused." },
    { .path = "routes[].methods[]", .type = PRAZO_KEY_METHOD, .in = PRAZO_IN_ENTRY,
      .width = sizeof(char *), .help = "A method." },
    { .path = "routes[].host", .type = PRAZO_KEY_HOST, ROUTE(host), .otherwise = "any",
      .help = "The Host that matches, without its port." },
    { .path = "routes[].listen", .type = PRAZO_KEY_NAME, ROUTE(listen), .otherwise = "any",
      .help = "The name of the listener that matches." },
    { .path = "routes[].upstream", .type = PRAZO_KEY_UPSTREAM, ROUTE(upstream_index),
      .otherwise = "the only one", .help = "The upstream's name." },
    { .path = "routes[].deadline", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_ROUTE,
      .scalar = "default|max", .help = "As `deadline`, for this route." },
    { .path = "routes[].deadline.default", .type = PRAZO_KEY_DURATION, ROUTE(deadline_default_us),
      .otherwise = "`deadline.default`, or this route's `max` if that is less", .min = MS,
      .max = 366 * DAY, .help = "For requests that bring no deadline." },
    { .path = "routes[].deadline.max", .type = PRAZO_KEY_DURATION, ROUTE(deadline_max_us),
      .otherwise = "`deadline.max`", .min = MS, .max = 366 * DAY,
      .help = "No request gets more." },
    { .path = "routes[].deadline.covers", .type = PRAZO_KEY_WORD, ROUTE(covers_head),
      .fallback = "answer", .words = "answer|head",
      .help = "Whether the deadline is for the whole answer or for its head." },
    { .path = "routes[].stream", .type = PRAZO_KEY_SECTION, .in = PRAZO_IN_ROUTE,
      .help = "Bounds after the head, where the deadline covers the head only; always for event "
              "streams and switched protocols." },
    { .path = "routes[].stream.idle", .type = PRAZO_KEY_DURATION, ROUTE(stream_idle_us),
      .fallback = "60s", .min = MS, .max = DAY, .help = "Longest silence." },
    { .path = "routes[].stream.max", .type = PRAZO_KEY_DURATION, ROUTE(stream_max_us),
      .fallback = "1h", .min = MS, .max = 366 * DAY, .help = "The whole stream." },
    { .path = "routes[].on_abandon", .type = PRAZO_KEY_WORD, ROUTE(on_abandon),
      .otherwise = "the upstream's", .words = "close|drain|finish",
      .help = "As the upstream's `on_abandon`, for this route." },
    { .path = "routes[].upgrade", .type = PRAZO_KEY_LIST, ROUTE(upgrades),
      BESIDE(prazo_config_route, upgrade_count), .entry_bytes = sizeof(char *), .words = "none",
      .fallback = "none", .min = 1, .max = 16,
      .help = "Protocols that may be switched to, such as `websocket`." },
    { .path = "routes[].upgrade[]", .type = PRAZO_KEY_PROTOCOL, .in = PRAZO_IN_ENTRY,
      .width = sizeof(char *), .help = "A protocol name of the Upgrade header." },
};
/* clang-format on */

const size_t prazo_key_count = sizeof(prazo_keys) / sizeof(prazo_keys[0]);

const struct prazo_key *prazo_key_find(const char *path)
{
    for (size_t i = 0; i < prazo_key_count; i++)
        if (strcmp(prazo_keys[i].path, path) == 0)
            return &prazo_keys[i];
    return NULL;
}

struct prazo_str prazo_key_name_in(const struct prazo_key *key, const struct prazo_key *parent)
{
    const char *name = key->path;
    if (parent) {
        size_t len = strlen(parent->path);
        if (strncmp(name, parent->path, len) != 0 || name[len] != '.')
            return (struct prazo_str){ NULL, 0 };
        name += len + 1;
    }
    if (strpbrk(name, ".[*"))
        return (struct prazo_str){ NULL, 0 };
    return prazo_str_z(name);
}

const struct prazo_key *prazo_key_child(const struct prazo_key *parent, struct prazo_str name)
{
    for (size_t i = 0; i < prazo_key_count; i++) {
        struct prazo_str own = prazo_key_name_in(&prazo_keys[i], parent);
        if (own.base && prazo_str_eq(own, name))
            return &prazo_keys[i];
    }
    return NULL;
}

const struct prazo_key *prazo_key_entry(const struct prazo_key *key)
{
    /* The entry's row stands right behind its list's. */
    return key + 1;
}

struct prazo_str prazo_word_at(const char *words, int index)
{
    for (const char *at = words; at && *at; index--) {
        const char *end = strchrnul(at, '|');
        if (index == 0)
            return prazo_str_n(at, (size_t)(end - at));
        at = *end ? end + 1 : end;
    }
    return (struct prazo_str){ NULL, 0 };
}

int prazo_word_index(const char *words, struct prazo_str text)
{
    for (int i = 0;; i++) {
        struct prazo_str word = prazo_word_at(words, i);
        if (!word.base)
            return -1;
        if (prazo_str_eq(word, text))
            return i;
    }
}
