/* SPDX-License-Identifier: MIT */
/* The scalar types of the configuration, one row each: what a value is called in messages, how it
 * gets into its field and out again. Fields are told apart by their width only: 1 byte is a bool,
 * 4 an enum or (u)int32, 8 an int64. Cross-key rules are not here. */
#include "config/load.h"

#include <arpa/inet.h>
#include <inttypes.h>

#include "base/assert.h"

#include "config/value.h"

#define TEXT_BYTES_MAX 255u /* of a name or label: it is repeated in every metric */

typedef int (*store_fn)(struct prazo_load *load, const struct prazo_key *key,
                        const struct prazo_node *node, void *object);
typedef int (*write_fn)(const struct prazo_config *config, const struct prazo_key *key,
                        const void *object, struct prazo_buf *to);

struct type {
    const char *noun, *expected;
    store_fn store;
    write_fn write;
};

static void *at(void *object, size_t offset)
{
    return (char *)object + offset;
}

static char *text_at(const void *object, size_t offset)
{
    char *text;
    memcpy(&text, (const char *)object + offset, sizeof(text));
    return text;
}

void prazo__field_put(const struct prazo_key *key, void *object, int64_t value)
{
    bool flag = value != 0;
    int32_t narrow = (int32_t)value;
    switch (key->width) {
    case sizeof(bool):
        memcpy(at(object, key->offset), &flag, sizeof(flag));
        break;
    case sizeof(int32_t):
        memcpy(at(object, key->offset), &narrow, sizeof(narrow));
        break;
    case sizeof(int64_t):
        memcpy(at(object, key->offset), &value, sizeof(value));
        break;
    default:
        PRAZO_UNREACHABLE();
    }
}

int64_t prazo__field_get(const struct prazo_key *key, const void *object)
{
    const char *field = (const char *)object + key->offset;
    int64_t value = 0;
    int32_t narrow;
    bool flag;
    switch (key->width) {
    case sizeof(bool):
        memcpy(&flag, field, sizeof(flag));
        return flag;
    case sizeof(int32_t):
        memcpy(&narrow, field, sizeof(narrow));
        return narrow;
    case sizeof(int64_t):
        memcpy(&value, field, sizeof(value));
        return value;
    default:
        PRAZO_UNREACHABLE();
    }
}

/* ---- numbers ---- */

static int parse_number(enum prazo_key_type type, struct prazo_str text, int64_t *ret)
{
    if (type == PRAZO_KEY_DURATION)
        return prazo_duration_parse(text, ret);
    if (type == PRAZO_KEY_SIZE)
        return prazo_size_parse(text, ret);
    if (type == PRAZO_KEY_PERCENT)
        return prazo_percent_parse(text, ret);
    return prazo_str_to_i64(text, ret);
}

void prazo__type_format_number(enum prazo_key_type type, int64_t value, char *to)
{
    if (type == PRAZO_KEY_DURATION)
        prazo_duration_format(to, value);
    else if (type == PRAZO_KEY_SIZE)
        prazo_size_format(to, value);
    else
        snprintf(to, PRAZO_VALUE_TEXT_MAX, "%" PRId64 "%s", value,
                 type == PRAZO_KEY_PERCENT ? "%" : "");
}

static int store_number(struct prazo_load *load, const struct prazo_key *key,
                        const struct prazo_node *node, void *object)
{
    (void)load;
    int64_t value;
    if (prazo_word_index(key->words, node->text) >= 0) {
        prazo__field_put(key, object, key->word_value);
        return PRAZO_OK;
    }
    int err = parse_number(key->type, node->text, &value);
    if (err)
        return err;
    if (value < key->min || value > key->max)
        return PRAZO_E_TOO_LARGE;
    prazo__field_put(key, object, value);
    return PRAZO_OK;
}

static int write_number(const struct prazo_config *config, const struct prazo_key *key,
                        const void *object, struct prazo_buf *to)
{
    (void)config;
    int64_t value = prazo__field_get(key, object);
    if (key->words && value == key->word_value)
        return prazo_buf_add_z(to, key->words);
    char text[PRAZO_VALUE_TEXT_MAX];
    prazo__type_format_number(key->type, value, text);
    return prazo_buf_add_z(to, text);
}

/* ---- words ---- */

static int store_word(struct prazo_load *load, const struct prazo_key *key,
                      const struct prazo_node *node, void *object)
{
    (void)load;
    int index = prazo_word_index(key->words, node->text);
    if (index < 0)
        return PRAZO_E_INVALID;
    prazo__field_put(key, object, index);
    return PRAZO_OK;
}

