/* SPDX-License-Identifier: MIT */
/* x-attempt and prazo-result: what is read can be written, and reads the same again. */
#include <stdint.h>

#include "prazo/err.h"

#include "base/assert.h"
#include "core/attempt_id.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_attempt_id(struct prazo_str text)
{
    struct prazo_attempt_id id, back;
    if (prazo_attempt_id_parse(text, &id) != PRAZO_OK)
        return;
    char to[PRAZO_ATTEMPT_ID_BYTES_MAX];
    size_t len = prazo_attempt_id_format(to, id);
    PRAZO_ASSERT(len <= text.len && len <= sizeof(to)); /* leading zeros are lost */
    PRAZO_ASSERT(prazo_attempt_id_parse(prazo_str_n(to, len), &back) == PRAZO_OK);
    PRAZO_ASSERT(back.index == id.index && back.id == id.id);
}

static void check_result(struct prazo_str text)
{
    struct prazo_result result, back;
    if (prazo_result_parse(text, &result) != PRAZO_OK)
        return;
    PRAZO_ASSERT(result.outcome.len > 0 && result.spent <= 99);
    if (result.outcome.len + result.retry.len > 32) /* longer than any word of ours */
        return;
    char to[PRAZO_RESULT_BYTES_MAX];
    size_t len = prazo_result_format(to, &result);
    PRAZO_ASSERT(len <= sizeof(to));
    PRAZO_ASSERT(prazo_result_parse(prazo_str_n(to, len), &back) == PRAZO_OK);
    PRAZO_ASSERT(prazo_str_eq(back.outcome, result.outcome));
    PRAZO_ASSERT(prazo_str_eq(back.retry, result.retry));
    PRAZO_ASSERT(back.has_spent == result.has_spent && back.spent == result.spent);
    PRAZO_ASSERT(back.for_id == result.for_id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prazo_str text = { (const char *)data, size };
    check_attempt_id(text);
    check_result(text);
    return 0;
}
