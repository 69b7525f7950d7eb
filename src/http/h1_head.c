/* SPDX-License-Identifier: MIT */
/* Heads of HTTP/1.1 messages. llhttp splits them into start line and fields; everything that is
 * left open by it or that decides about framing is checked here, in check_*(), one rule a line. The
 * head is always parsed whole: until its empty line has come nobody looks at it but
 * prazo_h1_head_end(), so a head that drips in byte by byte costs one pass in all. */
#include <llhttp.h>

#include "base/assert.h"
#include "http/h1_internal.h"

/* token characters (RFC 9110 §5.6.2) in lower case, 0 for all others. */
static const unsigned char token_lower[256] = {
    ['!'] = '!', ['#'] = '#', ['$'] = '$', ['%'] = '%', ['&'] = '&', ['\''] = '\'', ['*'] = '*',
    ['+'] = '+', ['-'] = '-', ['.'] = '.', ['^'] = '^', ['_'] = '_', ['`'] = '`',   ['|'] = '|',
    ['~'] = '~', ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4',   ['5'] = '5',
    ['6'] = '6', ['7'] = '7', ['8'] = '8', ['9'] = '9', ['A'] = 'a', ['B'] = 'b',   ['C'] = 'c',
    ['D'] = 'd', ['E'] = 'e', ['F'] = 'f', ['G'] = 'g', ['H'] = 'h', ['I'] = 'i',   ['J'] = 'j',
    ['K'] = 'k', ['L'] = 'l', ['M'] = 'm', ['N'] = 'n', ['O'] = 'o', ['P'] = 'p',   ['Q'] = 'q',
    ['R'] = 'r', ['S'] = 's', ['T'] = 't', ['U'] = 'u', ['V'] = 'v', ['W'] = 'w',   ['X'] = 'x',
    ['Y'] = 'y', ['Z'] = 'z', ['a'] = 'a', ['b'] = 'b', ['c'] = 'c', ['d'] = 'd',   ['e'] = 'e',
    ['f'] = 'f', ['g'] = 'g', ['h'] = 'h', ['i'] = 'i', ['j'] = 'j', ['k'] = 'k',   ['l'] = 'l',
    ['m'] = 'm', ['n'] = 'n', ['o'] = 'o', ['p'] = 'p', ['q'] = 'q', ['r'] = 'r',   ['s'] = 's',
    ['t'] = 't', ['u'] = 'u', ['v'] = 'v', ['w'] = 'w', ['x'] = 'x', ['y'] = 'y',   ['z'] = 'z',
};

bool prazo_h1_is_token(struct prazo_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (token_lower[(unsigned char)s.base[i]] == 0)
            return false;
    }
    return s.len > 0;
}

bool prazo__h1_lower_name(char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char lower = token_lower[(unsigned char)name[i]];
        if (lower == 0)
            return false;
        name[i] = (char)lower;
    }
    return len > 0;
}

void prazo__h1_classify(struct prazo_header *header)
{
    enum prazo_hdr token = prazo_hdr_find(header->name);

    header->token = (uint8_t)token;
    header->flags = (uint8_t)prazo_hdr_flags(token);
}

bool prazo_h1_list_has(struct prazo_str list, struct prazo_str token)
{
    struct prazo_str item;

    while (prazo_str_next_item(&list, &item)) {
        if (prazo_str_eq_nocase(item, token))
            return true;
    }
    return false;
}

/* A bare LF ends the search too: the head is then refused by check_lines(), at once instead of when
 * the client's patience or ours ends. */
size_t prazo_h1_head_end(const char *data, size_t len, size_t *scan)
{
    size_t at = *scan;

    while (at < len) {
        const char *lf = memchr(data + at, '\n', len - at);
        if (lf == NULL) {
            *scan = len;
            return 0;
        }
        size_t next = (size_t)(lf - data) + 1;
        if (next < len && data[next] == '\n')
            return next + 1;
        if (next + 1 < len && data[next] == '\r' && data[next + 1] == '\n')
            return next + 2;
        if (next + 1 >= len) {
            *scan = next - 1;
            return 0;
        }
        at = next;
    }
    return 0;
}