static int write_word(const struct prazo_config *config, const struct prazo_key *key,
                      const void *object, struct prazo_buf *to)
{
    (void)config;
    return prazo_buf_add_str(to, prazo_word_at(key->words, (int)prazo__field_get(key, object)));
}

static int store_switch(struct prazo_load *load, const struct prazo_key *key,
                        const struct prazo_node *node, void *object)
{
    (void)load;
    int index = prazo_word_index("off|on|false|true", node->text);
    if (index < 0)
        return PRAZO_E_INVALID;
    prazo__field_put(key, object, index & 1);
    return PRAZO_OK;
}

static int write_switch(const struct prazo_config *config, const struct prazo_key *key,
                        const void *object, struct prazo_buf *to)
{
    (void)config;
    return prazo_buf_add_z(to, prazo__field_get(key, object) ? "on" : "off");
}

/* ---- texts ---- */

/* RFC 9110 §5.6.2. */
static bool is_token(struct prazo_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = prazo_lower(s.base[i]);
        bool is_alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!is_alnum && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return s.len > 0 && s.len <= 64;
}

static bool is_made_of(struct prazo_str s, const char *more)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = prazo_lower(s.base[i]);
        bool is_alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!is_alnum && (c == '\0' || !strchr(more, c)))
            return false;
    }
    return s.len > 0 && s.len <= TEXT_BYTES_MAX;
}

/* A host name, an IPv4 address, or an IPv6 address in brackets; no port. */
static bool is_host(struct prazo_str s)
{
    if (s.len > 2 && s.base[0] == '[' && s.base[s.len - 1] == ']') {
        struct prazo_ip ip;
        return prazo_ip_parse(prazo_str_n(s.base + 1, s.len - 2), &ip) == PRAZO_OK && ip.len == 16;
    }
    return is_made_of(s, "-._");
}

/* Begins with '/', or is '*'; '*' at the end only; only what can stand in a request's path. */
static bool is_path(struct prazo_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.base[i];
        if (c <= ' ' || c >= 0x7f || strchr("?#\"<>\\^`{|}", c) || (c == '*' && i + 1 != s.len))
            return false;
    }
    return s.len > 0 && s.len <= 1024 && (s.base[0] == '/' || s.base[0] == '*');
}

static bool is_url(struct prazo_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.base[i] <= ' ' || (unsigned char)s.base[i] >= 0x7f ||
            strchr("\"<>\\^`{|}", s.base[i]))
            return false;
    return s.len <= 1024 && (prazo_str_has_prefix(s, PRAZO_STR("https://")) ||
                             prazo_str_has_prefix(s, PRAZO_STR("http://")) ||
                             prazo_str_has_prefix(s, PRAZO_STR("urn:")));
}

static bool is_label(struct prazo_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.base[i] < ' ' || s.base[i] == 0x7f)
            return false;
    return s.len > 0 && s.len <= TEXT_BYTES_MAX;
}

static bool is_text_of(enum prazo_key_type type, struct prazo_str text)
{
    if (type == PRAZO_KEY_NAME || type == PRAZO_KEY_UPSTREAM)
        return is_made_of(text, "-._") && text.len <= 64;
    if (type == PRAZO_KEY_METHOD || type == PRAZO_KEY_PROTOCOL)
        return is_token(text);
    if (type == PRAZO_KEY_HOST)
        return is_host(text);
    if (type == PRAZO_KEY_PATH)
        return is_path(text);
    if (type == PRAZO_KEY_URL)
        return is_url(text);
    return is_label(text);
}

static void keep_origin(struct prazo_load *load, const char *value, struct prazo_str written)
{
    struct prazo_config_origin *origin = prazo__config_alloc(load, sizeof(*origin));
    char *copy = origin ? prazo__config_dup(load, written) : NULL;
    if (!copy)
        return;
    *origin = (struct prazo_config_origin){ value, prazo_str_n(copy, written.len),
                                            load->config->origins };
    load->config->origins = origin;
}

static int put_text(struct prazo_load *load, const struct prazo_node *node, void *field)
{
    char *copy = prazo__config_dup(load, node->text);
    if (copy && node->written.base)
        keep_origin(load, copy, node->written);
    memcpy(field, &copy, sizeof(copy));
    return PRAZO_OK;
}

