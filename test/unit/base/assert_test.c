/* SPDX-License-Identifier: MIT */
/* A failed assertion names its place on fd 2 and ends the process by SIGABRT; a true one costs
 * nothing visible. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/assert.h"

static void fail_condition(void)
{
    int count = 3;

    PRAZO_ASSERT(count == 4);
}

static void reach_unreachable(void)
{
    PRAZO_UNREACHABLE();
}

static void fail_with_long_text(void)
{
    char what[4096];

    memset(what, 'x', sizeof(what));
    what[sizeof(what) - 1] = '\0';
    prazo__assert_failed("file.c", 7, "func", what);
}

/* Runs body in a child; what it wrote to fd 2 goes to text. Returns its wait status. */
static int run_in_child(void (*body)(void), char *text, size_t text_bytes)
{
    int ends[2], status;
    size_t len = 0;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct rlimit no_core = { 0, 0 };

        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL); /* not the test runner's handler */
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    while ((n = read(ends[0], text + len, text_bytes - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_failures_name_their_place(void **state)
{
    static const struct {
        void (*body)(void);
        const char *expected;
    } rows[] = {
        { fail_condition, ": fail_condition: assertion failed: count == 4\n" },
        { reach_unreachable, ": reach_unreachable: assertion failed: unreachable\n" },
        { fail_with_long_text, "file.c:7: func: assertion failed: xxx" },
    };
    char text[2048];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int status = run_in_child(rows[i].body, text, sizeof(text));

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGABRT);
        assert_non_null(strstr(text, rows[i].expected));
    }
}

static void test_condition_is_evaluated_once(void **state)
{
    int count = 0;

    (void)state;
    PRAZO_ASSERT(++count == 1);
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_name_their_place),
        cmocka_unit_test(test_condition_is_evaluated_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
