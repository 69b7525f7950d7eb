/* SPDX-License-Identifier: MIT */
/* Paths for matching: normalizing is idempotent, never grows, and both ways of asking whether a
 * path is ambiguous agree. */
#include <stdint.h>

#include "base/assert.h"
#include "core/path.h"

/* Longer than limits.uri by default; the property does not depend on the length. */
#define PATH_BYTES_MAX 16384

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char once[PATH_BYTES_MAX], twice[PATH_BYTES_MAX];
    if (size > PATH_BYTES_MAX)
        return 0;
    struct prazo_str path = { (const char *)data, size };
    bool is_ambiguous, also_ambiguous;
    size_t len = prazo_path_normalize(path, once, &is_ambiguous);
    struct prazo_str normal = { once, len };
    PRAZO_ASSERT(len <= size);

    bool is_normal = prazo_path_is_normal(path, &also_ambiguous);
    PRAZO_ASSERT(is_ambiguous == also_ambiguous);
    PRAZO_ASSERT(is_normal == prazo_str_eq(path, normal));

    PRAZO_ASSERT(prazo_path_normalize(normal, twice, &also_ambiguous) == len);
    PRAZO_ASSERT(is_ambiguous == also_ambiguous);
    PRAZO_ASSERT(prazo_str_eq(normal, prazo_str_n(twice, len)));

    PRAZO_ASSERT(prazo_path_matches(normal, normal));
    PRAZO_ASSERT(prazo_path_matches(PRAZO_STR("*"), normal));
    /* A path that is not ambiguous has no segment that somebody else would resolve away. */
    if (!is_ambiguous && len > 0) {
        PRAZO_ASSERT(!memchr(once, '\\', len));
        PRAZO_ASSERT(!memmem(once, len, "//", 2));
        PRAZO_ASSERT(!memmem(once, len, "/../", 4));
        PRAZO_ASSERT(!memmem(once, len, "/./", 3));
        PRAZO_ASSERT(!memmem(once, len, "%2f", 3) && !memmem(once, len, "%2F", 3));
        PRAZO_ASSERT(!memmem(once, len, "%5c", 3) && !memmem(once, len, "%5C", 3));
        PRAZO_ASSERT(!memmem(once, len, "%00", 3));
    }
    return 0;
}
