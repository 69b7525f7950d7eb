/* SPDX-License-Identifier: MIT */
/* Shared between the h1_*.c files. */
#ifndef PRAZO_HTTP_H1_INTERNAL_H
#define PRAZO_HTTP_H1_INTERNAL_H

#include "http/h1.h"

/* Field lines up to and with the empty line, by our own strict rules; for trailers. 0 or
 * PRAZO_E_INVALID. */
int prazo__h1_parse_fields(char *data, size_t len, struct prazo_header *headers, size_t *ret_count);
/* Lower-cases and checks a field name; false unless it is a token. */
bool prazo__h1_lower_name(char *name, size_t len);
/* Sets token and flags of one header whose name is lower-cased. */
void prazo__h1_classify(struct prazo_header *header);

#endif
