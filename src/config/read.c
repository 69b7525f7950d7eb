/* SPDX-License-Identifier: MIT */
/* Nodes -> struct, by the table: which keys exist where, what a scalar stands for, which words a
 * key knows. Every value read is noted with its place (prazo__given), so that defaults and the
 * cross-key rules know what was written and where. Goes on after every fault. */
#include "config/load.h"

#include <inttypes.h>
#include <stdlib.h>

#include "config/value.h"

static bool read_value(struct prazo_load *load, const struct prazo_key *key,
                       const struct prazo_node *node, void *object);

/* ---- the path of the value being read, for messages ---- */

static size_t path_push(struct prazo_load *load, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static size_t path_push(struct prazo_load *load, const char *fmt, ...)
{
    size_t before = load->path_len, room = sizeof(load->path) - before;
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(load->path + before, room, fmt, ap);
    va_end(ap);
    load->path_len += len < 0 ? 0 : (size_t)len < room ? (size_t)len : room - 1;
    return before;
}

static void path_pop(struct prazo_load *load, size_t before)
{
    load->path_len = before;
    load->path[before] = '\0';
}

static size_t path_push_name(struct prazo_load *load, struct prazo_str name)
{
    /* A name that would need escapes is shown in its quotes. */
    char shown[PRAZO_SHOWN_BYTES];
    bool is_plain = name.len > 0 && name.len < 64;
    for (size_t i = 0; i < name.len; i++)
        is_plain &= name.base[i] > ' ' && name.base[i] < 0x7f && name.base[i] != '"';
    const char *dot = load->path_len ? "." : "";
    if (is_plain)
        return path_push(load, "%s%.*s", dot, PRAZO_STR_ARG(name));
    return path_push(load, "%s%s", dot, prazo__show(name, shown));
}

/* ---- what was given where ---- */

static void note(struct prazo_load *load, const void *field, const struct prazo_node *node,
                 bool is_ok)
{
    struct prazo_given *grown = prazo__load_grow(load, load->given, load->given_count,
                                                 &load->given_capacity, sizeof(*grown));
    char *path = grown ? prazo__load_alloc(load, load->path_len + 1) : NULL;
    if (!path)
        return;
    memcpy(path, load->path, load->path_len);
    load->given = grown;
    load->given[load->given_count++] = (struct prazo_given){ field, node, path, is_ok };
}

static int by_field(const void *pa, const void *pb)
{
    const struct prazo_given *a = pa, *b = pb;
    return (uintptr_t)a->field < (uintptr_t)b->field ? -1 : a->field != b->field;
}

const struct prazo_given *prazo__given(const struct prazo_load *load, const void *field)
{
    struct prazo_given wanted = { .field = field };
    if (load->given_count == 0)
        return NULL;
    return bsearch(&wanted, load->given, load->given_count, sizeof(wanted), by_field);
}

bool prazo__is_given(const struct prazo_load *load, const void *field)
{
    const struct prazo_given *given = prazo__given(load, field);
    return given && given->is_ok;
}

/* While reading, before the notes are sorted. */
static bool is_noted(const struct prazo_load *load, const void *field)
{
    for (size_t i = 0; i < load->given_count; i++)
        if (load->given[i].field == field)
            return true;
    return false;
}

/* ---- messages ---- */

/* "a|b|c" as "a, b, c". */
static const char *list_words(const char *words, char *to, size_t bytes)
{
    size_t out = 0;
    to[0] = '\0';
    for (const char *c = words; *c && out + 3 < bytes; c++) {
        if (*c == '|')
            to[out++] = ',';
        to[out++] = *c == '|' ? ' ' : *c;
        to[out] = '\0';
    }
    return to;
}

static void fault_out_of_range(struct prazo_load *load, const struct prazo_key *key,
                               const struct prazo_node *node)
{
    char shown[PRAZO_SHOWN_BYTES], min[PRAZO_VALUE_TEXT_MAX], max[PRAZO_VALUE_TEXT_MAX];
    prazo__type_format_number(key->type, key->min, min);
    prazo__type_format_number(key->type, key->max, max);
    prazo__fault(load, false, node->mark, "%s: %s is out of range; expected %s to %s%s%s",
                 load->path, prazo__show_node(node, shown), min, max, key->words ? ", or " : "",
                 key->words ? key->words : "");
}

/* "0", "0s", "0KiB": somebody means that there is no limit. */
static bool is_zero(struct prazo_str text)
{
    return text.len > 0 && text.base[0] == '0' && !strpbrk(text.base, "123456789");
}

static void fault_invalid(struct prazo_load *load, const struct prazo_key *key,
                          const struct prazo_node *node)
{
    char shown[PRAZO_SHOWN_BYTES], words[128] = "";
    const char *value = prazo__show_node(node, shown);
    const char *noun = prazo__type_noun(key->type);
    bool is_number = key->type == PRAZO_KEY_DURATION || key->type == PRAZO_KEY_SIZE ||
                     key->type == PRAZO_KEY_COUNT;
    if (key->words)
        list_words(key->words, words, sizeof(words));
    if (node->kind == PRAZO_NODE_SCALAR && !node->text.base)
        prazo__fault(load, false, node->mark, "%s: has no value; expected %s%s", load->path,
                     noun ? prazo__type_expected(key->type) : "one of ", noun ? "" : words);
    else if (!noun)
        prazo__fault(load, false, node->mark, "%s: %s is not one of %s", load->path, value, words);
    else if (is_number && key->word_value == PRAZO_CONFIG_NONE && key->words && is_zero(node->text))
        prazo__fault(load, false, node->mark, "%s: %s does not mean unlimited; write none",
                     load->path, value);
    else if (key->words && !is_number)
        prazo__fault(load, false, node->mark, "%s: %s is not %s; expected %s, or %s", load->path,
                     value, noun, prazo__type_expected(key->type), words);
    else
        prazo__fault(load, false, node->mark, "%s: %s is not %s; expected %s", load->path, value,
                     noun, prazo__type_expected(key->type));
}

/* The path of a row as a person would write it: "upstreams.<name>.clock". */
static const char *show_path(const char *path, char *to, size_t bytes)
{
    size_t out = 0;
    for (const char *c = path; *c && out + 7 < bytes; c++)
        out += (size_t)snprintf(to + out, bytes - out, *c == '*' ? "<name>" : "%c", *c);
    to[out] = '\0';
    return to;
}

/* The names of parent's keys, as "a, b, c". */
static const char *list_names(const struct prazo_key *parent, char *to, size_t bytes)
{
    size_t out = 0;
    to[0] = '\0';
    for (size_t i = 0; i < prazo_key_count; i++) {
        struct prazo_str name = prazo_key_name_in(&prazo_keys[i], parent);
        if (name.base && out + name.len + 3 < bytes)
            out += (size_t)snprintf(to + out, bytes - out, "%s%.*s", out ? ", " : "",
                                    PRAZO_STR_ARG(name));
    }
    return to;
}

static const struct prazo_key *near_key(const struct prazo_key *parent, struct prazo_str written)
{
    for (size_t i = 0; i < prazo_key_count; i++) {
        struct prazo_str name = prazo_key_name_in(&prazo_keys[i], parent);
        if (name.base && prazo_text_is_near(written, name))
            return &prazo_keys[i];
    }
    return NULL;
}

/* A row of exactly this name somewhere else. */
static const struct prazo_key *key_elsewhere(struct prazo_str written)
{
    for (size_t i = 0; i < prazo_key_count; i++) {
        const char *dot = strrchr(prazo_keys[i].path, '.');
        if (dot && prazo_str_eq(prazo_str_z(dot + 1), written))
            return &prazo_keys[i];
    }
    return NULL;
}

static void fault_unknown(struct prazo_load *load, const struct prazo_key *parent,
                          const struct prazo_config_map_key *written)
{
    char text[512];
    const struct prazo_key *near = near_key(parent, written->text);
    const struct prazo_key *elsewhere = key_elsewhere(written->text);
    if (near)
        prazo__fault(load, false, written->mark, "%s: unknown key; did you mean '%.*s'?",
                     load->path, PRAZO_STR_ARG(prazo_key_name_in(near, parent)));
    else if (elsewhere)
        prazo__fault(load, false, written->mark, "%s: unknown key here; it belongs to '%s'",
                     load->path, show_path(elsewhere->path, text, sizeof(text)));
    else
        prazo__fault(load, false, written->mark, "%s: unknown key; expected one of %s", load->path,
                     list_names(parent, text, sizeof(text)));
}

/* ---- one kind of row each ---- */

static bool read_scalar(struct prazo_load *load, const struct prazo_key *key,
                        const struct prazo_node *node, void *object)
{
    int err = PRAZO_E_INVALID;
    if (node->kind == PRAZO_NODE_SCALAR && node->text.base)
        err = prazo__type_store(load, key, node, object);
    bool is_unlimited = err == PRAZO_E_TOO_LARGE && key->word_value == PRAZO_CONFIG_NONE &&
                        key->words && is_zero(node->text);
    if (err == PRAZO_E_TOO_LARGE && !is_unlimited)
        fault_out_of_range(load, key, node);
    else if (err)
        fault_invalid(load, key, node);
    return !err;
}

static bool read_map(struct prazo_load *load, const struct prazo_key *parent,
                     const struct prazo_node *node, void *object)
{
    for (size_t i = 0; i < node->count; i++) {
        if (node->keys[i].is_repeated)
            continue;
        const struct prazo_key *key = prazo_key_child(parent, node->keys[i].text);
        size_t before = path_push_name(load, node->keys[i].text);
        if (key)
            read_value(load, key, node->items[i], object);
        else
            fault_unknown(load, parent, &node->keys[i]);
        path_pop(load, before);
    }
    return true;
}

/* A value in place of the map: it is read as each of the keys that it stands for. */
static bool read_short_form(struct prazo_load *load, const struct prazo_key *key,
                            const struct prazo_node *node, void *object)
{
    bool is_ok = true;
    for (int i = 0; is_ok; i++) {
        struct prazo_str name = prazo_word_at(key->scalar, i);
        if (!name.base)
            break;
        is_ok = read_value(load, prazo_key_child(key, name), node, object);
    }
    return is_ok;
}

static bool read_section(struct prazo_load *load, const struct prazo_key *key,
                         const struct prazo_node *node, void *object)
{
    char shown[PRAZO_SHOWN_BYTES], names[512];
    if (node->kind == PRAZO_NODE_MAP)
        return read_map(load, key, node, object);
    if (key->scalar)
        return read_short_form(load, key, node, object);
    bool is_empty = node->kind == PRAZO_NODE_SCALAR && !node->text.base;
    prazo__fault(load, false, node->mark, "%s: %s%s; expected the keys %s", load->path,
                 is_empty ? "" : prazo__show_node(node, shown),
                 is_empty ? "has no value" : " is not a map",
                 list_names(key, names, sizeof(names)));
    return false;
}

/* The entries' memory, cleared; NULL after a fault. */
static void *new_entries(struct prazo_load *load, const struct prazo_key *key,
                         const struct prazo_node *node, size_t count, void *object)
{
    if ((int64_t)count < key->min || (int64_t)count > key->max) {
        prazo__fault(load, false, node->mark, "%s: %zu entries; expected %" PRId64 " to %" PRId64,
                     load->path, count, key->min, key->max);
        return NULL;
    }
    void *entries = prazo__config_alloc(load, count * key->entry_bytes);
    if (!entries)
        return NULL;
    memcpy((char *)object + key->offset, &entries, sizeof(entries));
    memcpy((char *)object + key->beside, &count, sizeof(count));
    return entries;
}

static bool read_list(struct prazo_load *load, const struct prazo_key *key,
                      const struct prazo_node *node, void *object)
{
    int word = node->kind == PRAZO_NODE_SCALAR ? prazo_word_index(key->words, node->text) : -1;
    bool is_list = node->kind == PRAZO_NODE_LIST, is_ok = true;
    if (word < 0) {
        size_t count = is_list ? node->count : 1;
        char *entries = new_entries(load, key, node, count, object);
        is_ok = entries != NULL;
        for (size_t i = 0; entries && i < count; i++) {
            size_t before = is_list ? path_push(load, "[%zu]", i) : load->path_len;
            is_ok &= read_value(load, prazo_key_entry(key), is_list ? node->items[i] : node,
                                entries + i * key->entry_bytes);
            path_pop(load, before);
        }
    }
    if (key->word_at) {
        int kind = word >= 0 ? word : PRAZO_TRUST_LIST;
        memcpy((char *)object + key->word_at, &kind, sizeof(kind));
    }
    return is_ok;
}

static void set_name(struct prazo_load *load, void *entry, struct prazo_str name)
{
    ((struct prazo_config_upstream *)entry)->name = prazo__config_dup(load, name);
}

static bool is_name(struct prazo_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = prazo_lower(s.base[i]);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '.' && c != '_')
            return false;
    }
    return s.len > 0 && s.len <= 64;
}

