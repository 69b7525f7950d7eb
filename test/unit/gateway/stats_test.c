/* SPDX-License-Identifier: MIT */
/* The registry of counters, and the JSON document made of it. */
#include "gateway/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gateway/stats_internal.h"
#include "prazo/err.h"

#define S INT64_C(1000000)

static struct prazo_stats *make(unsigned threads)
{
    struct prazo_stats *stats = NULL;
    assert_int_equal(prazo_stats_new(threads, &stats), PRAZO_OK);
    return stats;
}

static void a_label_has_one_series(void **state)
{
    (void)state;
    struct prazo_stats *stats = make(2);
    struct prazo_route_series *route = prazo_stats_route(stats, "a");
    struct prazo_server_series *server = prazo_stats_server(stats, "up", "127.0.0.1:1");
    assert_non_null(route);
    assert_string_equal(route->route, "a");
    assert_non_null(route->thread[0]);
    assert_non_null(route->thread[1]);
    assert_null(route->thread[2]);
    assert_ptr_not_equal(route->thread[0], route->thread[1]);
    assert_ptr_not_equal(prazo_stats_route(stats, "b"), route);
    assert_ptr_equal(prazo_stats_route(stats, "a"), route);
    /* A server is one within its upstream. */
    assert_ptr_not_equal(prazo_stats_server(stats, "other", "127.0.0.1:1"), server);
    assert_ptr_not_equal(prazo_stats_server(stats, "up", "127.0.0.1:2"), server);
    assert_ptr_equal(prazo_stats_server(stats, "up", "127.0.0.1:1"), server);
    assert_ptr_equal(prazo_stats_listener(stats, "l"), prazo_stats_listener(stats, "l"));
    assert_ptr_equal(prazo_stats_upstream(stats, "u"), prazo_stats_upstream(stats, "u"));
    prazo_stats_free(stats);
}

static void pointers_stay_while_the_lists_grow(void **state)
{
    (void)state;
    struct prazo_stats *stats = make(1);
    struct prazo_listener_series *first = prazo_stats_listener(stats, "l0");
    char name[16];
    for (unsigned i = 1; i < 1000; i++) {
        snprintf(name, sizeof name, "l%u", i);
        struct prazo_listener_series *series = prazo_stats_listener(stats, name);
        assert_non_null(series);
        prazo_gauge_add(&series->thread[0]->connections, i);
    }
    assert_ptr_equal(prazo_stats_listener(stats, "l0"), first);
    assert_int_equal(prazo_stats_listener(stats, "l999")->thread[0]->connections, 999);
    prazo_stats_free(stats);
}

static void threads_do_not_share_cache_lines(void **state)
{
    (void)state;
    struct prazo_stats *stats = make(3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal((uintptr_t)prazo_stats_thread(stats, i) % 64, 0);
        assert_int_equal((uintptr_t)prazo_stats_listener(stats, "l")->thread[i] % 64, 0);
    }
    prazo_stats_free(stats);
}

/* Each allocation of a small configuration fails once: no crash, no leak, and the next try works.
 */
static void survives_lack_of_memory(void **state)
{
    (void)state;
    bool has_failed = true;
    for (int64_t n = 0; has_failed; n++) {
        struct prazo_stats *stats = NULL;
        prazo_mem_fail_after(n);
        const int err = prazo_stats_new(2, &stats);
        if (err == PRAZO_OK) {
            (void)prazo_stats_route(stats, "r");
            (void)prazo_stats_upstream(stats, "u");
            (void)prazo_stats_server(stats, "u", "s");
            (void)prazo_stats_listener(stats, "l");
        }
        has_failed = prazo_mem_has_failed();
        prazo_mem_fail_after(-1);
        if (err == PRAZO_OK) {
            assert_non_null(prazo_stats_route(stats, "r"));
            assert_non_null(prazo_stats_upstream(stats, "u"));
            assert_non_null(prazo_stats_server(stats, "u", "s"));
            assert_non_null(prazo_stats_listener(stats, "l"));
        } else {
            assert_int_equal(err, PRAZO_E_NOMEM);
        }
        prazo_stats_free(stats);
    }
}

static void amplification_sums_the_threads(void **state)
{
    (void)state;
    static const struct {
        int64_t at_us;
        unsigned thread;
        uint64_t attempts, requests;
        double ratio;
    } rows[] = {
        { 0, 0, 0, 0, 1.0 },                                /* idle */
        { 0, 0, 4, 4, 1.0 },      { S, 1, 4, 0, 2.0 },      /* repeats that another thread made */
        { 2 * S, 1, 4, 4, 1.5 },  { 10 * S, 0, 0, 0, 2.0 }, /* second 0 is out of the window */
        { 11 * S, 0, 0, 0, 1.0 }, { 12 * S, 0, 0, 0, 1.0 },
        { 30 * S, 0, 3, 0, 3.0 }, /* repeats only: as of one request */
        { 50 * S, 0, 0, 0, 1.0 },
    };
    struct prazo_stats *stats = make(2);
    struct prazo_upstream_series *series = prazo_stats_upstream(stats, "u");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        prazo_window_add(&series->thread[rows[i].thread]->amplification, rows[i].at_us,
                         rows[i].attempts, rows[i].requests);
        const double ratio = prazo__stats_amplification(stats, series, rows[i].at_us);
        if (ratio < rows[i].ratio - 1e-9 || ratio > rows[i].ratio + 1e-9)
            fail_msg("row %zu: %f, expected %f", i, ratio, rows[i].ratio);
    }
    prazo_stats_free(stats);
}