/* No control characters but tab, CR and LF. One plain pass over the whole head, which the compiler
 * turns into vector code, instead of a look at every value. */
static bool check_bytes(const char *data, size_t len)
{
    unsigned char bad = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        bad |= (unsigned char)((c < 0x20) & (c != '\t') & (c != '\r') & (c != '\n'));
        bad |= (unsigned char)(c == 0x7f);
    }
    return bad == 0;
}

/* Every line ends in CRLF, and CR, LF and other control characters stand nowhere else. No line
 * starts with a blank: llhttp would take it as the rest of the line before (obs-fold, RFC 9112
 * §5.2). */
static bool check_lines(const char *data, size_t len)
{
    const char *at = data, *end = data + len;

    while (at < end) {
        const char *cr = memchr(at, '\r', (size_t)(end - at));
        if (cr == NULL || cr + 1 == end || cr[1] != '\n' || memchr(at, '\n', (size_t)(cr - at)))
            return false;
        if (*at == ' ' || *at == '\t')
            return false;
        at = cr + 2;
    }
    return check_bytes(data, len);
}

int prazo__h1_parse_fields(char *data, size_t len, struct prazo_header *headers, size_t *ret_count)
{
    size_t count = 0;
    char *at = data, *end = data + len - 2; /* the empty line */

    if (len < 2 || !check_lines(data, len))
        return PRAZO_E_INVALID;
    while (at < end) {
        char *eol = memchr(at, '\r', (size_t)(end - at) + 1);
        char *colon = eol ? memchr(at, ':', (size_t)(eol - at)) : NULL;
        if (colon == NULL || count == PRAZO_HEADERS_MAX ||
            !prazo__h1_lower_name(at, (size_t)(colon - at)))
            return PRAZO_E_INVALID;
        struct prazo_header *h = &headers[count++];
        h->name = prazo_str_n(at, (size_t)(colon - at));
        h->value = prazo_str_trim(prazo_str_n(colon + 1, (size_t)(eol - colon - 1)));
        prazo__h1_classify(h);
        at = eol + 2;
    }
    *ret_count = count;
    return PRAZO_OK;
}

/* ---- llhttp: start line and fields as slices ---- */

struct split {
    struct prazo_header *headers;
    size_t count;
    struct prazo_str url, reason;
};

static int on_url(llhttp_t *p, const char *at, size_t len)
{
    ((struct split *)p->data)->url = prazo_str_n(at, len);
    return 0;
}

static int on_status(llhttp_t *p, const char *at, size_t len)
{
    ((struct split *)p->data)->reason = prazo_str_n(at, len);
    return 0;
}

static int on_field(llhttp_t *p, const char *at, size_t len)
{
    struct split *s = p->data;

    if (s->count == PRAZO_HEADERS_MAX)
        return -1;
    s->headers[s->count] = (struct prazo_header){ .name = { at, len } };
    return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
    struct split *s = p->data;

    s->headers[s->count].value = prazo_str_n(at, len);
    return 0;
}

/* llhttp refuses a second Content-Length even if it says the same; it is made to forget the first,
 * because check_framing() compares them. */
static int on_value_complete(llhttp_t *p)
{
    ((struct split *)p->data)->count++;
    p->flags &= (uint16_t)~F_CONTENT_LENGTH;
    p->content_length = 0;
    return 0;
}

static const llhttp_settings_t split_settings = {
    .on_url = on_url,
    .on_status = on_status,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
};

/* Framing is decided by check_framing(); so that its answers are given in its order, llhttp is told
 * to leave Transfer-Encoding and its contradiction of Content-Length to it. */
