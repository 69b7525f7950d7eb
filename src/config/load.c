/* SPDX-License-Identifier: MIT */
/* Entry points: a file, a text, or a pair of addresses -> a checked snapshot. Everything made on
 * the way lies in the load's arena and everything of the snapshot in the snapshot's, so that no
 * error path has anything single to free. */
#include "config/load.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"

/* Far above what PRAZO_CONFIG_NODES_MAX values can need; only a wrong bound elsewhere meets it. */
#define ARENA_BYTES_MAX ((size_t)256 << 20)

static void *cleared(struct prazo_load *load, struct prazo_arena *arena, size_t bytes)
{
    void *p = load->err ? NULL : prazo_arena_alloc(arena, bytes ? bytes : 1);
    if (p)
        memset(p, 0, bytes);
    else
        load->err = PRAZO_E_NOMEM;
    return p;
}

void *prazo__load_alloc(struct prazo_load *load, size_t bytes)
{
    return cleared(load, &load->arena, bytes);
}

void *prazo__config_alloc(struct prazo_load *load, size_t bytes)
{
    return cleared(load, &load->config->arena, bytes);
}

char *prazo__config_dup(struct prazo_load *load, struct prazo_str text)
{
    char *copy = prazo__config_alloc(load, text.len + 1);
    if (copy && text.len)
        memcpy(copy, text.base, text.len);
    return copy;
}

void *prazo__load_grow(struct prazo_load *load, void *array, size_t count, size_t *capacity,
                       size_t bytes)
{
    if (count < *capacity)
        return array;
    size_t wanted = *capacity ? 2 * *capacity : 8;
    void *grown = prazo__load_alloc(load, wanted * bytes);
    if (!grown)
        return NULL;
    if (count)
        memcpy(grown, array, count * bytes);
    *capacity = wanted;
    return grown;
}

struct prazo_config *prazo_config_ref(struct prazo_config *config)
{
    __atomic_fetch_add(&config->refs, 1, __ATOMIC_RELAXED);
    return config;
}

void prazo_config_unref(struct prazo_config *config)
{
    if (!config || __atomic_sub_fetch(&config->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    prazo_arena_reset(&config->arena);
    prazo_arena_pool_done(&config->arena_pool);
    prazo_mem_free(config);
}

static int begin(struct prazo_load *load, const char *source)
{
    *load = (struct prazo_load){ .source = source };
    struct prazo_config *config = prazo_mem_calloc(1, sizeof(*config));
    if (!config)
        return PRAZO_E_NOMEM;
    config->refs = 1;
    prazo_arena_pool_init(&config->arena_pool, 0);
    prazo_arena_init(&config->arena, &config->arena_pool, ARENA_BYTES_MAX);
    prazo_arena_pool_init(&load->pool, 0);
    prazo_arena_init(&load->arena, &load->pool, ARENA_BYTES_MAX);
    load->config = config;
    config->source = prazo__config_dup(load, prazo_str_z(source));
    return PRAZO_OK;
}

static int finish(struct prazo_load *load, const struct prazo_node *root, struct prazo_buf *diag,
                  struct prazo_config **ret)
{
    if (root && !load->err)
        prazo__read(load, root);
    if (root && !load->err)
        prazo__derive(load);
    if (root && !load->err)
        prazo__check(load);
    if (!load->err)
        prazo__fault_print(load, diag);
    int err = load->err ? load->err : load->has_errors ? PRAZO_E_INVALID : PRAZO_OK;
    if (err == PRAZO_E_NOMEM)
        prazo_buf_addf(diag, "%s: error: out of memory\n", load->source);
    if (err)
        prazo_config_unref(load->config);
    else
        *ret = load->config;
    prazo_arena_reset(&load->arena);
    prazo_arena_pool_done(&load->pool);
    return err;
}

int prazo_config_load_text(const char *source, struct prazo_str text, struct prazo_buf *diag,
                           struct prazo_config **ret)
{
    struct prazo_load load;
    int err = begin(&load, source);
    if (err)
        return err;
    struct prazo_node *root = prazo__parse(&load, text);
    if (root && !load.err)
        prazo__expand(&load);
    return finish(&load, root, diag, ret);
}

/* The map that `listen: A` and `upstream: B` would be; nothing is expanded in it. */
static struct prazo_node *pair_map(struct prazo_load *load, const char *listen, const char *to)
{
    static const struct prazo_config_map_key keys[] = {
        { .text = PRAZO_STR_INIT("listen") },
        { .text = PRAZO_STR_INIT("upstream") },
    };
    struct prazo_mark nowhere = { 0, 0 };
    struct prazo_node *map = prazo__node_new(load, PRAZO_NODE_MAP, nowhere);
    struct prazo_node *a = prazo__node_new(load, PRAZO_NODE_SCALAR, nowhere);
    struct prazo_node *b = prazo__node_new(load, PRAZO_NODE_SCALAR, nowhere);
    if (!map || !a || !b)
        return NULL;
    map->items = prazo__load_alloc(load, 2 * sizeof(map->items[0]));
    map->keys = prazo__load_alloc(load, sizeof(keys));
    if (!map->items || !map->keys)
        return NULL;
    a->text = prazo_str_z(listen);
    b->text = prazo_str_z(to);
    map->items[0] = a;
    map->items[1] = b;
    memcpy(map->keys, keys, sizeof(keys));
    map->count = 2;
    return map;
}

int prazo_config_load_pair(const char *listen, const char *to, struct prazo_buf *diag,
                           struct prazo_config **ret)
{
    struct prazo_load load;
    int err = begin(&load, "command line");
    if (err)
        return err;
    return finish(&load, pair_map(&load, listen, to), diag, ret);
}

/* ---- files ---- */

static int of_errno(int number)
{
    if (number == ENOENT || number == ENOTDIR)
        return PRAZO_E_NOT_FOUND;
    return number == EACCES || number == EPERM ? PRAZO_E_DENIED : PRAZO_E_IO;
}

/* At most one byte more than a configuration may have. */
static int read_all(int fd, struct prazo_buf *to)
{
    for (;;) {
        int err = prazo_buf_reserve(to, to->max - to->len < 16384 ? to->max - to->len : 16384);
        if (err || to->len == to->max)
            return err;
        size_t room = (to->cap < to->max ? to->cap : to->max) - to->len;
        ssize_t n = read(fd, to->base + to->len, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? of_errno(errno) : PRAZO_OK;
        to->len += (size_t)n;
    }
}

int prazo_config_load_file(const char *path, struct prazo_buf *diag, struct prazo_config **ret)
{
    struct prazo_buf text;
    prazo_buf_init(&text, PRAZO_CONFIG_FILE_BYTES_MAX + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int err = fd < 0 ? of_errno(errno) : read_all(fd, &text);
    if (err == PRAZO_E_NOMEM)
        prazo_buf_addf(diag, "%s: error: out of memory\n", path);
    else if (err)
        prazo_buf_addf(diag, "%s: error: cannot be read: %s\n", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (!err)
        err = prazo_config_load_text(path, prazo_buf_str(&text), diag, ret);
    prazo_buf_done(&text);
    return err;
}
