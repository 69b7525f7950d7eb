/* SPDX-License-Identifier: MIT */
/* Plain socket calls that uv_stream.c builds on; not for anybody above io/. */
#ifndef PRAZO_IO_SOCK_H
#define PRAZO_IO_SOCK_H

#include "io/io.h"

/* A non-blocking socket with a connection to addr started or finished. Errors as
 * prazo_stream_connect(). */
int prazo__sock_connect(const struct prazo_addr *addr, int *ret_fd);
/* The outcome of a connection, once the socket has become writable or failed. Reading it clears
 * it. */
int prazo__sock_connect_result(int fd);
/* True if the socket is connected to itself. */
bool prazo__sock_is_self_connected(int fd);
/* ip: 4 or 16 bytes in network order. */
void prazo__addr_from_ip(const void *ip, unsigned ip_bytes, uint16_t port,
                         struct prazo_addr *ret_addr);
bool prazo__addr_is_loopback(const struct prazo_addr *addr);
/* PRAZO_E_* for an errno of socket(), bind(), listen() or connect(). */
int prazo__sock_err(int errnum);

#endif