static llhttp_errno_t run_llhttp(llhttp_t *p, llhttp_type_t type, struct split *split,
                                 const char *data, size_t len)
{
    llhttp_init(p, type, &split_settings);
    p->data = split;
    llhttp_set_lenient_chunked_length(p, 1);
    llhttp_set_lenient_transfer_encoding(p, 1);
    llhttp_errno_t err = llhttp_execute(p, data, len);
    return err == HPE_PAUSED_UPGRADE ? HPE_OK : err;
}

/* Names to lower case, values trimmed and free of control characters, tokens found. */
static bool finish_fields(struct split *split, struct prazo_head *head)
{
    head->headers = split->headers;
    head->header_count = split->count;
    for (size_t i = 0; i < split->count; i++) {
        struct prazo_header *h = &split->headers[i];
        if (!prazo__h1_lower_name((char *)(uintptr_t)h->name.base, h->name.len))
            return false;
        h->value = h->value.base ? prazo_str_trim(h->value) : PRAZO_STR("");
        prazo__h1_classify(h);
    }
    return true;
}

/* All Connection lines are one list; what they name is hop-by-hop too (RFC 9110 §7.6.1). */
static void read_connection(struct prazo_head *head)
{
    bool has_close = false, has_keep_alive = false, names_upgrade = false;
    struct prazo_str item;

    for (size_t i = 0; i < head->header_count; i++) {
        if (head->headers[i].token != PRAZO_HDR_CONNECTION)
            continue;
        struct prazo_str list = head->headers[i].value;
        while (prazo_str_next_item(&list, &item)) {
            has_close |= prazo_str_eq_nocase(item, PRAZO_STR("close"));
            has_keep_alive |= prazo_str_eq_nocase(item, PRAZO_STR("keep-alive"));
            names_upgrade |= prazo_str_eq_nocase(item, PRAZO_STR("upgrade"));
            for (size_t k = 0; k < head->header_count; k++) {
                if (prazo_str_eq_nocase(head->headers[k].name, item))
                    head->headers[k].flags |= PRAZO_HDRF_NAMED;
            }
        }
    }
    head->is_keep_alive = !has_close && (head->minor == 1 || has_keep_alive);
    const struct prazo_header *upgrade = prazo_head_get(head, PRAZO_HDR_UPGRADE);
    head->has_upgrade = names_upgrade && upgrade != NULL && head->minor == 1;
    if (head->has_upgrade)
        head->upgrade = upgrade->value;
}

/* What the lines say about framing, each at most once. */
struct framing {
    bool has_length, has_coding, is_bad, is_other_coding;
    int64_t length;
};

static void read_length(struct framing *f, struct prazo_str value)
{
    int64_t length;

    if (prazo_str_to_i64(value, &length) != PRAZO_OK || (f->has_length && f->length != length)) {
        f->is_bad = true;
        return;
    }
    f->has_length = true;
    f->length = length;
}

static struct framing read_framing(const struct prazo_head *head)
{
    struct framing f = { 0 };

    for (size_t i = 0; i < head->header_count; i++) {
        const struct prazo_header *h = &head->headers[i];
        if (h->token == PRAZO_HDR_CONTENT_LENGTH) {
            read_length(&f, h->value);
        } else if (h->token == PRAZO_HDR_TRANSFER_ENCODING) {
            /* twice chunked is chunked in chunks: a coding that nobody here undoes */
            f.is_other_coding |=
                f.has_coding || !prazo_str_eq_nocase(h->value, PRAZO_STR("chunked"));
            f.has_coding = true;
        }
    }
    return f;
}

/* A refusal says which rule was broken: whoever is paged has to find the sender's fault. */
static enum prazo_problem refuse(struct prazo_head *head, enum prazo_problem problem,
                                 const char *fault)
{
    head->fault = fault;
    return problem;
}

static enum prazo_problem bad(struct prazo_head *head, const char *fault)
{
    return refuse(head, PRAZO_PROBLEM_BAD_REQUEST, fault);
}

static enum prazo_problem check_framing(struct prazo_head *head)
{
    struct framing f = read_framing(head);

