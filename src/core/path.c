/* SPDX-License-Identifier: MIT */
/* Paths for matching. Both questions about a path are answered by one scan(), so that a path that
 * is matched where it lies and one that is decoded first can never be judged differently.
 *
 * Invariants: %XX is decoded once, never twice; normalizing a normalized path changes nothing
 * (a path with a '%' that starts no %XX is left alone as a whole, because decoding the rest of it
 * could put a new %XX together). Works on the path only: no query, no scheme, no authority. */
#include "core/path.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    char lower = prazo_lower(c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* RFC 3986 §2.3. */
static bool is_unreserved(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/* The byte that the %XX at s stands for, or -1. */
static int decode(struct prazo_str s, size_t at)
{
    if (s.len - at < 3)
        return -1;
    int high = hex_value(s.base[at + 1]);
    int low = hex_value(s.base[at + 2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* The segment that is being read, to find "//", "/./" and "/../". */
struct segment {
    size_t bytes;
    size_t dots; /* a dot segment has no other bytes */
    bool has_slash_before;
};

static bool is_dot_segment(const struct segment *seg)
{
    return seg->bytes == seg->dots && (seg->dots == 1 || seg->dots == 2);
}

/* Takes one decoded byte; true if that makes the path ambiguous. */
static bool segment_take(struct segment *seg, char c)
{
    if (c == '/') {
        bool is_bad = is_dot_segment(seg) || (seg->has_slash_before && seg->bytes == 0);
        *seg = (struct segment){ .has_slash_before = true };
        return is_bad;
    }
    seg->bytes++;
    seg->dots += c == '.';
    return c == '\\';
}

struct scanned {
    size_t len; /* after decoding */
    bool is_changed;
    bool is_ambiguous;
    bool is_broken; /* a '%' starts no %XX; len and is_changed mean nothing then */
};

/* Decodes into `to` unless it is NULL. */
static struct scanned scan(struct prazo_str path, char *to)
{
    struct scanned out = { 0 };
    struct segment seg = { 0 };
    for (size_t i = 0; i < path.len; i++) {
        char c = path.base[i];
        if (c == '%') {
            int value = decode(path, i);
            if (value < 0)
                return (struct scanned){ .is_ambiguous = true, .is_broken = true };
            if (is_unreserved(value)) {
                c = (char)value;
                i += 2;
                out.is_changed = true;
            } else if (value == '/' || value == '\\' || value == '\0') {
                out.is_ambiguous = true;
            }
        }
        if (segment_take(&seg, c))
            out.is_ambiguous = true;
        if (to)
            to[out.len] = c;
        out.len++;
    }
    if (is_dot_segment(&seg))
        out.is_ambiguous = true;
    return out;
}

size_t prazo_path_normalize(struct prazo_str path, char *to, bool *ret_ambiguous)
{
    struct scanned out = scan(path, to);
    *ret_ambiguous = out.is_ambiguous;
    if (!out.is_broken)
        return out.len;
    memcpy(to, path.base, path.len);
    return path.len;
}

bool prazo_path_is_normal(struct prazo_str path, bool *ret_ambiguous)
{
    struct scanned out = scan(path, NULL);
    *ret_ambiguous = out.is_ambiguous;
    return out.is_broken || !out.is_changed;
}

bool prazo_path_matches(struct prazo_str pattern, struct prazo_str path)
{
    if (pattern.len == 0 || pattern.base[pattern.len - 1] != '*')
        return prazo_str_eq(pattern, path);
    return prazo_str_has_prefix(path, prazo_str_n(pattern.base, pattern.len - 1));
}
