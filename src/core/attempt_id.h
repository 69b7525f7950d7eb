/* SPDX-License-Identifier: MIT */
/* x-attempt ("N-" + 16 hex digits) and prazo-result: bytes in, value out, and back. Pure. */
#ifndef PRAZO_CORE_ATTEMPT_ID_H
#define PRAZO_CORE_ATTEMPT_ID_H

#include "base/str.h"

struct prazo_attempt_id {
    uint32_t index; /* 0: first attempt, k: its k-th repeat */
    uint64_t id;    /* new for every attempt */
};

#define PRAZO_ATTEMPT_ID_BYTES_MAX 27 /* 10 digits, '-', 16 hex */

/* PRAZO_E_INVALID unless exactly 1–9 digits, '-', 16 lower- or upper-case hex digits. */
int prazo_attempt_id_parse(struct prazo_str value, struct prazo_attempt_id *ret_id);
size_t prazo_attempt_id_format(char *to, struct prazo_attempt_id id);

struct prazo_result {
    struct prazo_str outcome; /* "none", "unknown", …, or "passed" */
    struct prazo_str retry;   /* base NULL: not given */
    uint32_t spent;           /* 0–99 */
    bool has_spent;
    uint64_t for_id; /* the attempt that this is about */
};

#define PRAZO_RESULT_BYTES_MAX 96

/* "<outcome>;retry=<retry>;spent=<m>;for=<16 hex>"; unknown parameters are ignored; `for` is
 * required. Slices point into value. */
int prazo_result_parse(struct prazo_str value, struct prazo_result *ret_result);
/* Writes at most PRAZO_RESULT_BYTES_MAX bytes, returns their number. retry with base NULL and
 * !has_spent are left out. */
size_t prazo_result_format(char *to, const struct prazo_result *result);

#endif