static bool read_named(struct prazo_load *load, const struct prazo_key *key,
                       const struct prazo_node *node, void *object)
{
    if (node->kind != PRAZO_NODE_MAP) {
        char shown[PRAZO_SHOWN_BYTES];
        prazo__fault(load, false, node->mark,
                     "%s: %s is not a map of names, such as { app: 127.0.0.1:9001 }; for a single "
                     "one write 'upstream'",
                     load->path, prazo__show_node(node, shown));
        return false;
    }
    char *entries = new_entries(load, key, node, node->count, object);
    for (size_t i = 0; entries && i < node->count; i++) {
        const struct prazo_config_map_key *name = &node->keys[i];
        void *entry = entries + i * key->entry_bytes;
        size_t before = path_push_name(load, name->text);
        if (!is_name(name->text))
            prazo__fault(load, false, name->mark, "%s: not a name; expected %s", load->path,
                         prazo__type_expected(PRAZO_KEY_NAME));
        set_name(load, entry, name->text);
        read_value(load, prazo_key_entry(key), node->items[i], entry);
        path_pop(load, before);
    }
    return entries != NULL;
}

static bool read_single(struct prazo_load *load, const struct prazo_key *key,
                        const struct prazo_node *node, void *object)
{
    const struct prazo_key *named = prazo_key_find("upstreams");
    void *entry = new_entries(load, named, node, 1, object);
    (void)key;
    if (!entry)
        return false;
    set_name(load, entry, PRAZO_STR("default"));
    read_value(load, prazo_key_entry(named), node, entry);
    return true;
}

