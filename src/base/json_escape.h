/* SPDX-License-Identifier: MIT */
/* Text from outside as the inside of a JSON string (RFC 8259 §7), piece by piece, so that the
 * growable buffer and the log's fixed line share one set of rules:
 *   control characters (C0, DEL, C1) and the line separators U+2028, U+2029: escaped
 *   bytes that are not valid UTF-8 (RFC 3629): one U+FFFD each
 *   everything else: as it is */
#ifndef PRAZO_BASE_JSON_ESCAPE_H
#define PRAZO_BASE_JSON_ESCAPE_H

#include <stddef.h>

#define PRAZO__JSON_ESCAPE_MAX 6u

/* How many bytes at the start of s may be copied as they are; whole characters only. */
size_t prazo__json_plain(const char *s, size_t len);
/* For a character that may not (len > 0): writes what stands for it (at most
 * PRAZO__JSON_ESCAPE_MAX bytes), returns how many, and how many bytes of s they replace. */
size_t prazo__json_escape(const char *s, size_t len, char *to, size_t *ret_taken);

#endif
