/* SPDX-License-Identifier: MIT */
/* docs/problems.md against the table: a section for each problem, in the table's order, with its
 * status, title and advice, and the table of what changes once a byte was sent. */
#include "core/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define DOC_PATH PRAZO_SOURCE_DIR "/docs/problems.md"

static char text[256 * 1024];
static struct prazo_str doc;

static int read_doc(void **state)
{
    (void)state;
    FILE *file = fopen(DOC_PATH, "rb");
    if (!file)
        return -1;
    doc = prazo_str_n(text, fread(text, 1, sizeof(text), file));
    fclose(file);
    return doc.len > 0 && doc.len < sizeof(text) ? 0 : -1;
}

static bool next_line(struct prazo_str *rest, struct prazo_str *ret_line)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->base, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->base) : rest->len;
    *ret_line = prazo_str_n(rest->base, len);
    size_t taken = end ? len + 1 : len;
    *rest = prazo_str_n(rest->base + taken, rest->len - taken);
    return true;
}

/* Moves *rest behind the next "## " heading; false at the end. */
static bool next_heading(struct prazo_str *rest, struct prazo_str *ret_name)
{
    struct prazo_str line;
    while (next_line(rest, &line))
        if (prazo_str_has_prefix(line, PRAZO_STR("## "))) {
            *ret_name = prazo_str_n(line.base + 3, line.len - 3);
            return true;
        }
    return false;
}

/* Finds a line of the present section that begins like this. */
static bool section_has(struct prazo_str rest, const char *begin, struct prazo_str *ret_line)
{
    while (next_line(&rest, ret_line) && !prazo_str_has_prefix(*ret_line, PRAZO_STR("## ")))
        if (prazo_str_has_prefix(*ret_line, prazo_str_z(begin)))
            return true;
    return false;
}

static void judged(char *to, size_t bytes, enum prazo_problem problem,
                   const struct prazo_problem_facts *facts)
{
    enum prazo_outcome outcome;
    enum prazo_retry_advice retry;
    prazo_problem_judge(problem, facts, &outcome, &retry);
    snprintf(to, bytes, "%s / %s", prazo_outcome_name(outcome), prazo_retry_advice_name(retry));
}

static void check_section(struct prazo_str section, enum prazo_problem problem)
{
    static const char *const parts[] = { "- **Meaning:** ", "- **When:** ", "- **What to do:** " };
    const char *name = prazo_problem_name(problem);
    struct prazo_str line;
    char want[256], advice[64];

    snprintf(want, sizeof(want), "`%d` %s", prazo_problem_status(problem),
             prazo_problem_title(problem));
    if (!section_has(section, want, &line) || line.len != strlen(want))
        fail_msg(DOC_PATH ": section %s lacks the line: %s", name, want);
    for (size_t i = 0; i < COUNT(parts); i++)
        if (!section_has(section, parts[i], &line) || line.len < strlen(parts[i]) + 10)
            fail_msg(DOC_PATH ": section %s lacks: %s", name, parts[i]);

    const struct prazo_problem_facts nothing_sent = { 0 };
    judged(advice, sizeof(advice), problem, &nothing_sent);
    snprintf(want, sizeof(want), "- **Outcome / retry:** %s", advice);
    if (!section_has(section, want, &line) || line.len != strlen(want))
        fail_msg(DOC_PATH ": section %s lacks the line: %s", name, want);
}

static void every_problem_has_its_section(void **state)
{
    (void)state;
    struct prazo_str rest = doc, name;
    int want = PRAZO_PROBLEM_NONE + 1;
    while (next_heading(&rest, &name)) {
        if (memchr(name.base, ' ', name.len)) /* names have no blanks: another heading */
            continue;
        enum prazo_problem problem = prazo_problem_by_name(name);
        if (problem == PRAZO_PROBLEM_NONE || (int)problem != want)
            fail_msg(DOC_PATH ": section %.*s where %s belongs", PRAZO_STR_ARG(name),
                     want < PRAZO_PROBLEM_COUNT ? prazo_problem_name((enum prazo_problem)want)
                                                : "the end");
        check_section(rest, problem);
        want++;
    }
    if (want != PRAZO_PROBLEM_COUNT)
        fail_msg(DOC_PATH ": no section %s", prazo_problem_name((enum prazo_problem)want));
}

static void what_sending_changes_is_documented(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        struct prazo_problem_facts facts;
    } rows[] = {
        { "safe: GET, HEAD, OPTIONS", { PRAZO_METHOD_SAFE, true, false } },
        { "idempotent: PUT, DELETE", { PRAZO_METHOD_IDEMPOTENT, true, false } },
        { "any other method, with a key that prazo keeps a record of",
          { PRAZO_METHOD_UNSAFE, true, true } },
        { "any other method", { PRAZO_METHOD_UNSAFE, true, false } },
    };
    struct prazo_str rest = doc, line;
    do {
        assert_true(next_heading(&rest, &line));
    } while (!prazo_str_eq(line, PRAZO_STR("How outcome and retry are decided")));
    for (size_t i = 0; i < COUNT(rows); i++) {
        char same_key[64], after_fix[64], want[256];
        judged(same_key, sizeof(same_key), PRAZO_PROBLEM_UPSTREAM_RESET, &rows[i].facts);
        judged(after_fix, sizeof(after_fix), PRAZO_PROBLEM_BAD_REQUEST, &rows[i].facts);
        snprintf(want, sizeof(want), "| %s | %s | %s |", rows[i].request, same_key, after_fix);
        if (!section_has(rest, want, &line))
            fail_msg(DOC_PATH ": lacks the line: %s", want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_problem_has_its_section),
        cmocka_unit_test(what_sending_changes_is_documented),
    };
    return cmocka_run_group_tests_name("docs/problems.md", tests, read_doc, NULL);
}