    head->content_length = -1;
    if (f.is_bad)
        return bad(head, "Content-Length is not a plain number, or there are two that differ.");
    if (f.has_length && f.has_coding)
        return bad(head, "Content-Length and Transfer-Encoding contradict each other.");
    if (f.has_coding && head->minor == 0)
        return bad(head, "HTTP/1.0 has no Transfer-Encoding.");
    if (f.is_other_coding)
        return refuse(head, PRAZO_PROBLEM_NOT_IMPLEMENTED,
                      "No transfer coding but exactly `chunked` is known.");
    if (f.has_coding) {
        head->body = PRAZO_BODY_CHUNKED;
    } else if (f.has_length) {
        head->body = PRAZO_BODY_LENGTH;
        head->content_length = f.length;
    }
    return PRAZO_PROBLEM_NONE;
}

/* Is every byte one of these, or a letter or digit? */
static bool consists_of(struct prazo_str s, const char *others)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.base[i];
        bool is_alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!is_alnum && strchr(others, c) == NULL)
            return false;
    }
    return s.len > 0;
}

static bool is_port(struct prazo_str s)
{
    int64_t port;

    return s.len == 0 || (s.len <= 5 && prazo_str_to_i64(s, &port) == PRAZO_OK && port <= 65535);
}

static bool is_pct_encoded(struct prazo_str s)
{
    static const char hex[] = "0123456789abcdefABCDEF";

    for (size_t i = 0; i < s.len; i++) {
        if (s.base[i] == '%' &&
            (i + 2 >= s.len || !memchr(hex, s.base[i + 1], 22) || !memchr(hex, s.base[i + 2], 22)))
            return false;
    }
    return true;
}

/* uri-host [":" port] (RFC 3986 §3.2.2): a name or IPv4 address, or an IP literal in brackets; no
 * userinfo. */
static bool is_authority(struct prazo_str s)
{
    const char *end = s.len > 0 && s.base[0] == '[' ? memchr(s.base, ']', s.len) : NULL;
    size_t host;

    if (end != NULL) {
        host = (size_t)(end - s.base) + 1;
        if (!consists_of(prazo_str_n(s.base + 1, host - 2), ":.-_~"))
            return false;
    } else {
        const char *colon = memchr(s.base, ':', s.len);
        host = colon != NULL ? (size_t)(colon - s.base) : s.len;
        if (!consists_of(prazo_str_n(s.base, host), "-._~!$&'()*+,;=%") ||
            !is_pct_encoded(prazo_str_n(s.base, host)))
            return false;
    }
    return host == s.len ||
           (s.base[host] == ':' && is_port(prazo_str_n(s.base + host + 1, s.len - host - 1)));
}

static bool check_host(struct prazo_head *head)
{
    unsigned count = 0;

    for (size_t i = 0; i < head->header_count; i++) {
        if (head->headers[i].token != PRAZO_HDR_HOST)
            continue;
        count++;
        if (!is_authority(head->headers[i].value))
            return false;
        if (head->authority.base == NULL) /* the absolute-form wins (RFC 9112 §3.2.2) */
            head->authority = head->headers[i].value;
    }
    return count == 1 || (count == 0 && head->minor == 0);
}

/* http://authority[/path][?query] taken apart; the target becomes origin-form, in place. */
static bool split_absolute(struct prazo_head *head, char *url, size_t len)
{
    size_t scheme = len > 8 && url[4] != ':' ? 8 : 7;
    static const char *const schemes[2] = { "http://", "https://" };
    size_t end = scheme;

    if (len <= scheme ||
        !prazo_str_eq_nocase(prazo_str_n(url, scheme), prazo_str_z(schemes[scheme == 8])))
        return false;
    while (end < len && url[end] != '/' && url[end] != '?')
        end++;
    head->authority = prazo_str_n(url + scheme, end - scheme);
    if (end == len) {
        head->target = PRAZO_STR("/");
    } else if (url[end] == '/') {
        head->target = prazo_str_n(url + end, len - end);
    } else { /* no path: make room for its '/' over the scheme's last one */
        memmove(url + scheme - 1, url + scheme, end - scheme);
        head->authority.base--;
        url[end - 1] = '/';
        head->target = prazo_str_n(url + end - 1, len - end + 1);
    }
    return is_authority(head->authority);
}

