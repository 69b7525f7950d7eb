/* SPDX-License-Identifier: MIT */
/* Values of the configuration language as text, and back. Pure. */
#ifndef PRAZO_CONFIG_VALUE_H
#define PRAZO_CONFIG_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* "250ms", "1.5s", "2m", "1h", "7d", "500us" -> µs. The result has to be a whole number of µs.
 * PRAZO_E_INVALID (also for a number without a unit), PRAZO_E_TOO_LARGE. */
int prazo_duration_parse(struct prazo_str text, int64_t *ret_us);
/* "100B", "64KiB", "1.5MiB", "2GiB", "1TiB" -> bytes; likewise. */
int prazo_size_parse(struct prazo_str text, int64_t *ret_bytes);
/* "50%" -> 50; likewise. */
int prazo_percent_parse(struct prazo_str text, int64_t *ret_percent);

/* The shortest text that the parser above reads back as the same value; value >= 0. */
#define PRAZO_VALUE_TEXT_MAX 32
void prazo_duration_format(char to[PRAZO_VALUE_TEXT_MAX], int64_t us);
void prazo_size_format(char to[PRAZO_VALUE_TEXT_MAX], int64_t bytes);

/* The optimal string alignment distance (insert, delete, change, swap neighbours), or a number
 * above `max` if it is larger. Texts beyond 64 bytes are never near. */
unsigned prazo_text_distance(struct prazo_str a, struct prazo_str b, unsigned max);
/* Whether b may be what somebody meant who wrote a: distance <= 2, for short words <= 1, because
 * any two words of four letters are close. */
bool prazo_text_is_near(struct prazo_str a, struct prazo_str b);
/* RFC 3629, without NUL. Returns the number of valid bytes at the start: text.len if all are. */
size_t prazo_utf8_valid(struct prazo_str text);

#endif
