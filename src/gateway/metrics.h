/* SPDX-License-Identifier: MIT */
/* The table of metrics, for its tests and its page. Rendering is in stats.h. */
#ifndef PRAZO_GATEWAY_METRICS_H
#define PRAZO_GATEWAY_METRICS_H

#include "base/buf.h"

/* The generated part of docs/metrics.md: a table with a line per metric. Errors are those of the
 * buffer. */
int prazo_metrics_write_reference(struct prazo_buf *to);

/* Name of the index-th metric as the text format 0.0.4 has it; NULL behind the last. */
const char *prazo_metrics_name(unsigned index);

#endif
