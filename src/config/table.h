/* SPDX-License-Identifier: MIT */
/* The table of configuration keys: one row a key. Reader, writer, reference and tests all walk it,
 * so that no key exists in one of them only. Constant data, thread-safe. */
#ifndef PRAZO_CONFIG_TABLE_H
#define PRAZO_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum prazo_key_type {
    PRAZO_KEY_SECTION = 0, /* a map of keys of their own rows */
    PRAZO_KEY_LIST,        /* rows `path[]` describe an entry; one entry may stand without a list */
    PRAZO_KEY_NAMED,       /* a map of names; row `path.*` describes an entry */
    PRAZO_KEY_SINGLE, /* short form of the NAMED row `path` + "s": one entry called "default" */
    PRAZO_KEY_DURATION,
    PRAZO_KEY_SIZE,
    PRAZO_KEY_COUNT,
    PRAZO_KEY_PERCENT,
    PRAZO_KEY_WORD,   /* an enum: the index in `words` */
    PRAZO_KEY_SWITCH, /* on | off */
    PRAZO_KEY_TEXT,
    PRAZO_KEY_NAME,
    PRAZO_KEY_METHOD,
    PRAZO_KEY_PROTOCOL,
    PRAZO_KEY_HOST,
    PRAZO_KEY_PATH,
    PRAZO_KEY_URL,
    PRAZO_KEY_ADDRESS, /* an address of this host */
    PRAZO_KEY_SERVER,  /* an address, or host:port to be resolved */
    PRAZO_KEY_CIDR,
    PRAZO_KEY_UPSTREAM, /* the name of an upstream */
    /* must stay last */
    PRAZO_KEY_TYPE_COUNT
};

/* The struct that a row's field lies in. */
enum prazo_key_scope {
    PRAZO_IN_CONFIG = 0,
    PRAZO_IN_LISTENER,
    PRAZO_IN_UPSTREAM,
    PRAZO_IN_SERVER,
    PRAZO_IN_ROUTE,
    PRAZO_IN_ENTRY, /* the entry of a list of scalars itself */
};

struct prazo_key {
    const char *path; /* "limits.headers", "upstreams.*.host", "routes[].methods[]" */
    enum prazo_key_type type;
    enum prazo_key_scope in;
    size_t offset, width;  /* the field */
    size_t beside;         /* LIST, NAMED: the count; ADDRESS: the prazo_addr; HOST: the word */
    size_t word_at;        /* LIST: an int-sized field for the word's index, else 0 */
    size_t entry_bytes;    /* LIST, NAMED: one entry */
    const char *fallback;  /* the default as it would be written; NULL: none, or `otherwise` */
    const char *otherwise; /* says what holds when nothing is given and fallback is NULL */
    const char *words;     /* "a|b": accepted beside (WORD: instead of) the type's own values */
    int64_t word_value;    /* numbers: what the one word stands for */
    int64_t min, max;      /* value, or entries of a list; inclusive */
    const char *scalar; /* SECTION: the keys that a value in place of the map stands for, "a|b" */
    bool needs_restart; /* a reload does not change it */
    const char *help;
};

extern const struct prazo_key prazo_keys[];
extern const size_t prazo_key_count;

/* The row of exactly this path, or NULL. */
const struct prazo_key *prazo_key_find(const char *path);
/* The row of `name` in the map that `parent` describes (NULL: the top level), or NULL. */
const struct prazo_key *prazo_key_child(const struct prazo_key *parent, struct prazo_str name);
/* The row's own name if it is a direct child of parent; base NULL otherwise. */
struct prazo_str prazo_key_name_in(const struct prazo_key *key, const struct prazo_key *parent);
/* The row of an entry of a LIST ("[]") or NAMED (".*") row. Exists for every such row. */
const struct prazo_key *prazo_key_entry(const struct prazo_key *key);
/* The index of text among "a|b|c", or -1. */
int prazo_word_index(const char *words, struct prazo_str text);
/* The word of this index; base NULL beyond the end. */
struct prazo_str prazo_word_at(const char *words, int index);

#endif
