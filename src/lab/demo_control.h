/* SPDX-License-Identifier: MIT */
/* What PUT /_control may change while the demo service runs, and its JSON form:
 * {"service_ms":4000,"workers":50,"ignore_cancel":false}, every member optional. */
#ifndef PRAZO_LAB_DEMO_CONTROL_H
#define PRAZO_LAB_DEMO_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct prazo_demo_settings {
    int64_t service_us; /* mean; of jobs that begin from now on */
    unsigned workers;
    bool ignores_cancel; /* of callers that leave from now on */
};

/* Changes what `json` names; all or nothing. PRAZO_E_INVALID: *error holds one sentence that says
 * what is wrong and what is expected. */
int prazo_demo_settings_read(struct prazo_demo_settings *settings, struct prazo_str json,
                             struct prazo_buf *error);
int prazo_demo_settings_write(const struct prazo_demo_settings *settings, struct prazo_buf *to);

#endif
