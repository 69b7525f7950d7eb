/* SPDX-License-Identifier: MIT */
/* The assembler takes the page in as it is: no generator, no second copy. Whoever changes the page
 * has to rebuild this file (the build knows). */
#include "gateway/problems_doc.h"

__asm__(".pushsection .rodata\n"
        ".hidden prazo__problems_doc\n"
        ".globl prazo__problems_doc\n"
        "prazo__problems_doc:\n"
        ".incbin \"" PRAZO_SOURCE_DIR "/docs/problems.md\"\n"
        ".hidden prazo__problems_doc_end\n"
        ".globl prazo__problems_doc_end\n"
        "prazo__problems_doc_end:\n"
        ".byte 0\n"
        ".popsection\n");

extern const char prazo__problems_doc[], prazo__problems_doc_end[];

/* Offset of the next heading "## " at a line's start, from `at` on; the end if there is none. */
static size_t next_heading(struct prazo_str doc, size_t at)
{
    for (; at < doc.len; at++) {
        const bool is_line = at == 0 || doc.base[at - 1] == '\n';
        if (is_line && doc.len - at > 3 && memcmp(doc.base + at, "## ", 3) == 0)
            return at;
    }
    return doc.len;
}

struct prazo_str prazo_problems_doc_section(struct prazo_str name)
{
    /* As numbers: the two symbols are one array, which the compiler cannot know. */
    const size_t bytes = (uintptr_t)prazo__problems_doc_end - (uintptr_t)prazo__problems_doc;
    const struct prazo_str doc = { prazo__problems_doc, bytes };
    size_t at = next_heading(doc, 0);
    while (at < doc.len) {
        const size_t end = next_heading(doc, at + 1);
        const char *title = doc.base + at + 3;
        const char *eol = memchr(title, '\n', end - at - 3);
        if (eol && prazo_str_eq(prazo_str_n(title, (size_t)(eol - title)), name))
            return prazo_str_n(doc.base + at, end - at);
        at = end;
    }
    return prazo_str_n(NULL, 0);
}
