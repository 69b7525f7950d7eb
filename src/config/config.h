/* SPDX-License-Identifier: MIT */
/* The configuration as the rest of the program reads it: parsed, checked, immutable. One snapshot
 * is made by prazo_config_load_*() and freed by prazo_config_unref(); who keeps a pointer holds a
 * reference (atomic, any thread). Durations are µs, sizes bytes; "none" is PRAZO_CONFIG_NONE. */
#ifndef PRAZO_CONFIG_CONFIG_H
#define PRAZO_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "core/cidr.h"
#include "core/eject.h"
#include "core/problem.h"
#include "io/io.h"

#define PRAZO_CONFIG_NONE ((int64_t)-1)
#define PRAZO_CONFIG_AUTO ((int64_t)-2)

enum prazo_trust_kind { PRAZO_TRUST_NONE = 0, PRAZO_TRUST_ALL, PRAZO_TRUST_LIST };

struct prazo_config_listener {
    char *name; /* default "listen-<index>", or "default" for a single one without a name */
    char *address;
    struct prazo_addr addr;
    enum prazo_trust_kind trust;
    struct prazo_cidr *cidrs; /* trust list; default 127.0.0.0/8, ::1 */
    size_t cidr_count;
    bool trusts_unix; /* a Unix socket's peers count as loopback: true unless trust is none or a
                         list was given */
    bool half_close_waits;
};

enum prazo_abandon { PRAZO_ABANDON_CLOSE = 0, PRAZO_ABANDON_DRAIN, PRAZO_ABANDON_FINISH };
enum prazo_host_mode { PRAZO_HOST_KEEP = 0, PRAZO_HOST_SERVER, PRAZO_HOST_NAME };

struct prazo_config_server {
    char *address; /* as configured */
    bool is_name;  /* host:port to be resolved; else addr is set */
    struct prazo_addr addr;
    char *host; /* of a name */
    uint16_t port;
};

struct prazo_config_upstream {
    char *name;
    struct prazo_config_server *servers;
    size_t server_count;
    enum prazo_host_mode host_mode;
    char *host_name;         /* PRAZO_HOST_NAME */
    int64_t connections_max; /* NONE or a number */
    int64_t connections_idle;
    int64_t idle_timeout_us;
    int64_t connect_timeout_us;
    int64_t attempt_timeout_us; /* or NONE */
    int64_t read_timeout_us;    /* or NONE */
    int64_t abandon_wait_us;
    int64_t finish_timeout_us;
    bool is_foreign; /* clock: foreign */
    enum prazo_abandon on_abandon;
    struct prazo_eject_policy eject;
};

struct prazo_config_route {
    char *label;    /* metrics label: methods, host and path, such as "POST /orders"; unique */
    char *path;     /* exact, or a prefix ending in '*'; "*" (the default) matches everything */
    char **methods; /* upper case; NULL: all */
    size_t method_count;
    char *host;   /* NULL: any; compared without port, case-insensitively */
    char *listen; /* NULL: any */
    size_t upstream_index;
    int64_t deadline_default_us, deadline_max_us;
    bool covers_head; /* deadline.covers: head */
    int64_t stream_idle_us, stream_max_us;
    bool has_on_abandon;
    enum prazo_abandon on_abandon;
    char **upgrades; /* lower case */
    size_t upgrade_count;
    bool needs_clean_path; /* methods (later rate, idempotency): ambiguous paths are 400 */
};

enum prazo_log_requests {
    PRAZO_LOG_REQUESTS_ERRORS = 0,
    PRAZO_LOG_REQUESTS_ALL,
    PRAZO_LOG_REQUESTS_NONE
};

struct prazo_config {
    char *name;
    char *source; /* file name as given, or "command line" */
    struct prazo_config_listener *listeners;
    size_t listener_count;
    char *admin_address; /* NULL: none */
    struct prazo_addr admin_addr;
    bool admin_is_default; /* not configured: if it is taken, a warning and no admin port */
    char *probe_address;   /* NULL: none */
    struct prazo_addr probe_addr;
    int threads;    /* resolved number, 1.. */
    int log_level;  /* enum prazo_log_level */
    int log_format; /* enum prazo_log_format; text on a terminal unless given */
    enum prazo_log_requests log_requests;
    bool log_query;
    int64_t deadline_default_us, deadline_max_us; /* of routes that say nothing */
    int64_t margin_us;                            /* 0: auto */
    int64_t skew_us;
    bool rejects_malformed;
    int64_t limit_headers, limit_uri, limit_body /* or NONE */, limit_replay_body,
        limit_answer_buffer, limit_connections, limit_header_time_us, limit_idle_us;
    int64_t shutdown_delay_us, shutdown_drain_us;
    char *problems_base_url; /* NULL: none */
    struct prazo_config_upstream *upstreams;
    size_t upstream_count;
    struct prazo_config_route *routes; /* at least one */
    size_t route_count;
    int64_t refs; /* atomic */

    /* The loader's own: everything above lives in the arena. */
    struct prazo_config_origin *origins;
    struct prazo_arena_pool arena_pool;
    struct prazo_arena arena;
};

/* Reads and checks a file. On PRAZO_E_INVALID every fault stands in *diag, one line each
 * ("file:line:column: error: key: …\n"); PRAZO_E_NOT_FOUND, PRAZO_E_DENIED, PRAZO_E_IO for a file
 * that cannot be read (one line in *diag too). Warnings may stand in *diag on success. */
int prazo_config_load_file(const char *path, struct prazo_buf *diag, struct prazo_config **ret);
/* The same from memory; `source` names it in messages. */
int prazo_config_load_text(const char *source, struct prazo_str text, struct prazo_buf *diag,
                           struct prazo_config **ret);
/* prazo run --listen A --to B. */
int prazo_config_load_pair(const char *listen, const char *to, struct prazo_buf *diag,
                           struct prazo_config **ret);
struct prazo_config *prazo_config_ref(struct prazo_config *config);
void prazo_config_unref(struct prazo_config *config);

/* The whole effective configuration as YAML that can be used again. */
int prazo_config_write(const struct prazo_config *config, struct prazo_buf *to);
/* docs/config.md's reference section, from the table. */
int prazo_config_write_reference(struct prazo_buf *to);

#endif
