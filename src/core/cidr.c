/* SPDX-License-Identifier: MIT */
/* Addresses and address blocks as text and as bytes. No names, no ports, no zones.
 *
 * Invariant: what a parser returns never holds an IPv4-mapped IPv6 address; it is IPv4 by then.
 * Addresses that come from a socket may hold one, so prazo_cidr_contains() looks again. */
#include "core/cidr.h"

#include <arpa/inet.h>

#include "prazo/err.h"

#define IPV4_BYTES 4
#define IPV6_BYTES 16
#define MAPPED_PREFIX_BYTES 12
#define MAPPED_PREFIX_BITS (MAPPED_PREFIX_BYTES * 8)

static int parse_literal(struct prazo_str text, struct prazo_ip *ret_ip)
{
    char z[INET6_ADDRSTRLEN];
    if (text.len == 0 || text.len >= sizeof(z) || memchr(text.base, '\0', text.len))
        return PRAZO_E_INVALID;
    memcpy(z, text.base, text.len);
    z[text.len] = '\0';

    struct prazo_ip ip = { .len = IPV4_BYTES };
    if (inet_pton(AF_INET, z, ip.bytes) != 1) {
        ip.len = IPV6_BYTES;
        if (inet_pton(AF_INET6, z, ip.bytes) != 1)
            return PRAZO_E_INVALID;
    }
    *ret_ip = ip;
    return PRAZO_OK;
}

static bool is_mapped(const struct prazo_ip *ip)
{
    static const uint8_t prefix[MAPPED_PREFIX_BYTES] = { [10] = 0xff, [11] = 0xff };
    return ip->len == IPV6_BYTES && memcmp(ip->bytes, prefix, sizeof(prefix)) == 0;
}

static struct prazo_ip unmapped(const struct prazo_ip *ip)
{
    if (!is_mapped(ip))
        return *ip;
    struct prazo_ip v4 = { .len = IPV4_BYTES };
    memcpy(v4.bytes, ip->bytes + MAPPED_PREFIX_BYTES, IPV4_BYTES);
    return v4;
}

int prazo_ip_parse(struct prazo_str text, struct prazo_ip *ret_ip)
{
    struct prazo_ip ip;
    int err = parse_literal(text, &ip);
    if (err == PRAZO_OK)
        *ret_ip = unmapped(&ip);
    return err;
}

/* 0 … bits_max without leading zeros; -1 otherwise. */
static int parse_prefix(struct prazo_str s, int bits_max)
{
    int64_t bits;
    if (s.len > 3 || (s.len > 1 && s.base[0] == '0') || prazo_str_to_i64(s, &bits) != PRAZO_OK)
        return -1;
    return bits <= bits_max ? (int)bits : -1;
}

static bool has_host_bits(const struct prazo_ip *ip, int prefix_bits)
{
    for (int bit = prefix_bits; bit < ip->len * 8; bit++)
        if (ip->bytes[bit / 8] & (0x80 >> (bit % 8)))
            return true;
    return false;
}

int prazo_cidr_parse(struct prazo_str text, struct prazo_cidr *ret_cidr)
{
    const char *slash = text.len > 0 ? memchr(text.base, '/', text.len) : NULL;
    size_t ip_len = slash ? (size_t)(slash - text.base) : text.len;
    struct prazo_ip ip;
    if (parse_literal(prazo_str_n(text.base, ip_len), &ip) != PRAZO_OK)
        return PRAZO_E_INVALID;

    int bits = ip.len * 8;
    if (slash)
        bits = parse_prefix(prazo_str_n(slash + 1, text.len - ip_len - 1), bits);
    /* A block that mentions bits it does not compare is a typing error more often than not, and
     * here it decides whom to trust. */
    if (bits < 0 || has_host_bits(&ip, bits))
        return PRAZO_E_INVALID;
    if (is_mapped(&ip))
        bits -= MAPPED_PREFIX_BITS; /* >= 0: a shorter prefix leaves the ffff as host bits */
    ret_cidr->ip = unmapped(&ip);
    ret_cidr->prefix_bits = (uint8_t)bits;
    return PRAZO_OK;
}

bool prazo_cidr_contains(const struct prazo_cidr *cidr, const struct prazo_ip *ip)
{
    struct prazo_ip own = unmapped(ip);
    if (own.len == 0 || own.len != cidr->ip.len)
        return false;
    size_t whole = cidr->prefix_bits / 8;
    unsigned rest_bits = cidr->prefix_bits % 8;
    if (memcmp(own.bytes, cidr->ip.bytes, whole) != 0)
        return false;
    if (rest_bits == 0)
        return true;
    unsigned mask = 0xff00u >> rest_bits;
    return ((own.bytes[whole] ^ cidr->ip.bytes[whole]) & mask & 0xff) == 0;
}