static bool check_target(struct prazo_head *head, struct prazo_str url)
{
    if (url.len == 0)
        return false;
    for (size_t i = 0; i < url.len; i++) {
        unsigned char c = (unsigned char)url.base[i];
        if (c <= 0x20 || c >= 0x7f || c == '#')
            return false;
    }
    /* CONNECT is answered with 405 whatever its target is */
    if (head->method_id == PRAZO_METHOD_CONNECT || url.base[0] == '/' ||
        prazo_str_eq(url, PRAZO_STR("*")))
        head->target = url;
    else if (!split_absolute(head, (char *)(uintptr_t)url.base, url.len))
        return false;
    if (head->target.base[0] == '*' && head->method_id != PRAZO_METHOD_OPTIONS)
        return false;
    const char *mark = memchr(head->target.base, '?', head->target.len);
    head->path = head->target;
    if (mark != NULL) {
        head->path.len = (size_t)(mark - head->target.base);
        head->query = prazo_str_n(mark + 1, head->target.len - head->path.len - 1);
    }
    return true;
}

static const struct {
    struct prazo_str name;
    enum prazo_method id;
} methods[] = {
    { PRAZO_STR_INIT("GET"), PRAZO_METHOD_GET },
    { PRAZO_STR_INIT("POST"), PRAZO_METHOD_POST },
    { PRAZO_STR_INIT("HEAD"), PRAZO_METHOD_HEAD },
    { PRAZO_STR_INIT("PUT"), PRAZO_METHOD_PUT },
    { PRAZO_STR_INIT("DELETE"), PRAZO_METHOD_DELETE },
    { PRAZO_STR_INIT("OPTIONS"), PRAZO_METHOD_OPTIONS },
    { PRAZO_STR_INIT("PATCH"), PRAZO_METHOD_PATCH },
    { PRAZO_STR_INIT("CONNECT"), PRAZO_METHOD_CONNECT },
    { PRAZO_STR_INIT("TRACE"), PRAZO_METHOD_TRACE },
};

/* "METHOD SP target SP HTTP/1.x CRLF": method and version by our own eyes, since llhttp tells an
 * unknown method from a malformed one, and version 2.0 from garbage, only by text, and takes
 * several blanks for one. */
static enum prazo_problem read_request_line(const char *data, size_t len, struct prazo_head *head)
{
    const char *eol = memchr(data, '\r', len);
    size_t line = eol ? (size_t)(eol - data) : len;
    const char *space = memchr(data, ' ', line);

    if (space == NULL || line < 9)
        return bad(head, "The request line is not `METHOD target HTTP/1.1`.");
    head->method = prazo_str_n(data, (size_t)(space - data));
    if (!prazo_h1_is_token(head->method))
        return bad(head, "The method is not a token.");
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (prazo_str_eq(head->method, methods[i].name))
            head->method_id = methods[i].id;
    }
    const char *v = data + line - 8;
    if (v <= space || memchr(space + 1, ' ', (size_t)(v - space - 1)) != v - 1)
        return bad(head, "The request line is not `METHOD target HTTP/1.1`, with single blanks.");
    if (memcmp(v, "HTTP/", 5) != 0 || v[5] < '0' || v[5] > '9' || v[6] != '.' || v[7] < '0' ||
        v[7] > '9')
        return bad(head, "The request line does not end in an HTTP version.");
    if (v[5] != '1' || v[7] > '1')
        return refuse(head, PRAZO_PROBLEM_VERSION_NOT_SUPPORTED,
                      "HTTP/1.0 and HTTP/1.1 are served here.");
    head->minor = (uint8_t)(v[7] - '0');
    return PRAZO_PROBLEM_NONE;
}

