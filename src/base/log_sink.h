/* SPDX-License-Identifier: MIT */
/* Where finished log lines go: the rings of all threads, the thread that writes them out, and the
 * direct way for whoever has no ring. Private to the log. */
#ifndef PRAZO_BASE_LOG_SINK_H
#define PRAZO_BASE_LOG_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Starts the writer thread towards fd (borrowed). PRAZO_E_NOMEM, PRAZO_E_NO_FDS. */
int prazo__log_sink_start(int fd);

/* Takes one finished line of the calling thread, to its ring if it has one and the writer runs,
 * else straight to fd 2. Drops and counts what does not go. */
void prazo__log_sink_put(struct prazo_str line, bool is_urgent);

#endif
