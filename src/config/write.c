/* SPDX-License-Identifier: MIT */
/* The effective configuration as YAML, by the table: every key, defaults included, in a form that
 * reads back as the same configuration. Addresses, numbers and words are written as they are in
 * force; texts that came from ${…} are written as the file has them, because they may be secret. */
#include "config/load.h"

struct writer {
    const struct prazo_config *config;
    struct prazo_buf *to;
    int err; /* the first; everything after it does nothing */
};

static void write_map(struct writer *w, const struct prazo_key *parent, const void *object,
                      unsigned indent, bool is_entry);

static void text(struct writer *w, const char *z)
{
    if (!w->err)
        w->err = prazo_buf_add_z(w->to, z);
}

static void indent_by(struct writer *w, unsigned indent)
{
    for (unsigned i = 0; i < indent; i++)
        text(w, " ");
}

static void scalar(struct writer *w, const struct prazo_key *key, const void *object)
{
    if (!w->err)
        w->err = prazo__type_write(w->config, key, object, w->to);
}

static const char *entries_of(const struct prazo_key *key, const void *object, size_t *ret_count)
{
    const char *entries;
    memcpy(&entries, (const char *)object + key->offset, sizeof(entries));
    memcpy(ret_count, (const char *)object + key->beside, sizeof(*ret_count));
    return entries;
}

/* Whether a list's field holds one of its words: `none`, `all`, or what stands for the default. */
static struct prazo_str word_of_list(const struct prazo_key *key, const void *object, size_t count)
{
    if (!key->word_at)
        return count ? (struct prazo_str){ NULL, 0 } : prazo_str_z(key->words);
    const struct prazo_config_listener *listener = object;
    if (listener->trust == PRAZO_TRUST_LIST && !listener->trusts_unix)
        return (struct prazo_str){ NULL, 0 };
    return prazo_word_at(key->words, (int)listener->trust);
}

static void write_list(struct writer *w, const struct prazo_key *key, const void *object,
                       unsigned indent)
{
    size_t count;
    const char *entries = entries_of(key, object, &count);
    const struct prazo_key *entry = prazo_key_entry(key);
    struct prazo_str word = word_of_list(key, object, count);
    if (word.base) {
        text(w, " ");
        if (!w->err)
            w->err = prazo_buf_add_str(w->to, word);
        text(w, "\n");
        return;
    }
    bool is_flow = entry->type != PRAZO_KEY_SECTION;
    text(w, is_flow ? " [" : "\n");
    for (size_t i = 0; i < count; i++) {
        const char *at = entries + i * key->entry_bytes;
        if (is_flow) {
            text(w, i ? ", " : "");
            scalar(w, entry, at);
        } else {
            indent_by(w, indent + 2);
            text(w, "- ");
            write_map(w, entry, at, indent + 4, true);
        }
    }
    text(w, is_flow ? "]\n" : "");
}

static void write_named(struct writer *w, const struct prazo_key *key, const void *object,
                        unsigned indent)
{
    size_t count;
    const char *entries = entries_of(key, object, &count);
    text(w, "\n");
    for (size_t i = 0; i < count; i++) {
        const struct prazo_config_upstream *upstream =
            (const struct prazo_config_upstream *)(const void *)(entries + i * key->entry_bytes);
        /* Letters, digits, - . _ only; quoted where other YAML readers would see a number. */
        bool is_plain = (upstream->name[0] | 0x20) >= 'a';
        indent_by(w, indent + 2);
        text(w, is_plain ? "" : "\"");
        text(w, upstream->name);
        text(w, is_plain ? ":\n" : "\":\n");
        write_map(w, prazo_key_entry(key), upstream, indent + 4, false);
    }
}

/* Keys that say nothing by being absent, and have no word for it. */
static bool is_absent(const struct prazo_key *key, const void *object)
{
    const struct prazo_config_route *route = object;
    if (key->type == PRAZO_KEY_SINGLE)
        return true;
    if (key->in != PRAZO_IN_ROUTE)
        return false;
    if (key->offset == offsetof(struct prazo_config_route, methods))
        return route->method_count == 0;
    if (key->offset == offsetof(struct prazo_config_route, host))
        return !route->host;
    if (key->offset == offsetof(struct prazo_config_route, listen))
        return !route->listen;
    return key->offset == offsetof(struct prazo_config_route, on_abandon) && !route->has_on_abandon;
}

static void write_value(struct writer *w, const struct prazo_key *key, const void *object,
                        unsigned indent)
{
    if (key->type == PRAZO_KEY_SECTION) {
        text(w, "\n");
        write_map(w, key, object, indent + 2, false);
    } else if (key->type == PRAZO_KEY_LIST) {
        write_list(w, key, object, indent);
    } else if (key->type == PRAZO_KEY_NAMED) {
        write_named(w, key, object, indent);
    } else {
        text(w, " ");
        scalar(w, key, object);
        text(w, "\n");
    }
}

/* is_entry: the first line continues a "- ". */
static void write_map(struct writer *w, const struct prazo_key *parent, const void *object,
                      unsigned indent, bool is_entry)
{
    for (size_t i = 0; i < prazo_key_count; i++) {
        const struct prazo_key *key = &prazo_keys[i];
        struct prazo_str name = prazo_key_name_in(key, parent);
        bool is_section = key->type == PRAZO_KEY_SECTION;
        if (!name.base || (!is_section && is_absent(key, object)))
            continue;
        if (!is_entry)
            indent_by(w, indent);
        is_entry = false;
        text(w, name.base);
        text(w, ":");
        write_value(w, key, object, indent);
    }
}

int prazo_config_write(const struct prazo_config *config, struct prazo_buf *to)
{
    struct writer w = { .config = config, .to = to };
    write_map(&w, NULL, config, 0, false);
    return w.err;
}
