/* SPDX-License-Identifier: MIT */
/* What the kernel says about this process, for the process_* metrics. Main loop's thread; a scrape
 * costs a handful of system calls. */
#ifndef PRAZO_GATEWAY_PROCESS_H
#define PRAZO_GATEWAY_PROCESS_H

#include <stdint.h>

struct prazo_process {
    int64_t cpu_us;
    int64_t resident_bytes; /* -1: not known (no /proc) */
    int64_t open_fds;       /* -1: likewise */
    int64_t max_fds;
    int64_t threads; /* -1: likewise */
};

void prazo_process_read(struct prazo_process *ret_process);

#endif
