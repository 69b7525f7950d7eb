/* SPDX-License-Identifier: MIT */
/* ${NAME} from the environment and ${file:PATH} from a file, in every value (never in keys), once:
 * what comes out is not looked at again. `$${` writes `${` itself. A relative PATH starts at the
 * directory of the configuration; one line break at the file's end is dropped, because editors and
 * `echo` put it there. Only regular files are read: a FIFO or a device could block the start.
 *
 * How such a value was written is kept for the effective configuration, and the value itself is
 * never shown in a message. */
#include "config/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/value.h"

struct expansion {
    struct prazo_load *load;
    struct prazo_node *node;
    struct prazo_buf out;
};

static void refuse(struct expansion *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void refuse(struct expansion *e, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    prazo__fault(e->load, false, e->node->mark, "%s", text);
    e->node->is_bad = true;
}

static void add(struct expansion *e, struct prazo_str s)
{
    int err = prazo_buf_add_str(&e->out, s);
    if (err == PRAZO_E_TOO_LARGE)
        refuse(e, "the values of all ${…} together are larger than 1MiB");
    else if (err)
        e->load->err = err;
}

static bool is_name(struct prazo_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = prazo_lower(s.base[i]);
        if (!(c >= 'a' && c <= 'z') && c != '_' && !(i > 0 && c >= '0' && c <= '9'))
            return false;
    }
    return s.len > 0;
}

static void add_variable(struct expansion *e, struct prazo_str name)
{
    char z[256], shown[PRAZO_SHOWN_BYTES];
    if (!is_name(name) || name.len >= sizeof(z)) {
        refuse(e, "%s is not the name of a variable; expected ${NAME} or ${file:PATH}",
               prazo__show(name, shown));
        return;
    }
    memcpy(z, name.base, name.len);
    z[name.len] = '\0';
    const char *value = getenv(z);
    if (!value)
        refuse(e, "${%s} is not set in the environment", z);
    else if (prazo_utf8_valid(prazo_str_z(value)) != strlen(value))
        refuse(e, "the value of ${%s} is not valid UTF-8", z);
    else
        add(e, prazo_str_z(value));
}

/* The file's bytes behind `to`, at most one more than allowed; else why not. */
static const char *read_secret(const char *path, struct prazo_buf *to)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return strerror(errno);
    const char *why = NULL;
    if (fstat(fd, &st) < 0)
        why = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        why = "not a regular file";
    for (ssize_t n = 1; !why && n > 0 && to->len<to->max; to->len += n> 0 ? (size_t)n : 0) {
        do
            n = read(fd, to->base + to->len, to->max - to->len);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            why = strerror(errno);
    }
    close(fd);
    return why;
}

static void add_file(struct expansion *e, struct prazo_str path)
{
    const char *source = e->load->source, *slash = strrchr(source, '/');
    bool is_relative = path.len && path.base[0] != '/';
    int dir_len = slash && is_relative ? (int)(slash + 1 - source) : 0;
    char z[4096], shown[PRAZO_SHOWN_BYTES];
    int len = snprintf(z, sizeof(z), "%.*s%.*s", dir_len, source, PRAZO_STR_ARG(path));
    if (len < 0 || (size_t)len >= sizeof(z) || path.len == 0) {
        refuse(e, "${file:…}: %s is not a path", prazo__show(path, shown));
        return;
    }
    struct prazo_buf bytes;
    prazo_buf_init(&bytes, PRAZO_CONFIG_SECRET_BYTES_MAX + 1);
    if (prazo_buf_reserve(&bytes, bytes.max)) {
        e->load->err = PRAZO_E_NOMEM;
        return;
    }
    const char *why = read_secret(z, &bytes);
    struct prazo_str text = prazo_buf_str(&bytes);
    if (!why && text.len > PRAZO_CONFIG_SECRET_BYTES_MAX)
        why = "larger than 64KiB";
    else if (!why && prazo_utf8_valid(text) != text.len)
        why = "not valid UTF-8 text";
    if (why) {
        refuse(e, "${file:…}: %s: %s", prazo__show(prazo_str_z(z), shown), why);
    } else {
        if (text.len && text.base[text.len - 1] == '\n')
            text.len--;
        add(e, text);
    }
    prazo_buf_done(&bytes);
}

/* One "${…}" at the start of rest; returns its length, 0 if it has no end. */
static size_t expand_one(struct expansion *e, struct prazo_str rest)
{
    const char *end = memchr(rest.base, '}', rest.len);
    if (!end) {
        refuse(e, "a ${ without its }; for the text itself write $${");
        return 0;
    }
    struct prazo_str inner = prazo_str_n(rest.base + 2, (size_t)(end - rest.base) - 2);
    struct prazo_str file = PRAZO_STR("file:");
    e->node->is_secret = true;
    if (prazo_str_has_prefix(inner, file))
        add_file(e, prazo_str_n(inner.base + file.len, inner.len - file.len));
    else
        add_variable(e, inner);
    return (size_t)(end - rest.base) + 1;
}

static void expand_node(struct expansion *e)
{
    struct prazo_node *node = e->node;
    struct prazo_str rest = node->text;
    while (rest.len && !node->is_bad && !e->load->err) {
        const char *dollar = memchr(rest.base, '$', rest.len);
        size_t plain = dollar ? (size_t)(dollar - rest.base) : rest.len;
        add(e, prazo_str_n(rest.base, plain));
        rest = prazo_str_n(rest.base + plain, rest.len - plain);
        size_t taken = rest.len ? 1 : 0;
        if (prazo_str_has_prefix(rest, PRAZO_STR("$${"))) {
            add(e, PRAZO_STR("${"));
            taken = 3;
        } else if (prazo_str_has_prefix(rest, PRAZO_STR("${"))) {
            taken = expand_one(e, rest);
        } else if (rest.len) {
            add(e, PRAZO_STR("$"));
        }
        rest = prazo_str_n(rest.base + taken, rest.len - taken);
    }
    char *text = prazo__load_alloc(e->load, e->out.len + 1);
    if (!text)
        return;
    if (e->out.len)
        memcpy(text, e->out.base, e->out.len);
    node->written = node->text;
    node->text = prazo_str_n(text, e->out.len);
    e->load->expanded_bytes += e->out.len;
}

void prazo__expand(struct prazo_load *load)
{
    for (struct prazo_node *node = load->nodes; node && !load->err; node = node->next) {
        if (!node->text.base || !memmem(node->text.base, node->text.len, "${", 2))
            continue;
        struct expansion e = { .load = load, .node = node };
        prazo_buf_init(&e.out, PRAZO_CONFIG_EXPANSION_BYTES_MAX - load->expanded_bytes);
        expand_node(&e);
        prazo_buf_done(&e.out);
    }
}
