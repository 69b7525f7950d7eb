/* SPDX-License-Identifier: MIT */
/* Paths for matching (contract 13): unreserved %XX are decoded (RFC 3986 §6.2.2.2) for matching
 * only; the upstream gets the target as it was sent. Pure. */
#ifndef PRAZO_CORE_PATH_H
#define PRAZO_CORE_PATH_H

#include "base/str.h"

/* Decodes unreserved %XX of path into `to` (at least path.len bytes), returns the length.
 * *ret_ambiguous: the result still holds %2f %5c %00 \ // or a dot segment (also as %2e, which is
 * unreserved and so decoded first), or a '%' that starts no %XX. */
size_t prazo_path_normalize(struct prazo_str path, char *to, bool *ret_ambiguous);
/* True if nothing has to be decoded, so that the path can be matched where it lies. Sets
 * *ret_ambiguous too. */
bool prazo_path_is_normal(struct prazo_str path, bool *ret_ambiguous);

/* pattern: exact, or a prefix ending in '*'. */
bool prazo_path_matches(struct prazo_str pattern, struct prazo_str path);

#endif
