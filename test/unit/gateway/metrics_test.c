/* SPDX-License-Identifier: MIT */
/* Both text formats, and the page docs/metrics.md. `metrics_test --write` brings the page up to
 * date after the table has changed. */
#include "gateway/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/stats.h"
#include "prazo/err.h"

#define PAGE PRAZO_SOURCE_DIR "/docs/metrics.md"
#define PAGE_BEGIN "<!-- begin: generated -->\n"
#define PAGE_END "<!-- end: generated -->\n"

static struct prazo_stats *stats;
static struct prazo_buf text;

static int set_up(void **state)
{
    (void)state;
    prazo_buf_init(&text, 1 << 20);
    assert_int_equal(prazo_stats_new(2, &stats), PRAZO_OK);
    assert_non_null(prazo_stats_route(stats, "r"));
    assert_non_null(prazo_stats_upstream(stats, "u"));
    assert_non_null(prazo_stats_server(stats, "u", "s:1"));
    assert_non_null(prazo_stats_listener(stats, "l"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    prazo_buf_done(&text);
    prazo_stats_free(stats);
    return 0;
}

static void render(bool is_open)
{
    text.len = 0;
    assert_int_equal(prazo_stats_write_metrics(stats, is_open, 0, &text), PRAZO_OK);
    assert_int_equal(prazo_buf_add(&text, "", 1), PRAZO_OK); /* for str functions */
    text.len--;
}

/* The line, whole. */
static bool has(const char *line)
{
    const size_t len = strlen(line);
    for (const char *at = text.base; (at = strstr(at, line)) != NULL; at++)
        if ((at == text.base || at[-1] == '\n') && at[len] == '\n')
            return true;
    return false;
}

static void expect(const char *line)
{
    if (!has(line))
        fail_msg("no line \"%s\" in\n%s", line, text.base);
}

static size_t count_lines(const char *start)
{
    size_t count = 0;
    const size_t len = strlen(start);
    for (const char *at = text.base; at && *at; at = strchr(at, '\n') + 1)
        count += strncmp(at, start, len) == 0;
    return count;
}

static void every_series_is_there_from_the_start(void **state)
{
    (void)state;
    render(false);
    expect("prazo_requests_total{route=\"r\",code=\"1xx\"} 0");
    expect("prazo_requests_total{route=\"r\",code=\"gone\"} 0");
    assert_int_equal(count_lines("prazo_requests_total{"), 6);
    assert_int_equal(count_lines("prazo_client_gone_total{"), 6);
    expect("prazo_attempts_total{upstream=\"u\",server=\"s:1\",kind=\"probe\",result=\"cut\"} 0");
    assert_int_equal(count_lines("prazo_attempts_total{"), 4 * 7);
    assert_int_equal(count_lines("prazo_attempt_seconds_bucket{"), 7 * PRAZO_HISTOGRAM_BUCKETS);
    expect("prazo_request_seconds_bucket{route=\"r\",result=\"shed\",le=\"+Inf\"} 0");
    expect("prazo_request_seconds_sum{route=\"r\",result=\"shed\"} 0.0");
    expect("prazo_request_seconds_count{route=\"r\",result=\"shed\"} 0");
    expect("prazo_amplification_ratio{upstream=\"u\"} 1.000");
    expect("prazo_shed_total{upstream=\"u\",reason=\"would-miss-deadline\"} 0");
    expect("prazo_cancelled_total{upstream=\"u\",cause=\"attempt-timeout\"} 0");
    expect("prazo_connect_failures_total{upstream=\"u\",server=\"s:1\"} 0");
    expect("prazo_upstream_connections{upstream=\"u\",state=\"idle\"} 0");
    expect("prazo_connections{listener=\"l\"} 0");
    expect("prazo_config_reloads_total{result=\"error\"} 0");
    expect("prazo_deadline_malformed_total 0");
    expect("prazo_loop_lag_seconds 0.0");
    expect("prazo_build_info{version=\"" PRAZO_VERSION "\"} 1");
    expect("prazo_log_dropped_total 0");
    assert_int_equal(count_lines("process_"), 6);
    for (unsigned i = 0; prazo_metrics_name(i); i++)
        if (count_lines(prazo_metrics_name(i)) == 0)
            fail_msg("%s has no series", prazo_metrics_name(i));
}

static void threads_are_summed(void **state)
{
    (void)state;
    struct prazo_route_series *route = prazo_stats_route(stats, "r");
    struct prazo_upstream_series *up = prazo_stats_upstream(stats, "u");
    struct prazo_server_series *server = prazo_stats_server(stats, "u", "s:1");
    for (unsigned t = 0; t < 2; t++) {
        prazo_counter_add(&route->thread[t]->requests[PRAZO_STAT_CODE_5XX], 2 + t);
        prazo_histogram_observe(&route->thread[t]->budget_left, 500 + (int64_t)t * 1500001);
        prazo_counter_add(&up->thread[t]->orphan_us, 1250000);
        prazo_gauge_add(&up->thread[t]->in_flight, t ? -3 : 5);
        prazo_gauge_add(&up->thread[t]->connections_active, 4);
        prazo_counter_inc(
            &server->thread[t]->attempts[PRAZO_STAT_KIND_RETRY][PRAZO_STAT_ATTEMPT_RESET]);
        prazo_counter_inc(&prazo_stats_thread(stats, t)->skew);
    }
    prazo_gauge_add(&prazo_stats_thread(stats, 1)->lag_us, 12500);
    prazo_window_add(&up->thread[0]->amplification, 0, 3, 2);
    prazo_window_add(&up->thread[1]->amplification, 0, 4, 1);
    prazo_stats_count_reload(stats, true);
    render(false);
    expect("prazo_requests_total{route=\"r\",code=\"5xx\"} 5");
    expect("prazo_requests_total{route=\"r\",code=\"4xx\"} 0");
    expect("prazo_budget_left_seconds_bucket{route=\"r\",le=\"0.0005\"} 1");
    expect("prazo_budget_left_seconds_bucket{route=\"r\",le=\"1.0\"} 1");
    expect("prazo_budget_left_seconds_bucket{route=\"r\",le=\"2.0\"} 2");
    expect("prazo_budget_left_seconds_bucket{route=\"r\",le=\"+Inf\"} 2");
    expect("prazo_budget_left_seconds_sum{route=\"r\"} 1.501001");
    expect("prazo_budget_left_seconds_count{route=\"r\"} 2");
    expect("prazo_orphan_seconds_total{upstream=\"u\"} 2.5");
    expect("prazo_in_flight{upstream=\"u\"} 2");
    expect("prazo_upstream_connections{upstream=\"u\",state=\"active\"} 8");
    expect("prazo_attempts_total{upstream=\"u\",server=\"s:1\",kind=\"retry\",result=\"reset\"} 2");
    expect("prazo_clock_skew_total 2");
    expect("prazo_loop_lag_seconds 0.0125");
    expect("prazo_amplification_ratio{upstream=\"u\"} 2.333");
    expect("prazo_config_reloads_total{result=\"ok\"} 1");
}

static void label_values_are_escaped(void **state)
{
    (void)state;
    assert_non_null(prazo_stats_listener(stats, "a\\b\"c\nd"));
    render(false);
    expect("prazo_connections{listener=\"a\\\\b\\\"c\\nd\"} 0");
}

static void metadata_fits_the_format(void **state)
{
    (void)state;
    render(false);
    expect("# TYPE prazo_requests_total counter");
    expect("# TYPE prazo_build_info gauge");
    expect("# TYPE prazo_request_seconds histogram");
    assert_int_equal(count_lines("# UNIT"), 0);
    assert_int_equal(count_lines("# EOF"), 0);

    render(true);
    expect("# TYPE prazo_requests counter");
    expect("# TYPE prazo_build info");
    expect("# TYPE prazo_orphan_seconds counter");
    expect("# UNIT prazo_orphan_seconds seconds");
    expect("prazo_orphan_seconds_total{upstream=\"u\"} 0.0");
    expect("# UNIT prazo_amplification_ratio ratio");
    expect("# UNIT process_resident_memory_bytes bytes");
    assert_int_equal(count_lines("# TYPE prazo_requests_total"), 0);
    assert_int_equal(count_lines("# EOF"), 1);
    assert_string_equal(text.base + text.len - 6, "# EOF\n");
}

/* What a scrape negotiated does not change which series there are. */
static void formats_have_the_same_series(void **state)
{
    (void)state;
    render(false);
    size_t lines = count_lines(""), comments = count_lines("#");
    render(true);
    assert_int_equal(count_lines("") - count_lines("#"), lines - comments);
}

/* ---- the page ---- */

static char *read_page(void)
{
    FILE *file = fopen(PAGE, "r");
    char *page = NULL;
    size_t room = 0;
    if (!file)
        return NULL;
    if (getdelim(&page, &room, '\0', file) < 0)
        page = NULL;
    fclose(file);
    return page;
}

static void page_is_the_table(void **state)
{
    (void)state;
    char *page = read_page();
    assert_non_null(page);
    for (unsigned i = 0; prazo_metrics_name(i); i++)
        if (!strstr(page, prazo_metrics_name(i)))
            fail_msg("%s is not in " PAGE "; run metrics_test --write", prazo_metrics_name(i));
    assert_int_equal(prazo_metrics_write_reference(&text), PRAZO_OK);
    const char *begin = strstr(page, PAGE_BEGIN);
    assert_non_null(begin);
    begin += strlen(PAGE_BEGIN);
    const char *end = strstr(begin, PAGE_END);
    assert_non_null(end);
    if ((size_t)(end - begin) != text.len || memcmp(begin, text.base, text.len) != 0)
        fail_msg("%s", PAGE " differs from the table; run metrics_test --write");
    free(page);
}

static int write_page(void)
{
    char *page = read_page();
    char *begin = page ? strstr(page, PAGE_BEGIN) : NULL;
    char *end = begin ? strstr(begin, PAGE_END) : NULL;
    FILE *file = end ? fopen(PAGE, "w") : NULL;
    if (!file) {
        fprintf(stderr, "%s: no page with marks to write into\n", PAGE);
        free(page);
        return 1;
    }
    prazo_buf_init(&text, 1 << 20);
    int err = prazo_metrics_write_reference(&text);
    fprintf(file, "%.*s%.*s%s", (int)(begin - page) + (int)strlen(PAGE_BEGIN), page, (int)text.len,
            text.base, end);
    prazo_buf_done(&text);
    free(page);
    return fclose(file) != 0 || err != PRAZO_OK;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_series_is_there_from_the_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_are_summed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(label_values_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(metadata_fits_the_format, set_up, tear_down),
        cmocka_unit_test_setup_teardown(formats_have_the_same_series, set_up, tear_down),
        cmocka_unit_test_setup_teardown(page_is_the_table, set_up, tear_down),
    };
    if (argc == 2 && strcmp(argv[1], "--write") == 0)
        return write_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