static int store_text(struct prazo_load *load, const struct prazo_key *key,
                      const struct prazo_node *node, void *object)
{
    if (prazo_word_index(key->words, node->text) >= 0)
        return PRAZO_OK; /* the field stays NULL */
    if (!is_text_of(key->type, node->text))
        return PRAZO_E_INVALID;
    put_text(load, node, at(object, key->offset));
    char *text = text_at(object, key->offset);
    for (char *c = text; c && *c; c++) {
        if (key->type == PRAZO_KEY_METHOD && *c >= 'a' && *c <= 'z')
            *c = (char)(*c & ~0x20);
        else if (key->type == PRAZO_KEY_PROTOCOL)
            *c = prazo_lower(*c);
    }
    return PRAZO_OK;
}

/* Quoted unless nobody could take it for anything else. "${" is written so that it is not expanded
 * when it is read again. */
static int write_literal(struct prazo_str text, bool is_written, struct prazo_buf *to)
{
    bool is_plain = text.len > 0 && text.base[text.len - 1] != ':';
    for (size_t i = 0; i < text.len; i++) {
        char c = text.base[i], l = prazo_lower(c);
        bool is_alnum = (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '/';
        is_plain &= is_alnum || (i > 0 && c != '\0' && strchr("-._:%*", c) != NULL);
    }
    if (is_plain)
        return prazo_buf_add_str(to, text);
    if (is_written || !memmem(text.base ? text.base : "", text.len, "${", 2))
        return prazo_buf_add_json(to, text);

    struct prazo_buf escaped;
    prazo_buf_init(&escaped, 2 * text.len);
    int err = PRAZO_OK;
    for (size_t i = 0; i < text.len && !err; i++) {
        bool is_open = text.base[i] == '$' && i + 1 < text.len && text.base[i + 1] == '{';
        err = prazo_buf_add(&escaped, is_open ? "$$" : text.base + i, is_open ? 2 : 1);
    }
    if (!err)
        err = prazo_buf_add_json(to, prazo_buf_str(&escaped));
    prazo_buf_done(&escaped);
    return err;
}

static int write_text_value(const struct prazo_config *config, const char *text,
                            struct prazo_buf *to)
{
    for (const struct prazo_config_origin *o = config->origins; o; o = o->next)
        if (o->value == text)
            return write_literal(o->written, true, to);
    return write_literal(prazo_str_z(text), false, to);
}

static int write_text(const struct prazo_config *config, const struct prazo_key *key,
                      const void *object, struct prazo_buf *to)
{
    const char *text = text_at(object, key->offset);
    return text ? write_text_value(config, text, to) : prazo_buf_add_z(to, "none");
}

/* A HOST row with words has an enum beside it: the word's index, or one more for a name. */
static int store_host(struct prazo_load *load, const struct prazo_key *key,
                      const struct prazo_node *node, void *object)
{
    int err = store_text(load, key, node, object);
    if (!err && key->words) {
        int word = prazo_word_index(key->words, node->text);
        int mode = word >= 0 ? word : PRAZO_HOST_NAME;
        memcpy(at(object, key->beside), &mode, sizeof(mode));
    }
    return err;
}

static int write_host(const struct prazo_config *config, const struct prazo_key *key,
                      const void *object, struct prazo_buf *to)
{
    int mode = PRAZO_HOST_NAME;
    if (key->words)
        memcpy(&mode, (const char *)object + key->beside, sizeof(mode));
    if (mode != PRAZO_HOST_NAME)
        return prazo_buf_add_str(to, prazo_word_at(key->words, mode));
    return write_text(config, key, object, to);
}

/* ---- addresses ---- */

static int store_address(struct prazo_load *load, const struct prazo_key *key,
                         const struct prazo_node *node, void *object)
{
    if (prazo_word_index(key->words, node->text) >= 0)
        return PRAZO_OK;
    struct prazo_addr addr;
    struct prazo_str host;
    uint16_t port;
    if (prazo_addr_parse(node->text, &addr, &host, &port))
        return PRAZO_E_INVALID;
    char *copy = prazo__config_dup(load, node->text);
    memcpy(at(object, key->offset), &copy, sizeof(copy));
    memcpy(at(object, key->beside), &addr, sizeof(addr));
    return PRAZO_OK;
}

static int write_address(const struct prazo_config *config, const struct prazo_key *key,
                         const void *object, struct prazo_buf *to)
{
    (void)config;
    const char *text = text_at(object, key->offset);
    return text ? write_literal(prazo_str_z(text), false, to) : prazo_buf_add_z(to, "none");
}

static int store_server(struct prazo_load *load, const struct prazo_key *key,
                        const struct prazo_node *node, void *object)
{
    (void)key;
    struct prazo_config_server *server = object;
    struct prazo_str host = { NULL, 0 };
    uint16_t port = 0;
    int err = prazo_addr_parse(node->text, &server->addr, &host, &port);
    bool is_name = err == PRAZO_E_NOT_FOUND;
    if ((err && !is_name) || (is_name && (!is_made_of(host, "-._") || port == 0)))
        return PRAZO_E_INVALID;
    server->is_name = is_name;
    server->port = port;
    server->host = is_name ? prazo__config_dup(load, host) : NULL;
    server->address = prazo__config_dup(load, node->text);
    return PRAZO_OK;
}

static int store_cidr(struct prazo_load *load, const struct prazo_key *key,
                      const struct prazo_node *node, void *object)
{
    (void)load;
    return prazo_cidr_parse(node->text, at(object, key->offset));
}

static int write_cidr(const struct prazo_config *config, const struct prazo_key *key,
                      const void *object, struct prazo_buf *to)
{
    (void)config;
    const struct prazo_cidr *cidr =
        (const struct prazo_cidr *)(const void *)((const char *)object + key->offset);
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(cidr->ip.len == 4 ? AF_INET : AF_INET6, cidr->ip.bytes, text, sizeof(text));
    return prazo_buf_addf(to, "\"%s/%u\"", text, cidr->prefix_bits);
}

/* ---- references ---- */

/* Which one it is can be said only when all upstreams are read: see check_route.c. */
static int store_reference(struct prazo_load *load, const struct prazo_key *key,
                           const struct prazo_node *node, void *object)
{
    (void)load;
    (void)object;
    return is_text_of(key->type, node->text) ? PRAZO_OK : PRAZO_E_INVALID;
}

static int write_reference(const struct prazo_config *config, const struct prazo_key *key,
                           const void *object, struct prazo_buf *to)
{
    (void)key;
    const struct prazo_config_route *route = object;
    return write_literal(prazo_str_z(config->upstreams[route->upstream_index].name), false, to);
}

static const struct type types[PRAZO_KEY_TYPE_COUNT] = {
    [PRAZO_KEY_DURATION] = { "a duration", "such as 250ms, 5s, 2m", store_number, write_number },
    [PRAZO_KEY_SIZE] = { "a size", "such as 100B, 64KiB, 8MiB", store_number, write_number },
    [PRAZO_KEY_COUNT] = { "a number", "such as 32", store_number, write_number },
    [PRAZO_KEY_PERCENT] = { "a percentage", "such as 50%", store_number, write_number },
    [PRAZO_KEY_WORD] = { NULL, NULL, store_word, write_word },
    [PRAZO_KEY_SWITCH] = { NULL, NULL, store_switch, write_switch },
    [PRAZO_KEY_TEXT] = { "a text", "1 to 255 bytes in one line", store_text, write_text },
    [PRAZO_KEY_NAME] = { "a name", "1 to 64 letters, digits, '-', '.', '_'", store_text,
                         write_text },
    [PRAZO_KEY_METHOD] = { "a method", "such as GET, POST", store_text, write_text },
    [PRAZO_KEY_PROTOCOL] = { "a protocol", "such as websocket", store_text, write_text },
    [PRAZO_KEY_HOST] = { "a host", "such as shop.example, without a port", store_host, write_host },
    [PRAZO_KEY_PATH] = { "a path", "such as /orders, or /orders/* for all that begins so",
                         store_text, write_text },
    [PRAZO_KEY_URL] = { "a URL", "such as https://shop.example/problems/", store_text, write_text },
    [PRAZO_KEY_ADDRESS] = { "an address of this host",
                            "such as 127.0.0.1:8080, [::1]:8080, :8080, unix:/run/prazo.sock",
                            store_address, write_address },
    [PRAZO_KEY_SERVER] = { "an address",
                           "such as 127.0.0.1:9001, orders.internal:9001, unix:/run/orders.sock",
                           store_server, write_address },
    [PRAZO_KEY_CIDR] = { "an address block", "such as 10.0.0.0/8, ::1", store_cidr, write_cidr },
    [PRAZO_KEY_UPSTREAM] = { "the name of an upstream", "a key of upstreams", store_reference,
                             write_reference },
};

bool prazo__type_is_scalar(enum prazo_key_type type)
{
    return types[type].store != NULL;
}

const char *prazo__type_noun(enum prazo_key_type type)
{
    return types[type].noun;
}

const char *prazo__type_expected(enum prazo_key_type type)
{
    return types[type].expected;
}

int prazo__type_store(struct prazo_load *load, const struct prazo_key *key,
                      const struct prazo_node *node, void *object)
{
    return types[key->type].store(load, key, node, object);
}

int prazo__type_write(const struct prazo_config *config, const struct prazo_key *key,
                      const void *object, struct prazo_buf *to)
{
    return types[key->type].write(config, key, object, to);
}
