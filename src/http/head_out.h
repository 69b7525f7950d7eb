/* SPDX-License-Identifier: MIT */
/* What http/ itself needs of a head under construction. */
#ifndef PRAZO_HTTP_HEAD_OUT_H
#define PRAZO_HTTP_HEAD_OUT_H

#include "http/exchange.h"

/* Room for "HTTP/1.1 200 " + reason + CRLF; longer reasons are cut (nobody decides by them). */
#define PRAZO_HEAD_GAP 72u

/* The status line put in front: the whole head so far, or base NULL if memory had run out. */
struct prazo_str prazo__head_out_answer(struct prazo_head_out *out, int status,
                                        struct prazo_str reason);
/* Our own phrase for a status, or an empty one. */
struct prazo_str prazo__reason_phrase(int status);

#endif
