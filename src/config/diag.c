/* SPDX-License-Identifier: MIT */
/* Messages of a load: collected in any order, printed once by line. Text from the file is shown
 * escaped and cut, because a terminal obeys control characters; text from ${…} is not shown at
 * all, because it may be a secret that stands in the wrong place. */
#include "config/load.h"

#include <stdarg.h>

#include "config/value.h"

void prazo__fault(struct prazo_load *load, bool is_warning, struct prazo_mark mark, const char *fmt,
                  ...)
{
    load->has_errors |= !is_warning;
    if (load->fault_count == PRAZO_CONFIG_FAULTS_MAX) {
        load->faults_dropped++;
        return;
    }
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    size_t bytes = len < 0 ? 0 : (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1;

    void *grown = prazo__load_grow(load, load->faults, load->fault_count, &load->fault_capacity,
                                   sizeof(struct prazo_fault));
    if (!grown)
        return;
    load->faults = grown;
    struct prazo_str kept = prazo_arena_dup(&load->arena, prazo_str_n(text, bytes));
    if (!kept.base) {
        load->err = PRAZO_E_NOMEM;
        return;
    }
    load->faults[load->fault_count++] = (struct prazo_fault){ is_warning, mark, kept };
}

/* What is written in place of the byte (or the C1 control) at s; 0 bytes taken: it stays. */
static size_t escape(struct prazo_str s, char to[8])
{
    unsigned char c = (unsigned char)s.base[0];
    bool is_c1 = c == 0xc2 && s.len > 1 && (unsigned char)s.base[1] < 0xa0;
    if (c == '"' || c == '\\')
        snprintf(to, 8, "\\%c", c);
    else if (c == '\n')
        snprintf(to, 8, "\\n");
    else if (c == '\t')
        snprintf(to, 8, "\\t");
    else if (is_c1)
        snprintf(to, 8, "\\x%02x", (unsigned char)s.base[1]);
    else if (c < 0x20 || c == 0x7f || prazo_utf8_valid(s) == 0)
        snprintf(to, 8, "\\x%02x", c);
    else
        return 0;
    return is_c1 ? 2 : 1;
}

const char *prazo__show(struct prazo_str text, char to[PRAZO_SHOWN_BYTES])
{
    size_t at = 0, out = 0;
    to[out++] = '"';
    /* Room for one more escape or character, the ellipsis, the quote and the NUL. */
    while (at < text.len && out + 8 + 5 < PRAZO_SHOWN_BYTES) {
        char escaped[8];
        struct prazo_str rest = prazo_str_n(text.base + at, text.len - at);
        size_t taken = escape(rest, escaped);
        if (taken) {
            size_t len = strlen(escaped);
            memcpy(to + out, escaped, len);
            out += len;
        } else {
            do
                to[out++] = text.base[at + taken++];
            while (taken < rest.len && (text.base[at + taken] & 0xc0) == 0x80 && taken < 4);
        }
        at += taken;
    }
    snprintf(to + out, PRAZO_SHOWN_BYTES - out, "%s\"", at < text.len ? "…" : "");
    return to;
}

const char *prazo__show_node(const struct prazo_node *node, char to[PRAZO_SHOWN_BYTES])
{
    if (node->kind == PRAZO_NODE_MAP)
        return "a map";
    if (node->kind == PRAZO_NODE_LIST)
        return "a list";
    if (node->is_secret)
        return "***";
    return prazo__show(node->text, to);
}

static bool is_behind(const struct prazo_fault *a, const struct prazo_fault *b)
{
    if (a->mark.line != b->mark.line)
        return a->mark.line > b->mark.line;
    return a->mark.column > b->mark.column;
}

/* Stable and without memory of its own; at most PRAZO_CONFIG_FAULTS_MAX elements. */
static void sort(struct prazo_fault *faults, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct prazo_fault fault = faults[i];
        size_t at = i;
        for (; at > 0 && is_behind(&faults[at - 1], &fault); at--)
            faults[at] = faults[at - 1];
        faults[at] = fault;
    }
}

void prazo__fault_print(struct prazo_load *load, struct prazo_buf *to)
{
    sort(load->faults, load->fault_count);
    /* A buffer that is full keeps what it has: whether the file is good does not hang on it. */
    int err = PRAZO_OK;
    for (size_t i = 0; i < load->fault_count && !err; i++) {
        const struct prazo_fault *fault = &load->faults[i];
        const char *kind = fault->is_warning ? "warning" : "error";
        char place[32] = "";
        if (fault->mark.line)
            snprintf(place, sizeof(place), "%u:%u:", fault->mark.line, fault->mark.column);
        err = prazo_buf_addf(to, "%s:%s %s: %.*s\n", load->source, place, kind,
                             PRAZO_STR_ARG(fault->text));
    }
    if (load->faults_dropped && !err)
        err = prazo_buf_addf(to, "%s: %zu more not shown\n", load->source, load->faults_dropped);
    if (err == PRAZO_E_NOMEM)
        load->err = err;
}