static bool dispatch(struct prazo_load *load, const struct prazo_key *key,
                     const struct prazo_node *node, void *object)
{
    if (node->is_bad)
        return false;
    if (key->type == PRAZO_KEY_SECTION)
        return read_section(load, key, node, object);
    if (key->type == PRAZO_KEY_LIST)
        return read_list(load, key, node, object);
    if (key->type == PRAZO_KEY_NAMED)
        return read_named(load, key, node, object);
    if (key->type == PRAZO_KEY_SINGLE)
        return read_single(load, key, node, object);
    return read_scalar(load, key, node, object);
}

static bool read_value(struct prazo_load *load, const struct prazo_key *key,
                       const struct prazo_node *node, void *object)
{
    if (load->err)
        return false;
    const void *field = (char *)object + key->offset;
    bool is_field = key->width != 0 && key->in != PRAZO_IN_ENTRY;
    if (is_field && (key->type == PRAZO_KEY_SINGLE || key->type == PRAZO_KEY_NAMED) &&
        is_noted(load, field)) {
        prazo__fault(load, false, node->mark,
                     "%s: 'upstream' and 'upstreams' are both given; "
                     "write one of them",
                     load->path);
        return false;
    }
    bool is_ok = dispatch(load, key, node, object);
    if (is_field)
        note(load, field, node, is_ok);
    return is_ok;
}

void prazo__defaults(struct prazo_load *load, enum prazo_key_scope scope, void *object)
{
    for (size_t i = 0; i < prazo_key_count && !load->err; i++) {
        const struct prazo_key *key = &prazo_keys[i];
        if (key->in != scope || !key->fallback ||
            prazo__is_given(load, (char *)object + key->offset))
            continue;
        struct prazo_node node = { .text = prazo_str_z(key->fallback) };
        dispatch(load, key, &node, object);
    }
}

void prazo__read(struct prazo_load *load, const struct prazo_node *root)
{
    read_map(load, NULL, root, load->config);
    if (load->given_count)
        qsort(load->given, load->given_count, sizeof(load->given[0]), by_field);
}
