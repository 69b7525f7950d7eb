/* SPDX-License-Identifier: MIT */
/* Address blocks: who is trusted. */
#include "core/cidr.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "prazo/err.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void blocks_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int prefix_bits; /* -1: invalid */
        int ip_len;
    } rows[] = {
        { "10.0.0.0/8", 8, 4 },
        { "10.1.2.3", 32, 4 },
        { "10.1.2.3/32", 32, 4 },
        { "0.0.0.0/0", 0, 4 },
        { "192.168.128.0/17", 17, 4 },
        { "::1", 128, 16 },
        { "::1/128", 128, 16 },
        { "::/0", 0, 16 },
        { "fe80::/10", 10, 16 },
        { "2001:db8:0:8000::/49", 49, 16 },
        { "::ffff:10.0.0.0/104", 8, 4 },
        { "::ffff:10.1.2.3", 32, 4 },
        { "::ffff:0:0/96", 0, 4 },
        { "", -1, 0 },
        { "/", -1, 0 },
        { "/8", -1, 0 },
        { "10.0.0.0/", -1, 0 },
        { "10.0.0.0/33", -1, 0 },
        { "10.0.0.0/-1", -1, 0 },
        { "10.0.0.0/+8", -1, 0 },
        { "10.0.0.0/08", -1, 0 },
        { "10.0.0.0/0008", -1, 0 },
        { "10.0.0.0/8/8", -1, 0 },
        { "10.0.0.0/8 ", -1, 0 },
        { " 10.0.0.0/8", -1, 0 },
        { "10.0.0.1/8", -1, 0 }, /* host bits */
        { "192.168.129.0/17", -1, 0 },
        { "::1/127", -1, 0 },
        { "::1/129", -1, 0 },
        { "::ffff:0:0/95", -1, 0 },
        { "10.0.0", -1, 0 },
        { "10.0.0.256", -1, 0 },
        { "010.0.0.1", -1, 0 },
        { "0x0a.0.0.1", -1, 0 },
        { "167772160", -1, 0 },
        { "fe80::1%lo", -1, 0 },
        { "[::1]", -1, 0 },
        { "localhost", -1, 0 },
        { "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb", -1, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_cidr cidr = { .prefix_bits = 77 };
        int err = prazo_cidr_parse(prazo_str_z(rows[i].text), &cidr);
        if (rows[i].prefix_bits < 0) {
            if (err != PRAZO_E_INVALID || cidr.prefix_bits != 77)
                fail_msg("\"%s\": %d", rows[i].text, err);
            continue;
        }
        if (err != PRAZO_OK || cidr.prefix_bits != rows[i].prefix_bits ||
            cidr.ip.len != rows[i].ip_len)
            fail_msg("\"%s\": %d, /%d of %d bytes", rows[i].text, err, cidr.prefix_bits,
                     cidr.ip.len);
    }
    struct prazo_cidr cidr;
    assert_int_equal(prazo_cidr_parse((struct prazo_str){ NULL, 0 }, &cidr), PRAZO_E_INVALID);
    assert_int_equal(prazo_cidr_parse(prazo_str_n("10.0.0.1\0x", 10), &cidr), PRAZO_E_INVALID);
}

static void blocks_contain_what_shares_their_prefix(void **state)
{
    (void)state;
    static const struct {
        const char *cidr, *ip;
        bool does_contain;
    } rows[] = {
        { "10.0.0.0/8", "10.255.0.1", true },
        { "10.0.0.0/8", "11.0.0.0", false },
        { "192.168.128.0/17", "192.168.255.255", true },
        { "192.168.128.0/17", "192.168.127.255", false },
        { "10.1.2.3", "10.1.2.3", true },
        { "10.1.2.3", "10.1.2.2", false },
        { "0.0.0.0/0", "255.255.255.255", true },
        { "0.0.0.0/0", "::1", false },
        { "::/0", "::1", true },
        { "::/0", "1.2.3.4", false }, /* IPv4 has blocks of its own */
        { "::/0", "::ffff:1.2.3.4", false },
        { "::1", "::1", true },
        { "::1", "::2", false },
        { "fe80::/10", "febf::1", true },
        { "fe80::/10", "fec0::1", false },
        { "10.0.0.0/8", "::ffff:10.1.1.1", true },
        { "::ffff:10.0.0.0/104", "10.1.1.1", true },
        { "127.0.0.0/8", "::ffff:7f00:1", true },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct prazo_cidr cidr;
        struct prazo_ip ip;
        assert_int_equal(prazo_cidr_parse(prazo_str_z(rows[i].cidr), &cidr), PRAZO_OK);
        assert_int_equal(prazo_ip_parse(prazo_str_z(rows[i].ip), &ip), PRAZO_OK);
        if (prazo_cidr_contains(&cidr, &ip) != rows[i].does_contain)
            fail_msg("%s in %s", rows[i].ip, rows[i].cidr);
    }
}

static void sockets_give_mapped_addresses_or_none(void **state)
{
    (void)state;
    struct prazo_cidr cidr;
    assert_int_equal(prazo_cidr_parse(PRAZO_STR("127.0.0.0/8"), &cidr), PRAZO_OK);
    struct prazo_ip mapped = { .bytes = { [10] = 0xff, 0xff, 127, 0, 0, 1 }, .len = 16 };
    assert_true(prazo_cidr_contains(&cidr, &mapped));

    struct prazo_ip none = { .len = 0 };
    assert_false(prazo_cidr_contains(&cidr, &none));
    assert_int_equal(prazo_cidr_parse(PRAZO_STR("0.0.0.0/0"), &cidr), PRAZO_OK);
    assert_false(prazo_cidr_contains(&cidr, &none));
}

static void addresses_have_no_port_and_no_prefix(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "10.0.0.1:80", "[::1]:80", "10.0.0.0/8", "::g", "a.b" };
    struct prazo_ip ip = { .len = 77 };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(prazo_ip_parse(prazo_str_z(bad[i]), &ip), PRAZO_E_INVALID);
    assert_int_equal(ip.len, 77);
    assert_int_equal(prazo_ip_parse(PRAZO_STR("::ffff:9.8.7.6"), &ip), PRAZO_OK);
    assert_int_equal(ip.len, 4);
    assert_memory_equal(ip.bytes, "\x09\x08\x07\x06", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_read_strictly),
        cmocka_unit_test(blocks_contain_what_shares_their_prefix),
        cmocka_unit_test(sockets_give_mapped_addresses_or_none),
        cmocka_unit_test(addresses_have_no_port_and_no_prefix),
    };
    return cmocka_run_group_tests_name("core/cidr", tests, NULL, NULL);
}
