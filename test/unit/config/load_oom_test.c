/* SPDX-License-Identifier: MIT */
/* Every load again with the n-th allocation failing, for every n: PRAZO_E_NOMEM or the ordinary
 * result, never a crash; the address sanitizer sees what leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/mem.h"
#include "config/config.h"

static const char good[] =
    "listen: [127.0.0.1:8080, { name: b, address: '127.0.0.1:8081', trust: [10.0.0.0/8] }]\n"
    "name: ${PRAZO_TEST_NAME}-$${x}\n"
    "upstreams:\n"
    "  a: &a { servers: [127.0.0.1:9001, app.internal:80], host: x.example }\n"
    "  b: *a\n"
    "routes:\n"
    "  - { path: /a/*, methods: [GET, POST], upstream: a, upgrade: websocket }\n"
    "  - { upstream: b, deadline: 1s }\n";
static const char bad[] = "listen: [127.0.0.1:8080, { name: b, adress: x, trust: [10.0.0.1/8] }]\n"
                          "name: ${PRAZO_TEST_UNSET}\n"
                          "deadline: 5 sec\n"
                          "upstreams: { a: 127.0.0.1:9001, b: { servers: [] } }\n"
                          "routes: [{ upstream: c }, { path: x }]\n"
                          "a: 1\na: 2\n";

static int load(const char *text, struct prazo_config **ret, struct prazo_buf *diag)
{
    if (text)
        return prazo_config_load_text("t.yaml", prazo_str_z(text), diag, ret);
    return prazo_config_load_pair("127.0.0.1:8080", "127.0.0.1:9001", diag, ret);
}

static void walk(const char *text, int expected)
{
    bool has_failed = true;
    for (int64_t n = 0; has_failed; n++) {
        struct prazo_config *config = NULL;
        struct prazo_buf diag, out;
        prazo_buf_init(&diag, 1 << 16);
        prazo_buf_init(&out, 1 << 16);
        prazo_mem_fail_after(n);
        int err = load(text, &config, &diag);
        int write_err = err ? PRAZO_OK : prazo_config_write(config, &out);
        has_failed = prazo_mem_has_failed();
        prazo_mem_fail_after(-1);
        if (!has_failed)
            assert_int_equal(err, expected);
        else if (err != expected)
            assert_int_equal(err, PRAZO_E_NOMEM);
        else
            /* The failure hit the message buffer or the writer, which say so themselves. */
            assert_true(write_err == PRAZO_E_NOMEM || write_err == PRAZO_OK);
        assert_true((config != NULL) == (err == PRAZO_OK));
        prazo_config_unref(config);
        prazo_buf_done(&diag);
        prazo_buf_done(&out);
    }
}

static void test_good_text(void **state)
{
    (void)state;
    setenv("PRAZO_TEST_NAME", "shop", 1);
    walk(good, PRAZO_OK);
}

static void test_bad_text(void **state)
{
    (void)state;
    unsetenv("PRAZO_TEST_UNSET");
    walk(bad, PRAZO_E_INVALID);
}

static void test_pair(void **state)
{
    (void)state;
    walk(NULL, PRAZO_OK);
}

static void test_file(void **state)
{
    char path[] = "/tmp/prazo-config-XXXXXX";
    int fd = mkstemp(path);
    bool has_failed = true;

    (void)state;
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fputs("listen: 127.0.0.1:1\nupstream: 127.0.0.1:2\n", file);
    fclose(file);
    for (int64_t n = 0; has_failed; n++) {
        struct prazo_config *config = NULL;
        struct prazo_buf diag;
        prazo_buf_init(&diag, 4096);
        prazo_mem_fail_after(n);
        int err = prazo_config_load_file(path, &diag, &config);
        has_failed = prazo_mem_has_failed();
        prazo_mem_fail_after(-1);
        assert_int_equal(err, has_failed ? PRAZO_E_NOMEM : PRAZO_OK);
        prazo_config_unref(config);
        prazo_buf_done(&diag);
    }
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_text),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_pair),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