static void expect_part(const struct prazo_buf *text, const char *part)
{
    if (!memmem(text->base, text->len, part, strlen(part)))
        fail_msg("%s is not in %.*s", part, (int)text->len, text->base);
}

static void state_is_one_document(void **state)
{
    (void)state;
    struct prazo_stats *stats = make(2);
    struct prazo_upstream_series *up = prazo_stats_upstream(stats, "a\"b\n");
    struct prazo_server_series *server = prazo_stats_server(stats, "a\"b\n", "127.0.0.1:1");
    struct prazo_route_series *route = prazo_stats_route(stats, "GET /x");
    struct prazo_listener_series *listener = prazo_stats_listener(stats, "edge");
    struct prazo_buf text;

    (void)prazo_stats_server(stats, "other", "127.0.0.1:2");
    prazo_histogram_observe(&up->thread[1]->attempt_seconds[PRAZO_STAT_ATTEMPT_OK], 700);
    prazo_counter_add(&up->thread[0]->orphan_us, 2500);
    prazo_counter_inc(&up->thread[1]->shed[PRAZO_STAT_SHED_LIMIT]);
    prazo_gauge_add(&up->thread[0]->in_flight, 3);
    prazo_gauge_add(&up->thread[1]->in_flight, -1);
    prazo_counter_inc(&server->thread[0]->attempts[PRAZO_STAT_KIND_FIRST][PRAZO_STAT_ATTEMPT_OK]);
    prazo_counter_inc(&server->thread[1]->attempts[PRAZO_STAT_KIND_STALE][PRAZO_STAT_ATTEMPT_OK]);
    prazo_counter_inc(&route->thread[1]->requests[PRAZO_STAT_CODE_GONE]);
    prazo_gauge_add(&listener->thread[0]->connections, 7);
    prazo_stats_count_reload(stats, true);
    prazo_stats_count_reload(stats, false);
    prazo_stats_count_reload(stats, false);

    prazo_buf_init(&text, 1 << 20);
    assert_int_equal(prazo_stats_write_state(stats, "shop", true, 0, &text), PRAZO_OK);
    expect_part(&text, "{\"name\":\"shop\",\"version\":\"" PRAZO_VERSION "\",\"ready\":true,");
    expect_part(&text, "\"config_reloads\":{\"ok\":1,\"error\":2}");
    expect_part(&text, "\"bucket_bounds_ms\":[0.500,1.000,2.000,");
    expect_part(&text, "{\"name\":\"a\\\"b\\n\",\"amplification\":1.000,\"in_flight\":2,");
    expect_part(&text, "\"orphan_ms\":2.500,");
    expect_part(&text, "\"would-miss-deadline\":0,\"limit\":1,\"draining\":0}");
    expect_part(&text, "\"ok\":{\"sum_ms\":0.700,\"buckets\":[0,1,0,");
    expect_part(&text, "\"servers\":[{\"address\":\"127.0.0.1:1\",\"attempts\":{\"ok\":2,");
    expect_part(&text, "\"connect_failures\":0}]}],\"routes\":[{\"name\":\"GET /x\",");
    expect_part(&text, "\"5xx\":0,\"gone\":1}");
    expect_part(&text, "\"listeners\":[{\"name\":\"edge\",\"connections\":7}]}");
    assert_null(memchr(text.base, '\n', text.len)); /* an event of a stream is one line */
    prazo_buf_done(&text);
    prazo_stats_free(stats);
}

static void a_document_that_does_not_fit_leaves_nothing(void **state)
{
    (void)state;
    struct prazo_stats *stats = make(1);
    struct prazo_buf text;
    prazo_buf_init(&text, 100);
    assert_int_equal(prazo_buf_add_z(&text, "data: "), PRAZO_OK);
    assert_int_equal(prazo_stats_write_state(stats, "n", false, 0, &text), PRAZO_E_TOO_LARGE);
    assert_int_equal(text.len, 6);
    assert_int_equal(prazo_stats_write_metrics(stats, false, 0, &text), PRAZO_E_TOO_LARGE);
    assert_int_equal(text.len, 6);
    prazo_buf_done(&text);
    prazo_stats_free(stats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_label_has_one_series),
        cmocka_unit_test(pointers_stay_while_the_lists_grow),
        cmocka_unit_test(threads_do_not_share_cache_lines),
        cmocka_unit_test(survives_lack_of_memory),
        cmocka_unit_test(amplification_sums_the_threads),
        cmocka_unit_test(state_is_one_document),
        cmocka_unit_test(a_document_that_does_not_fit_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
