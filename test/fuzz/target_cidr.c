/* SPDX-License-Identifier: MIT */
/* Address blocks: input is "block address" or one of them. A block holds its own address, and one
 * that is read is never wider than its address. */
#include <stdint.h>

#include "prazo/err.h"

#include "base/assert.h"
#include "core/cidr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The naive twin: bit by bit. */
static bool shares_prefix(const struct prazo_cidr *cidr, const struct prazo_ip *ip)
{
    if (cidr->ip.len != ip->len)
        return false;
    for (unsigned bit = 0; bit < cidr->prefix_bits; bit++) {
        unsigned mask = 0x80u >> (bit % 8);
        if ((cidr->ip.bytes[bit / 8] & mask) != (ip->bytes[bit / 8] & mask))
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prazo_str text = { (const char *)data, size };
    const char *blank = size > 0 ? memchr(text.base, ' ', size) : NULL;
    size_t cidr_len = blank ? (size_t)(blank - text.base) : size;
    struct prazo_str ip_text = blank ? prazo_str_n(blank + 1, size - cidr_len - 1) : text;

    struct prazo_cidr cidr;
    struct prazo_ip ip;
    bool has_cidr = prazo_cidr_parse(prazo_str_n(text.base, cidr_len), &cidr) == PRAZO_OK;
    bool has_ip = prazo_ip_parse(ip_text, &ip) == PRAZO_OK;
    if (has_ip)
        PRAZO_ASSERT(ip.len == 4 || ip.len == 16);
    if (!has_cidr)
        return 0;
    PRAZO_ASSERT(cidr.ip.len == 4 || cidr.ip.len == 16);
    PRAZO_ASSERT(cidr.prefix_bits <= cidr.ip.len * 8);
    PRAZO_ASSERT(prazo_cidr_contains(&cidr, &cidr.ip));
    if (has_ip)
        PRAZO_ASSERT(prazo_cidr_contains(&cidr, &ip) == shares_prefix(&cidr, &ip));
    return 0;
}
