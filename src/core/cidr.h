/* SPDX-License-Identifier: MIT */
/* Address blocks for `trust`. IPv4-mapped IPv6 addresses (::ffff:a.b.c.d) are matched as IPv4.
 * Pure. */
#ifndef PRAZO_CORE_CIDR_H
#define PRAZO_CORE_CIDR_H

#include "base/str.h"

struct prazo_ip {
    uint8_t bytes[16]; /* network order; IPv4 in the first four */
    uint8_t len;       /* 4, 16, or 0: no IP (a Unix socket) */
};

struct prazo_cidr {
    struct prazo_ip ip;
    uint8_t prefix_bits;
};

/* "10.0.0.0/8", "::1/128", or a bare address (the whole of it). Host bits must be 0.
 * PRAZO_E_INVALID. */
int prazo_cidr_parse(struct prazo_str text, struct prazo_cidr *ret_cidr);
int prazo_ip_parse(struct prazo_str text, struct prazo_ip *ret_ip);
bool prazo_cidr_contains(const struct prazo_cidr *cidr, const struct prazo_ip *ip);

#endif
