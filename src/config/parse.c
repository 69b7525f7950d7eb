/* SPDX-License-Identifier: MIT */
/* YAML text -> nodes with their places, through libyaml's events (its own document loader knows no
 * bounds). Scalars stay text: `on`, `none`, `5` mean what their key says they mean. Refused are
 * tags, keys that are not scalars, keys written twice, aliases to something still open, a second
 * document, and whatever is too deep or too much. The only file that includes <yaml.h>.
 *
 * An alias shares its target's node; `weight` counts it in full, so that what a walk over the
 * nodes costs is bounded by PRAZO_CONFIG_NODES_MAX whatever the aliases do. */
#include "config/load.h"

#include <yaml.h>

#include "config/value.h"

struct frame {
    struct prazo_node *node;
    size_t capacity, key_capacity;
    struct prazo_config_map_key key;
    bool has_key; /* a map's key was read, its value is next */
};

struct anchor {
    const char *name;
    struct prazo_node *node;
    struct anchor *next;
};

struct parse {
    struct prazo_load *load;
    yaml_parser_t yaml;
    struct frame stack[PRAZO_CONFIG_DEPTH_MAX];
    size_t depth;
    struct anchor *anchors; /* newest first: a name may be used again */
    struct prazo_node *root;
    size_t documents;
    bool is_stopped; /* a fault after which the rest cannot be understood */
};

static struct prazo_mark mark_of(yaml_mark_t mark)
{
    return (struct prazo_mark){ (unsigned)mark.line + 1, (unsigned)mark.column + 1 };
}

