/* SPDX-License-Identifier: MIT */
/* A scripted upstream on threads of its own: plain blocking sockets, nothing of the code under test
 * and no allocation, so that an out-of-memory walk reaches the gateway alone. One process has one.
 *
 * It answers by path: /small 200 "hello" · /big 200, UPSTREAM_BIG_BYTES in chunks, with a trailer ·
 * /early 103, then as /small · /hold as /small, once upstream_let_go() was called · /echo 101, four
 * bytes back, end (200 without an upgrade). Every head is larger than 3,000 bytes. */
#ifndef PRAZO_TEST_OOM_UPSTREAM_H
#define PRAZO_TEST_OOM_UPSTREAM_H

#include <stdint.h>

#define UPSTREAM_BIG_BYTES 1500000

/* listen_fd: until the end of the process. */
void upstream_start(int listen_fd);
/* From now on /hold waits, or goes on. */
void upstream_hold(void);
void upstream_let_go(void);
/* Byte i of the big body. */
char upstream_big_byte(int64_t i);

#endif
