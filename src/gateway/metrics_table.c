/* SPDX-License-Identifier: MIT */
/* The one table of metrics: name, type, labels, and where the number lies in a thread's block. The
 * formats and the page docs/metrics.md follow from it. Order is the order of the page.
 *
 * Invariant: label values are fixed here or come from the configuration, so that the number of
 * series never depends on traffic (C089). */
#include "gateway/metrics_table.h"

#include "gateway/stats_internal.h"

#define X(NAME, label) label,
static const char *const codes[] = { PRAZO_CODE_MAP(X) };
static const char *const results[] = { PRAZO_RESULT_MAP(X) };
static const char *const gone_states[] = { PRAZO_GONE_STATE_MAP(X) };
static const char *const kinds[] = { PRAZO_KIND_MAP(X) };
static const char *const attempt_results[] = { PRAZO_ATTEMPT_MAP(X) };
static const char *const causes[] = { PRAZO_CAUSE_MAP(X) };
static const char *const drops[] = { PRAZO_DROP_MAP(X) };
static const char *const sheds[] = { PRAZO_SHED_MAP(X) };
#undef X
/* In the order of the fields in struct prazo_upstream_stats and struct prazo_reload_stats. */
static const char *const connection_states[] = { "idle", "active" };
static const char *const reload_results[] = { "ok", "error" };
static const char *const versions[] = { PRAZO_VERSION };

_Static_assert(offsetof(struct prazo_upstream_stats, connections_active) ==
                   offsetof(struct prazo_upstream_stats, connections_idle) + sizeof(int64_t),
               "written as one array");
_Static_assert(offsetof(struct prazo_reload_stats, error) ==
                   offsetof(struct prazo_reload_stats, ok) + sizeof(prazo_counter),
               "written as one array");

#define SET(name, values)                                                                          \
    {                                                                                              \
        name, values, sizeof(values) / sizeof(values)[0]                                           \
    }

#define ROUTE(member) SCOPE_ROUTE, .offset = offsetof(struct prazo_route_stats, member)
#define UPSTREAM(member) SCOPE_UPSTREAM, .offset = offsetof(struct prazo_upstream_stats, member)
#define SERVER(member) SCOPE_SERVER, .offset = offsetof(struct prazo_server_stats, member)
#define LISTENER(member) SCOPE_LISTENER, .offset = offsetof(struct prazo_listener_stats, member)
#define THREAD(member) SCOPE_THREAD, .offset = offsetof(struct prazo_thread_stats, member)
#define RELOADS(member) SCOPE_RELOADS, .offset = offsetof(struct prazo_reload_stats, member)
#define PROCESS(member) SCOPE_PROCESS, .offset = offsetof(struct metrics_process, member)