/* Line and column (in characters) of a byte offset. */
static struct prazo_mark mark_at(struct prazo_str text, size_t offset)
{
    struct prazo_mark mark = { 1, 1 };
    for (size_t i = 0; i < offset && i < text.len; i++) {
        if (text.base[i] == '\n') {
            mark.line++;
            mark.column = 1;
        } else if ((text.base[i] & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

static void stop(struct parse *p, struct prazo_mark mark, const char *what)
{
    prazo__fault(p->load, false, mark, "%s", what);
    p->is_stopped = true;
}

struct prazo_node *prazo__node_new(struct prazo_load *load, enum prazo_node_kind kind,
                                   struct prazo_mark mark)
{
    struct prazo_node *node = prazo__load_alloc(load, sizeof(*node));
    if (!node)
        return NULL;
    node->kind = kind;
    node->mark = mark;
    node->weight = 1;
    node->next = load->nodes;
    load->nodes = node;
    return node;
}

static struct prazo_str dup_text(struct parse *p, const unsigned char *base, size_t len)
{
    char *copy = prazo__load_alloc(p->load, len + 1);
    if (!copy)
        return (struct prazo_str){ NULL, 0 };
    memcpy(copy, base, len);
    return prazo_str_n(copy, len);
}

static void add_anchor(struct parse *p, const yaml_char_t *name, struct prazo_node *node)
{
    if (!name)
        return;
    struct anchor *anchor = prazo__load_alloc(p->load, sizeof(*anchor));
    if (!anchor)
        return;
    anchor->name = dup_text(p, name, strlen((const char *)name)).base;
    anchor->node = node;
    anchor->next = p->anchors;
    if (anchor->name)
        p->anchors = anchor;
}

/* Appends to the list or map under construction, or makes it the root. */
static void attach(struct parse *p, struct prazo_node *node)
{
    if (p->depth == 0) {
        p->root = node;
        return;
    }
    struct frame *frame = &p->stack[p->depth - 1];
    struct prazo_node *parent = frame->node;
    void *items = prazo__load_grow(p->load, parent->items, parent->count, &frame->capacity,
                                   sizeof(parent->items[0]));
    if (!items)
        return;
    parent->items = items;
    if (parent->kind == PRAZO_NODE_MAP) {
        void *keys = prazo__load_grow(p->load, parent->keys, parent->count, &frame->key_capacity,
                                      sizeof(parent->keys[0]));
        if (!keys)
            return;
        parent->keys = keys;
        parent->keys[parent->count] = frame->key;
        frame->has_key = false;
    }
    parent->items[parent->count++] = node;
}

/* Weights go up only when a node is complete, so that an alias sees its target's full weight. */
static void add_weight(struct parse *p, size_t weight, struct prazo_mark mark)
{
    if (p->depth == 0)
        return;
    struct prazo_node *parent = p->stack[p->depth - 1].node;
    parent->weight += weight;
    if (parent->weight > PRAZO_CONFIG_NODES_MAX)
        stop(p, mark, "too many values; aliases count as what they stand for");
}

static bool wants_key(const struct parse *p)
{
    return p->depth > 0 && p->stack[p->depth - 1].node->kind == PRAZO_NODE_MAP &&
           !p->stack[p->depth - 1].has_key;
}

static void read_key(struct parse *p, const yaml_event_t *event)
{
    struct frame *frame = &p->stack[p->depth - 1];
    frame->key = (struct prazo_config_map_key){ .mark = mark_of(event->start_mark) };
    frame->key.text = dup_text(p, event->data.scalar.value, event->data.scalar.length);
    frame->has_key = true;
    for (size_t i = 0; frame->key.text.base && i < frame->node->count; i++) {
        const struct prazo_config_map_key *other = &frame->node->keys[i];
        if (!prazo_str_eq(other->text, frame->key.text))
            continue;
        char shown[PRAZO_SHOWN_BYTES];
        prazo__fault(p->load, false, frame->key.mark, "%s: key written twice; first in line %u",
                     prazo__show(other->text, shown), other->mark.line);
        frame->key.is_repeated = true;
        break;
    }
}

static void on_scalar(struct parse *p, const yaml_event_t *event)
{
    struct prazo_mark mark = mark_of(event->start_mark);
    if (event->data.scalar.tag) {
        stop(p, mark, "a tag (!) has no meaning here");
        return;
    }
    if (wants_key(p)) {
        read_key(p, event);
        return;
    }
    struct prazo_node *node = prazo__node_new(p->load, PRAZO_NODE_SCALAR, mark);
    if (!node)
        return;
    bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (event->data.scalar.length || !is_plain)
        node->text = dup_text(p, event->data.scalar.value, event->data.scalar.length);
    add_anchor(p, event->data.scalar.anchor, node);
    attach(p, node);
    add_weight(p, 1, mark);
}

static void on_alias(struct parse *p, const yaml_event_t *event)
{
    struct prazo_mark mark = mark_of(event->start_mark);
    const char *name = (const char *)event->data.alias.anchor;
    const struct anchor *anchor = p->anchors;
    while (anchor && strcmp(anchor->name, name) != 0)
        anchor = anchor->next;
    if (wants_key(p)) {
        stop(p, mark, "an alias cannot be a key");
    } else if (!anchor) {
        stop(p, mark, "an alias without its anchor before it");
    } else if (anchor->node->is_open) {
        stop(p, mark, "an alias to something that contains it");
    } else {
        attach(p, anchor->node);
        add_weight(p, anchor->node->weight, mark);
    }
}

static void on_open(struct parse *p, const yaml_event_t *event, enum prazo_node_kind kind)
{
    struct prazo_mark mark = mark_of(event->start_mark);
    bool is_map = kind == PRAZO_NODE_MAP;
    if (is_map ? event->data.mapping_start.tag : event->data.sequence_start.tag) {
        stop(p, mark, "a tag (!) has no meaning here");
        return;
    }
    if (wants_key(p)) {
        stop(p, mark, "a map or list cannot be a key");
        return;
    }
    if (p->depth == PRAZO_CONFIG_DEPTH_MAX) {
        stop(p, mark, "nested too deeply");
        return;
    }
    struct prazo_node *node = prazo__node_new(p->load, kind, mark);
    if (!node)
        return;
    node->is_open = true;
    add_anchor(p, is_map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor,
               node);
    attach(p, node);
    p->stack[p->depth++] = (struct frame){ .node = node };
}

static void on_close(struct parse *p)
{
    struct prazo_node *node = p->stack[--p->depth].node;
    node->is_open = false;
    add_weight(p, node->weight, node->mark);
}

static void on_event(struct parse *p, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (p->documents++)
            stop(p, mark_of(event->start_mark), "a second document; one file is one configuration");
        break;
    case YAML_SCALAR_EVENT:
        on_scalar(p, event);
        break;
    case YAML_ALIAS_EVENT:
        on_alias(p, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        on_open(p, event, PRAZO_NODE_LIST);
        break;
    case YAML_MAPPING_START_EVENT:
        on_open(p, event, PRAZO_NODE_MAP);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        on_close(p);
        break;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
}

/* libyaml reports one error and cannot go on. */
static void on_yaml_error(struct parse *p, struct prazo_str text)
{
    const yaml_parser_t *yaml = &p->yaml;
    if (yaml->error == YAML_MEMORY_ERROR) {
        p->load->err = PRAZO_E_NOMEM;
        return;
    }
    const char *problem = yaml->problem ? yaml->problem : "cannot be understood";
    if (yaml->error == YAML_READER_ERROR) {
        prazo__fault(p->load, false, mark_at(text, yaml->problem_offset), "YAML: %s", problem);
        return;
    }
    struct prazo_mark mark = mark_of(yaml->problem_mark);
    if (yaml->context && yaml->context_mark.line != yaml->problem_mark.line)
        prazo__fault(p->load, false, mark, "YAML: %s, %s that begins in line %zu", problem,
                     yaml->context, yaml->context_mark.line + 1);
    else if (yaml->context)
        prazo__fault(p->load, false, mark, "YAML: %s, %s", problem, yaml->context);
    else
        prazo__fault(p->load, false, mark, "YAML: %s", problem);
}

static void run(struct parse *p, struct prazo_str text)
{
    bool is_end = false;
    while (!is_end && !p->is_stopped && !p->load->err) {
        yaml_event_t event;
        if (!yaml_parser_parse(&p->yaml, &event)) {
            on_yaml_error(p, text);
            p->is_stopped = true;
            return;
        }
        on_event(p, &event);
        is_end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
}

/* libyaml would take UTF-16 with a byte order mark; a file that is not UTF-8 is refused before. */
static bool is_text(struct prazo_load *load, struct prazo_str text)
{
    if (text.len > PRAZO_CONFIG_FILE_BYTES_MAX) {
        prazo__fault(load, false, (struct prazo_mark){ 1, 1 }, "larger than 1MiB");
        return false;
    }
    size_t valid = prazo_utf8_valid(text);
    if (valid == text.len)
        return true;
    prazo__fault(load, false, mark_at(text, valid), "%s",
                 text.base[valid] == '\0' ? "a NUL byte; expected UTF-8 text" : "not valid UTF-8");
    return false;
}

struct prazo_node *prazo__parse(struct prazo_load *load, struct prazo_str text)
{
    if (prazo_str_has_prefix(text, PRAZO_STR("\xef\xbb\xbf")))
        text = prazo_str_n(text.base + 3, text.len - 3);
    if (!is_text(load, text))
        return NULL;
    struct parse p = { .load = load };
    if (!yaml_parser_initialize(&p.yaml)) {
        load->err = PRAZO_E_NOMEM;
        return NULL;
    }
    yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p.yaml, (const unsigned char *)text.base, text.len);
    run(&p, text);
    yaml_parser_delete(&p.yaml);
    if (p.is_stopped || load->err)
        return NULL;
    if (!p.root || (p.root->kind == PRAZO_NODE_SCALAR && !p.root->text.base)) {
        prazo__fault(load, false, (struct prazo_mark){ 1, 1 },
                     "nothing in it; the smallest file is 'listen: 127.0.0.1:8080' and "
                     "'upstream: 127.0.0.1:9001'");
        return NULL;
    }
    if (p.root->kind != PRAZO_NODE_MAP) {
        prazo__fault(load, false, p.root->mark, "expected a map, such as 'listen: 127.0.0.1:8080'");
        return NULL;
    }
    return p.root;
}
