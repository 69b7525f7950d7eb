/* SPDX-License-Identifier: MIT */
/* The reference of the configuration as Markdown, by the table; docs/config.md holds it between two
 * markers, and a test compares both. */
#include "config/load.h"

#include "config/value.h"

struct doc {
    struct prazo_buf *to;
    int err;
};

static void add(struct doc *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct doc *d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!d->err)
        d->err = prazo_buf_vaddf(d->to, fmt, ap);
    va_end(ap);
}

/* "upstreams.*.clock" as `upstreams.<name>.clock`. */
static void add_path(struct doc *d, const char *path)
{
    add(d, "`");
    for (const char *c = path; *c; c++)
        add(d, *c == '*' ? "<name>" : "%c", *c);
    add(d, "`");
}

static void add_words(struct doc *d, const char *words, const char *before)
{
    for (int i = 0; words; i++) {
        struct prazo_str word = prazo_word_at(words, i);
        if (!word.base)
            return;
        add(d, "%s`%.*s`", i || *before ? ", " : "", PRAZO_STR_ARG(word));
    }
}

static void add_type(struct doc *d, const struct prazo_key *key)
{
    const char *noun = prazo__type_noun(key->type);
    char min[PRAZO_VALUE_TEXT_MAX], max[PRAZO_VALUE_TEXT_MAX];
    const char *kind = noun ? noun : "";
    if (key->type == PRAZO_KEY_SECTION)
        kind = "a map";
    else if (key->type == PRAZO_KEY_LIST)
        kind = "a list";
    else if (key->type == PRAZO_KEY_NAMED)
        kind = "a map of names";
    else if (key->type == PRAZO_KEY_SINGLE)
        kind = "an upstream";
    add(d, "%s", kind);
    add_words(d, key->words, kind);
    if (key->max && prazo__type_is_scalar(key->type)) {
        prazo__type_format_number(key->type, key->min, min);
        prazo__type_format_number(key->type, key->max, max);
        add(d, "; %s to %s", min, max);
    }
}

static void add_default(struct doc *d, const struct prazo_key *key)
{
    if (key->fallback)
        add(d, "`%s`", key->fallback);
    else
        add(d, "%s", key->otherwise ? key->otherwise : "");
}

int prazo_config_write_reference(struct prazo_buf *to)
{
    struct doc d = { .to = to };
    add(&d, "| key | value | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < prazo_key_count; i++) {
        const struct prazo_key *key = &prazo_keys[i];
        add(&d, "| ");
        add_path(&d, key->path);
        add(&d, "%s | ", key->needs_restart ? " †" : "");
        add_type(&d, key);
        add(&d, " | ");
        add_default(&d, key);
        add(&d, " | %s |\n", key->help);
    }
    add(&d, "\n† changed only by a restart; a reload takes over everything else.\n");
    return d.err;
}
