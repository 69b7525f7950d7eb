/* SPDX-License-Identifier: MIT */
/* The header table: every name finds its row, and nothing else does. */
#include "http/msg.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void every_name_finds_itself(void **state)
{
    (void)state;
    for (int token = PRAZO_HDR_OTHER + 1; token < PRAZO_HDR_COUNT; token++) {
        struct prazo_str name = prazo_hdr_name((enum prazo_hdr)token);
        assert_true(name.len > 0);
        for (size_t i = 0; i < name.len; i++)
            assert_false(isupper((unsigned char)name.base[i]));
        if (prazo_hdr_find(name) != (enum prazo_hdr)token)
            fail_msg("%.*s is found as %d", PRAZO_STR_ARG(name), prazo_hdr_find(name));
    }
}

/* Each name with one byte changed, with one less and one more. */
static void names_beside_are_others(void **state)
{
    (void)state;
    for (int token = PRAZO_HDR_OTHER + 1; token < PRAZO_HDR_COUNT; token++) {
        struct prazo_str name = prazo_hdr_name((enum prazo_hdr)token);
        char near[64];
        assert_true(name.len < sizeof(near));
        memcpy(near, name.base, name.len);
        near[name.len] = '_';
        assert_int_equal(prazo_hdr_find(prazo_str_n(near, name.len + 1)), PRAZO_HDR_OTHER);
        assert_int_equal(prazo_hdr_find(prazo_str_n(near, name.len - 1)), PRAZO_HDR_OTHER);
        for (size_t i = 0; i < name.len; i++) {
            near[i] = '_';
            assert_int_equal(prazo_hdr_find(prazo_str_n(near, name.len)), PRAZO_HDR_OTHER);
            near[i] = name.base[i];
        }
    }
    assert_int_equal(prazo_hdr_find(PRAZO_STR("")), PRAZO_HDR_OTHER);
    assert_int_equal(prazo_hdr_find(PRAZO_STR("x-sum")), PRAZO_HDR_OTHER);
}

static void flags_are_the_table_s(void **state)
{
    (void)state;
    static const enum prazo_hdr hop[] = { PRAZO_HDR_CONNECTION,        PRAZO_HDR_KEEP_ALIVE,
                                          PRAZO_HDR_PROXY_CONNECTION,  PRAZO_HDR_TE,
                                          PRAZO_HDR_TRANSFER_ENCODING, PRAZO_HDR_UPGRADE,
                                          PRAZO_HDR_HTTP2_SETTINGS };
    for (size_t i = 0; i < sizeof(hop) / sizeof(hop[0]); i++)
        assert_true(prazo_hdr_flags(hop[i]) & PRAZO_HDRF_HOP);
    assert_true(prazo_hdr_flags(PRAZO_HDR_CONTENT_LENGTH) & PRAZO_HDRF_FRAMING);
    assert_true(prazo_hdr_flags(PRAZO_HDR_X_DEADLINE_MS) & PRAZO_HDRF_OWN);
    assert_true(prazo_hdr_flags(PRAZO_HDR_X_FORWARDED_FOR) & PRAZO_HDRF_FORWARDED);
    assert_int_equal(prazo_hdr_flags(PRAZO_HDR_OTHER), 0);
    assert_int_equal(prazo_hdr_flags(PRAZO_HDR_CONTENT_TYPE), 0);
}

static void the_first_line_of_a_token_is_got(void **state)
{
    (void)state;
    struct prazo_header lines[] = {
        { .name = PRAZO_STR("x"), .value = PRAZO_STR("0") },
        { .name = PRAZO_STR("via"), .value = PRAZO_STR("1"), .token = PRAZO_HDR_VIA },
        { .name = PRAZO_STR("via"), .value = PRAZO_STR("2"), .token = PRAZO_HDR_VIA },
    };
    struct prazo_head head = { .headers = lines, .header_count = 3 };
    assert_ptr_equal(prazo_head_get(&head, PRAZO_HDR_VIA), &lines[1]);
    assert_null(prazo_head_get(&head, PRAZO_HDR_HOST));
    head.header_count = 1;
    assert_null(prazo_head_get(&head, PRAZO_HDR_VIA));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_finds_itself),
        cmocka_unit_test(names_beside_are_others),
        cmocka_unit_test(flags_are_the_table_s),
        cmocka_unit_test(the_first_line_of_a_token_is_got),
    };
    return cmocka_run_group_tests_name("http/msg", tests, NULL, NULL);
}
