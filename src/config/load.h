/* SPDX-License-Identifier: MIT */
/* One load under way, private to config/: text -> nodes -> expanded nodes -> struct -> defaults ->
 * cross-key checks. Each step goes on after a fault, so that all of them are reported at once; the
 * snapshot is handed out only if there was none. Single-threaded; lives inside one call. */
#ifndef PRAZO_CONFIG_LOAD_H
#define PRAZO_CONFIG_LOAD_H

#include "config/config.h"
#include "config/table.h"

/* Bounds of one file. 1 MiB is some 20,000 routes' worth of text; 20,000 values, aliases counted
 * at the size of what they stand for, keep "billion laughs" out; the deepest key lies at 7. */
#define PRAZO_CONFIG_FILE_BYTES_MAX ((size_t)1 << 20)
#define PRAZO_CONFIG_NODES_MAX 20000u
#define PRAZO_CONFIG_DEPTH_MAX 16u
/* What one ${file:PATH} may hold, and all expansions together. */
#define PRAZO_CONFIG_SECRET_BYTES_MAX ((size_t)64 << 10)
#define PRAZO_CONFIG_EXPANSION_BYTES_MAX ((size_t)1 << 20)
/* Faults reported; the rest is counted. */
#define PRAZO_CONFIG_FAULTS_MAX 100u

enum prazo_node_kind { PRAZO_NODE_SCALAR = 0, PRAZO_NODE_LIST, PRAZO_NODE_MAP };

struct prazo_mark {
    unsigned line, column; /* from 1; 0: no place (command line) */
};

struct prazo_node {
    enum prazo_node_kind kind;
    struct prazo_mark mark;
    struct prazo_str text;    /* SCALAR: its value, a NUL behind it */
    struct prazo_str written; /* as in the file, if that has ${…} or $${; else base NULL */
    bool is_secret;           /* text holds something from ${…}: not shown in messages */
    bool is_bad;              /* could not be expanded; reported already */
    bool is_open;             /* still being read: an alias to it would be a cycle */
    size_t count;             /* LIST, MAP */
    struct prazo_node **items;
    struct prazo_config_map_key *keys; /* MAP, beside items */
    size_t weight;                     /* nodes in it, itself included, aliases expanded */
    struct prazo_node *next;           /* every node of the load */
};

struct prazo_config_map_key {
    struct prazo_str text;
    struct prazo_mark mark;
    bool is_repeated; /* reported already; its value is not read */
};

/* A text that came from ${…}, so that the effective configuration can show how it was written. */
struct prazo_config_origin {
    const char *value;
    struct prazo_str written;
    struct prazo_config_origin *next;
};

struct prazo_fault {
    bool is_warning;
    struct prazo_mark mark;
    struct prazo_str text; /* "key: what is wrong" */
};

/* Which field was given where. */
struct prazo_given {
    const void *field;
    const struct prazo_node *node;
    const char *path;
    bool is_ok; /* false: reported, and the field is to be filled with its default */
};

struct prazo_load {
    const char *source;
    int err; /* the first operating error (PRAZO_E_NOMEM); nothing else counts then */
    struct prazo_arena_pool pool;
    struct prazo_arena arena; /* nodes, faults, paths: until the end of the load */
    struct prazo_node *nodes;
    size_t expanded_bytes;
    struct prazo_fault *faults;
    size_t fault_count, fault_capacity, faults_dropped;
    bool has_errors;
    struct prazo_given *given;
    size_t given_count, given_capacity;
    char path[256]; /* of the value being read, cut if longer */
    size_t path_len;
    struct prazo_config *config;
};

/* ---- load.c: memory; NULL sets load->err ---- */

void *prazo__load_alloc(struct prazo_load *load, size_t bytes);   /* zeroed, until the load's end */
void *prazo__config_alloc(struct prazo_load *load, size_t bytes); /* zeroed, the snapshot's */
char *prazo__config_dup(struct prazo_load *load, struct prazo_str text);
/* Makes room for one more of `bytes` behind array's count, doubling. */
void *prazo__load_grow(struct prazo_load *load, void *array, size_t count, size_t *capacity,
                       size_t bytes);

/* ---- diag.c ---- */

void prazo__fault(struct prazo_load *load, bool is_warning, struct prazo_mark mark, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));
#define PRAZO_SHOWN_BYTES 88
/* text as it may stand in a message, in its quotes: control characters escaped, cut when long. */
const char *prazo__show(struct prazo_str text, char to[PRAZO_SHOWN_BYTES]);
/* A node's value: *** if it came from ${…}, "a list", "a map". */
const char *prazo__show_node(const struct prazo_node *node, char to[PRAZO_SHOWN_BYTES]);
/* Appends every fault, by line; once, at the end. */
void prazo__fault_print(struct prazo_load *load, struct prazo_buf *to);

/* ---- parse.c, expand.c ---- */

/* The map that the file is; NULL after a fault. */
struct prazo_node *prazo__parse(struct prazo_load *load, struct prazo_str text);
/* A node that no file holds. */
struct prazo_node *prazo__node_new(struct prazo_load *load, enum prazo_node_kind kind,
                                   struct prazo_mark mark);
/* ${NAME} and ${file:PATH} in every scalar. */
void prazo__expand(struct prazo_load *load);

/* ---- type.c: one value into its field, and back ---- */

/* Whether the type's values are single scalars with a row in the table of types. */
bool prazo__type_is_scalar(enum prazo_key_type type);
/* "a duration"; what is expected, "such as 250ms, 5s, 2m". */
const char *prazo__type_noun(enum prazo_key_type type);
const char *prazo__type_expected(enum prazo_key_type type);
/* PRAZO_E_INVALID, PRAZO_E_TOO_LARGE (out of bounds): nothing was stored. */
int prazo__type_store(struct prazo_load *load, const struct prazo_key *key,
                      const struct prazo_node *node, void *object);
int prazo__type_write(const struct prazo_config *config, const struct prazo_key *key,
                      const void *object, struct prazo_buf *to);
/* A number of the type as text; to holds PRAZO_VALUE_TEXT_MAX. */
void prazo__type_format_number(enum prazo_key_type type, int64_t value, char *to);
void prazo__field_put(const struct prazo_key *key, void *object, int64_t value);
int64_t prazo__field_get(const struct prazo_key *key, const void *object);

/* ---- read.c ---- */

void prazo__read(struct prazo_load *load, const struct prazo_node *root);
/* Where a field was given, or NULL. After prazo__read() only. */
const struct prazo_given *prazo__given(const struct prazo_load *load, const void *field);
/* Given, and without a fault. */
bool prazo__is_given(const struct prazo_load *load, const void *field);
/* Fills every field of an object that was not given (or not well) and has a default. */
void prazo__defaults(struct prazo_load *load, enum prazo_key_scope scope, void *object);

/* ---- derive.c, check.c ---- */

/* Defaults, inheritance, names, labels: whatever follows from what was read. */
void prazo__derive(struct prazo_load *load);
/* Rules that more than one key takes part in. */
void prazo__check(struct prazo_load *load);
/* prazo__check()'s part for routes (check_route.c). */
void prazo__check_routes(struct prazo_load *load);

/* ---- cpus.c ---- */

/* min(CPU affinity, cgroup quota rounded up, 4), at least 1. */
int prazo__threads_auto(void);

#endif
