/* SPDX-License-Identifier: MIT */
/* Configuration texts: whatever they are, they are refused with a message or become a snapshot that
 * can be written, and what was written reads back as the same. Nothing they can name is opened but
 * regular files, for reading. */
#include <stdint.h>

#include "base/assert.h"
#include "config/config.h"

/* A written configuration holds every default of every route. */
#define WRITTEN_BYTES_MAX ((size_t)16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct prazo_config *load(struct prazo_str text, bool must_be_good)
{
    struct prazo_config *config = NULL;
    struct prazo_buf diag;
    prazo_buf_init(&diag, 65536);
    int err = prazo_config_load_text("fuzz.yaml", text, &diag, &config);
    PRAZO_ASSERT((err == PRAZO_OK) == (config != NULL));
    PRAZO_ASSERT(err == PRAZO_OK || diag.len > 0);
    PRAZO_ASSERT(err == PRAZO_OK || !must_be_good);
    /* Nothing from the text can move a terminal's cursor. */
    for (size_t i = 0; i < diag.len; i++)
        PRAZO_ASSERT((unsigned char)diag.base[i] >= ' ' || diag.base[i] == '\n');
    prazo_buf_done(&diag);
    return config;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prazo_config *first = load(prazo_str_n((const char *)data, size), false);
    if (!first)
        return 0;
    struct prazo_buf once, twice;
    prazo_buf_init(&once, WRITTEN_BYTES_MAX);
    prazo_buf_init(&twice, WRITTEN_BYTES_MAX);
    PRAZO_ASSERT(prazo_config_write(first, &once) == PRAZO_OK);
    /* The reader's own bound may refuse what a short text with many aliases has grown to. */
    if (once.len < size + 65536) {
        struct prazo_config *second = load(prazo_buf_str(&once), true);
        PRAZO_ASSERT(prazo_config_write(second, &twice) == PRAZO_OK);
        PRAZO_ASSERT(prazo_str_eq(prazo_buf_str(&once), prazo_buf_str(&twice)));
        prazo_config_unref(second);
    }
    prazo_buf_done(&once);
    prazo_buf_done(&twice);
    prazo_config_unref(first);
    return 0;
}