static void read_expectations(struct prazo_head *head)
{
    for (size_t i = 0; i < head->header_count; i++) {
        const struct prazo_header *h = &head->headers[i];
        if (h->token == PRAZO_HDR_EXPECT) {
            if (prazo_str_eq_nocase(h->value, PRAZO_STR("100-continue")))
                head->expects_continue = head->minor == 1;
            else
                head->has_other_expect = true;
        } else if (h->token == PRAZO_HDR_TE) {
            head->wants_trailers |= prazo_h1_list_has(h->value, PRAZO_STR("trailers"));
        }
    }
}

enum prazo_problem prazo_h1_parse_request(char *data, size_t len, struct prazo_header *headers,
                                          struct prazo_head *ret_head)
{
    struct split split = { .headers = headers };
    llhttp_t parser;

    *ret_head = (struct prazo_head){ .content_length = -1 };
    if (!check_lines(data, len))
        return bad(ret_head,
                   "A line does not end in CRLF, is folded, or holds a control character.");
    enum prazo_problem problem = read_request_line(data, len, ret_head);
    if (problem != PRAZO_PROBLEM_NONE)
        return problem;
    llhttp_errno_t err = run_llhttp(&parser, HTTP_REQUEST, &split, data, len);
    if (err == HPE_INVALID_METHOD) /* a token, but none that the parser knows */
        return refuse(ret_head, PRAZO_PROBLEM_NOT_IMPLEMENTED, "The method is not known here.");
    if (split.count == PRAZO_HEADERS_MAX)
        return refuse(ret_head, PRAZO_PROBLEM_HEADER_TOO_LARGE, "There are too many fields.");
    if (!finish_fields(&split, ret_head))
        return bad(ret_head, "A field name is empty, or not a token up to its colon.");
    problem = check_framing(ret_head);
    if (problem != PRAZO_PROBLEM_NONE)
        return problem;
    if (err != HPE_OK)
        return bad(ret_head, llhttp_get_error_reason(&parser)); /* static texts all */
    if (!check_target(ret_head, split.url))
        return bad(ret_head, "The request target is none of RFC 9112's forms.");
    if (!check_host(ret_head))
        return bad(ret_head, "Host is missing, repeated or invalid.");
    read_connection(ret_head);
    read_expectations(ret_head);
    return PRAZO_PROBLEM_NONE;
}

/* RFC 9112 §6.3: which answers have a body, and how it ends. */
static void frame_response(struct prazo_head *head, bool is_head)
{
    if (is_head || head->status < 200 || head->status == 204 || head->status == 304) {
        head->body = PRAZO_BODY_NONE;
    } else if (head->body == PRAZO_BODY_NONE) {
        head->body = PRAZO_BODY_TO_EOF;
        head->is_keep_alive = false;
    }
}

int prazo_h1_parse_response(char *data, size_t len, bool is_head, struct prazo_header *headers,
                            struct prazo_head *ret_head)
{
    struct split split = { .headers = headers };
    llhttp_t parser;

    *ret_head = (struct prazo_head){ .content_length = -1 };
    if (!check_lines(data, len) || len < 12 || memcmp(data, "HTTP/1.", 7) != 0 ||
        (data[7] != '0' && data[7] != '1') || data[8] != ' ') {
        ret_head->fault = "status line or line ends";
        return PRAZO_E_INVALID;
    }
    ret_head->fault = "fields";
    if (run_llhttp(&parser, HTTP_RESPONSE, &split, data, len) != HPE_OK ||
        split.count == PRAZO_HEADERS_MAX || !finish_fields(&split, ret_head))
        return PRAZO_E_INVALID;
    ret_head->minor = (uint8_t)(data[7] - '0');
    ret_head->status = parser.status_code;
    ret_head->reason = split.reason;
    if (ret_head->status < 100 || ret_head->status > 999 ||
        check_framing(ret_head) != PRAZO_PROBLEM_NONE)
        return PRAZO_E_INVALID;
    ret_head->fault = NULL;
    read_connection(ret_head);
    frame_response(ret_head, is_head);
    return PRAZO_OK;
}