/* Help texts hold no quote, backslash or newline: those would need escaping. */
const struct metric prazo__metrics[] = {
    { .name = "prazo_requests_total",
      .scope = ROUTE(requests),
      .sets = { SET("code", codes) },
      .help = "Requests by class of the answer; gone: abandoned by the client before it was "
              "complete." },
    { .name = "prazo_request_seconds",
      .type = TYPE_HISTOGRAM,
      .unit = "seconds",
      .scope = ROUTE(seconds),
      .field = FIELD_HISTOGRAM,
      .sets = { SET("result", results) },
      .help = "Time from a request's first byte to the end of its answer. Read each result on its "
              "own: a mean over all falls during a cascade, because refusals are fast." },
    { .name = "prazo_budget_left_seconds",
      .type = TYPE_HISTOGRAM,
      .unit = "seconds",
      .scope = ROUTE(budget_left),
      .field = FIELD_HISTOGRAM,
      .help = "Time left until the deadline when the request arrived." },
    { .name = "prazo_client_gone_total",
      .scope = ROUTE(client_gone),
      .sets = { SET("state", gone_states) },
      .help = "Requests that the client abandoned, by what was going on then." },
    { .name = "prazo_attempts_total",
      .scope = SERVER(attempts),
      .sets = { SET("kind", kinds), SET("result", attempt_results) },
      .help = "Attempts at servers, by kind and result; cut: ended from this side." },
    { .name = "prazo_attempt_seconds",
      .type = TYPE_HISTOGRAM,
      .unit = "seconds",
      .scope = UPSTREAM(attempt_seconds),
      .field = FIELD_HISTOGRAM,
      .sets = { SET("result", attempt_results) },
      .help = "Time from the start of an attempt to its end." },
    { .name = "prazo_upstream_requests_total",
      .scope = UPSTREAM(requests),
      .help = "Requests that got at least one attempt at the upstream." },
    { .name = "prazo_amplification_ratio",
      .type = TYPE_GAUGE,
      .unit = "ratio",
      .scope = UPSTREAM(amplification),
      .field = FIELD_AMPLIFICATION,
      .help = "Attempts per request that got at least one, over the last 10 seconds; 1 when idle. "
              "The one to alert on." },
    { .name = "prazo_cancelled_total",
      .scope = UPSTREAM(cancelled),
      .sets = { SET("cause", causes) },
      .help = "Attempts ended before their answer was complete." },
    { .name = "prazo_orphan_answers_total",
      .scope = UPSTREAM(orphan_answers),
      .help = "Answers that came for an attempt which nobody was waiting for any more." },
    { .name = "prazo_orphan_seconds_total",
      .unit = "seconds",
      .scope = UPSTREAM(orphan_us),
      .field = FIELD_COUNT_US,
      .help = "Time from the abandonment of an attempt to its answer." },
    { .name = "prazo_abandon_unknown_total",
      .scope = UPSTREAM(abandon_unknown),
      .help = "Abandoned attempts whose end was not seen within abandon_wait." },
    { .name = "prazo_queue_depth",
      .type = TYPE_GAUGE,
      .scope = UPSTREAM(queue_depth),
      .field = FIELD_GAUGE,
      .help = "Requests that wait for a connection to the upstream." },
    { .name = "prazo_queue_seconds",
      .type = TYPE_HISTOGRAM,
      .unit = "seconds",
      .scope = UPSTREAM(queue_seconds),
      .field = FIELD_HISTOGRAM,
      .help = "Time that requests have waited in the queue." },
    { .name = "prazo_queue_dropped_total",
      .scope = UPSTREAM(queue_dropped),
      .sets = { SET("reason", drops) },
      .help = "Requests that left the queue without an attempt." },
    { .name = "prazo_in_flight",
      .type = TYPE_GAUGE,
      .scope = UPSTREAM(in_flight),
      .field = FIELD_GAUGE,
      .help = "Attempts under way, abandoned ones that still run included." },
    { .name = "prazo_shed_total",
      .scope = UPSTREAM(shed),
      .sets = { SET("reason", sheds) },
      .help = "Requests refused before any work, because the work could not finish well." },
    { .name = "prazo_connect_failures_total",
      .scope = SERVER(connect_failures),
      .help = "Connections that could not be made; the next server is tried at once." },
    { .name = "prazo_deadline_malformed_total",
      .scope = THREAD(malformed),
      .help = "Requests whose deadline text broke its grammar." },
    { .name = "prazo_deadline_expired_on_arrival_total",
      .scope = THREAD(expired_on_arrival),
      .help = "Requests answered 504 at once: their deadline had passed when they arrived." },
    { .name = "prazo_clock_skew_total",
      .scope = THREAD(skew),
      .help = "Requests whose sender's clock disagreed by more than deadline.skew." },
    { .name = "prazo_connections",
      .type = TYPE_GAUGE,
      .scope = LISTENER(connections),
      .field = FIELD_GAUGE,
      .help = "Open connections of clients." },
    { .name = "prazo_accept_paused_total",
      .scope = LISTENER(accept_paused),
      .help = "Times that accepting stopped for a moment: limits.connections was reached, or no "
              "descriptors were left." },
    { .name = "prazo_upstream_connections",
      .type = TYPE_GAUGE,
      .scope = UPSTREAM(connections_idle),
      .field = FIELD_GAUGE,
      .sets = { SET("state", connection_states) },
      .help = "Open connections to the upstream's servers." },
    { .name = "prazo_loop_lag_seconds",
      .type = TYPE_GAUGE,
      .unit = "seconds",
      .scope = THREAD(lag_us),
      .field = FIELD_MAX_US,
      .help = "How late timers ran in the last second, on the worst event loop." },
    { .name = "prazo_config_reloads_total",
      .scope = RELOADS(ok),
      .sets = { SET("result", reload_results) },
      .help = "Reloads of the configuration; error: refused, the old one goes on." },
    { .name = "prazo_log_dropped_total",
      .scope = PROCESS(log_dropped),
      .help = "Log lines lost because the log's reader did not keep up." },
    { .name = "prazo_build_info",
      .type = TYPE_INFO,
      .scope = PROCESS(one),
      .sets = { SET("version", versions) },
      .help = "Always 1; its label says what is running." },
    { .name = "process_cpu_seconds_total",
      .unit = "seconds",
      .scope = PROCESS(kernel.cpu_us),
      .field = FIELD_COUNT_US,
      .help = "Processor time, user and system." },
    { .name = "process_resident_memory_bytes",
      .type = TYPE_GAUGE,
      .unit = "bytes",
      .scope = PROCESS(kernel.resident_bytes),
      .help = "Resident memory." },
    { .name = "process_open_fds",
      .type = TYPE_GAUGE,
      .scope = PROCESS(kernel.open_fds),
      .help = "Open file descriptors." },
    { .name = "process_max_fds",
      .type = TYPE_GAUGE,
      .scope = PROCESS(kernel.max_fds),
      .help = "Most file descriptors that the process may open." },
    { .name = "process_start_time_seconds",
      .type = TYPE_GAUGE,
      .unit = "seconds",
      .scope = PROCESS(started_us),
      .field = FIELD_COUNT_US,
      .help = "When the process started, as Unix time." },
    { .name = "process_threads",
      .type = TYPE_GAUGE,
      .scope = PROCESS(kernel.threads),
      .help = "Threads of the process." },
};

const size_t prazo__metric_count = sizeof prazo__metrics / sizeof prazo__metrics[0];
