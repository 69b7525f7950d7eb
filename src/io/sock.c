/* SPDX-License-Identifier: MIT */
/* Addresses and the socket calls around a connection: connect, listen, accept. Knows nothing of
 * the loop. Every socket made here is non-blocking and close-on-exec; TCP sockets have
 * TCP_NODELAY, because a head and its body leave in one write and must not wait for an ACK. */
#include "io/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The kernel cuts it to net.core.somaxconn (4096 by default). */
#define BACKLOG 4096
/* RFC 1035 §2.3.4 */
#define HOST_BYTES_MAX 253

#define UN_PATH_OFFSET offsetof(struct sockaddr_un, sun_path)

union sock_addr {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
};

_Static_assert(sizeof(union sock_addr) <= sizeof(((struct prazo_addr *)0)->storage),
               "every kind of address fits");

static const union sock_addr *sockaddr_of(const struct prazo_addr *addr)
{
    return (const union sock_addr *)(const void *)addr->storage;
}

static int family_of(const struct prazo_addr *addr)
{
    return sockaddr_of(addr)->any.sa_family;
}

int prazo__sock_err(int errnum)
{
    switch (errnum) {
    case EMFILE:
    case ENFILE:
        return PRAZO_E_NO_FDS;
    case ENOMEM:
    case ENOBUFS:
        return PRAZO_E_NOMEM;
    case EADDRINUSE:
        return PRAZO_E_IN_USE;
    case EACCES:
    case EPERM:
    case EROFS:
        return PRAZO_E_DENIED;
    case ECONNREFUSED:
        return PRAZO_E_REFUSED;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EAFNOSUPPORT:
    case EADDRNOTAVAIL:
        return PRAZO_E_UNREACHABLE;
    case ETIMEDOUT:
        return PRAZO_E_TIMEOUT;
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
        return PRAZO_E_RESET;
    default:
        return PRAZO_E_IO;
    }
}

/* ---- text ---- */

static int parse_port(struct prazo_str text, uint16_t *ret_port)
{
    int64_t value;
    if (text.len > 5 || prazo_str_to_i64(text, &value) != PRAZO_OK || value > UINT16_MAX)
        return PRAZO_E_INVALID;
    *ret_port = (uint16_t)value;
    return PRAZO_OK;
}

static int parse_unix(struct prazo_str path, struct prazo_addr *ret_addr)
{
    union sock_addr sa = { .un = { .sun_family = AF_UNIX } };
    if (path.len == 0 || path.len >= sizeof(sa.un.sun_path) || memchr(path.base, 0, path.len))
        return PRAZO_E_INVALID;
    memcpy(sa.un.sun_path, path.base, path.len);
    *ret_addr = (struct prazo_addr){ .len = (uint32_t)(UN_PATH_OFFSET + path.len + 1) };
    memcpy(ret_addr->storage, &sa.un, sizeof(sa.un));
    return PRAZO_OK;
}

void prazo__addr_from_ip(const void *ip, unsigned ip_bytes, uint16_t port,
                         struct prazo_addr *ret_addr)
{
    union sock_addr sa = { 0 };
    bool is_v4 = ip_bytes == sizeof(sa.in.sin_addr);
    if (is_v4) {
        sa.in.sin_family = AF_INET;
        sa.in.sin_port = htons(port);
        memcpy(&sa.in.sin_addr, ip, sizeof(sa.in.sin_addr));
    } else {
        sa.in6.sin6_family = AF_INET6;
        sa.in6.sin6_port = htons(port);
        memcpy(&sa.in6.sin6_addr, ip, sizeof(sa.in6.sin6_addr));
    }
    *ret_addr = (struct prazo_addr){ .len = is_v4 ? sizeof(sa.in) : sizeof(sa.in6) };
    memcpy(ret_addr->storage, &sa, ret_addr->len);
}

static int parse_ip(struct prazo_str host, int family, uint16_t port, struct prazo_addr *ret_addr)
{
    char text[INET6_ADDRSTRLEN];
    unsigned char ip[16];
    if (host.len >= sizeof(text) || memchr(host.base, 0, host.len))
        return PRAZO_E_INVALID;
    memcpy(text, host.base, host.len);
    text[host.len] = 0;
    if (inet_pton(family, text, ip) != 1)
        return PRAZO_E_INVALID;
    prazo__addr_from_ip(ip, family == AF_INET ? 4 : 16, port, ret_addr);
    return PRAZO_OK;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
    char l = prazo_lower(c);
    return (l >= 'a' && l <= 'z') || is_digit(c) || c == '-' || c == '_' || c == '.';
}

/* Letters, digits, '-', '_' in labels. A last label of digits only is an IPv4 address gone wrong
 * ("10.0.0.256"), never a name (RFC 1123 §2.1). */
static bool is_host_name(struct prazo_str host)
{
    if (host.len == 0 || host.len > HOST_BYTES_MAX || host.base[0] == '.' || host.base[0] == '-')
        return false;
    size_t label_start = 0;
    for (size_t i = 0; i < host.len; i++) {
        if (!is_name_char(host.base[i]) || (i > 0 && host.base[i] == '.' && i == label_start))
            return false;
        if (host.base[i] == '.' && i + 1 < host.len)
            label_start = i + 1;
    }
    for (size_t i = label_start; i < host.len; i++) {
        if (!is_digit(host.base[i]) && host.base[i] != '.')
            return true;
    }
    return false;
}

int prazo_addr_parse(struct prazo_str text, struct prazo_addr *ret_addr, struct prazo_str *ret_host,
                     uint16_t *ret_port)
{
    if (prazo_str_has_prefix(text, PRAZO_STR("unix:")))
        return parse_unix(prazo_str_n(text.base + 5, text.len - 5), ret_addr);
    const char *colon = text.len ? memrchr(text.base, ':', text.len) : NULL;
    if (!colon)
        return PRAZO_E_INVALID;
    struct prazo_str host = prazo_str_n(text.base, (size_t)(colon - text.base));
    uint16_t port;
    if (parse_port(prazo_str_n(colon + 1, text.len - host.len - 1), &port) != PRAZO_OK)
        return PRAZO_E_INVALID;
    if (host.len == 0)
        return parse_ip(PRAZO_STR("::"), AF_INET6, port, ret_addr);
    if (host.base[0] == '[') {
        if (host.base[host.len - 1] != ']')
            return PRAZO_E_INVALID;
        return parse_ip(prazo_str_n(host.base + 1, host.len - 2), AF_INET6, port, ret_addr);
    }
    if (parse_ip(host, AF_INET, port, ret_addr) == PRAZO_OK)
        return PRAZO_OK;
    if (!is_host_name(host))
        return PRAZO_E_INVALID;
    *ret_host = host;
    *ret_port = port;
    return PRAZO_E_NOT_FOUND;
}

void prazo_addr_format(const struct prazo_addr *addr, char *to)
{
    const union sock_addr *sa = sockaddr_of(addr);
    char ip[INET6_ADDRSTRLEN];
    if (family_of(addr) == AF_INET) {
        inet_ntop(AF_INET, &sa->in.sin_addr, ip, sizeof(ip));
        snprintf(to, PRAZO_ADDR_TEXT_MAX, "%s:%u", ip, ntohs(sa->in.sin_port));
    } else if (family_of(addr) == AF_INET6) {
        inet_ntop(AF_INET6, &sa->in6.sin6_addr, ip, sizeof(ip));
        snprintf(to, PRAZO_ADDR_TEXT_MAX, "[%s]:%u", ip, ntohs(sa->in6.sin6_port));
    } else {
        /* The peer of a Unix socket has no name as a rule. */
        size_t path_len = addr->len > UN_PATH_OFFSET ? addr->len - UN_PATH_OFFSET : 0;
        snprintf(to, PRAZO_ADDR_TEXT_MAX, "unix:%.*s", (int)path_len, sa->un.sun_path);
    }
}

unsigned prazo_addr_ip(const struct prazo_addr *addr, uint8_t ret_ip[16])
{
    const union sock_addr *sa = sockaddr_of(addr);
    if (family_of(addr) == AF_INET) {
        memcpy(ret_ip, &sa->in.sin_addr, 4);
        return 4;
    }
    if (family_of(addr) == AF_INET6) {
        memcpy(ret_ip, &sa->in6.sin6_addr, 16);
        return 16;
    }
    return 0;
}

bool prazo_addr_eq(const struct prazo_addr *a, const struct prazo_addr *b)
{
    return a->len == b->len && memcmp(a->storage, b->storage, a->len) == 0;
}

bool prazo__addr_is_loopback(const struct prazo_addr *addr)
{
    const union sock_addr *sa = sockaddr_of(addr);
    if (family_of(addr) == AF_INET)
        return (ntohl(sa->in.sin_addr.s_addr) >> 24) == 127;
    return family_of(addr) == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&sa->in6.sin6_addr);
}

/* An IPv4 peer of an IPv6 socket becomes a plain IPv4 address, so that rules written for IPv4
 * (trusted networks, rate keys) hold however the listener was bound. */
static void addr_from_kernel(const union sock_addr *sa, socklen_t len, struct prazo_addr *ret_addr)
{
    const struct in6_addr *ip6 = &sa->in6.sin6_addr;
    if (sa->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(ip6)) {
        prazo__addr_from_ip(ip6->s6_addr + 12, 4, ntohs(sa->in6.sin6_port), ret_addr);
        return;
    }
    *ret_addr = (struct prazo_addr){ .len = len };
    memcpy(ret_addr->storage, sa, len);
}

int prazo_listen_addr(int listen_fd, struct prazo_addr *ret_addr)
{
    union sock_addr sa = { 0 };
    socklen_t len = sizeof(sa);
    if (getsockname(listen_fd, &sa.any, &len) != 0)
        return PRAZO_E_INVALID;
    addr_from_kernel(&sa, len, ret_addr);
    return PRAZO_OK;
}

/* ---- connect ---- */

/* An fd, or a negative PRAZO_E_*. */
static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd >= 0 ? fd : prazo__sock_err(errno);
}

static void set_int(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

static int start_connect(int fd, const struct prazo_addr *addr)
{
    if (connect(fd, &sockaddr_of(addr)->any, addr->len) == 0 || errno == EINPROGRESS)
        return PRAZO_OK;
    /* A Unix socket answers at once: no file, nobody behind it, or its queue is full. */
    if (errno == ENOENT || errno == EAGAIN)
        return PRAZO_E_REFUSED;
    return prazo__sock_err(errno);
}

int prazo__sock_connect(const struct prazo_addr *addr, int *ret_fd)
{
    int fd = open_socket(family_of(addr));
    if (fd < 0)
        return fd;
    if (family_of(addr) != AF_UNIX)
        set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    int err = start_connect(fd, addr);
    if (err != PRAZO_OK) {
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return PRAZO_OK;
}

int prazo__sock_connect_result(int fd)
{
    int errnum = 0;
    socklen_t len = sizeof(errnum);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &len) != 0)
        return PRAZO_E_IO;
    return errnum == 0 ? PRAZO_OK : prazo__sock_err(errnum);
}

bool prazo__sock_is_self_connected(int fd)
{
    union sock_addr here = { 0 }, there = { 0 };
    socklen_t here_len = sizeof(here), there_len = sizeof(there);
    return getsockname(fd, &here.any, &here_len) == 0 &&
           getpeername(fd, &there.any, &there_len) == 0 && here_len == there_len &&
           memcmp(&here, &there, here_len) == 0;
}

/* ---- listen and accept ---- */

/* A socket file that refuses connections was left behind by a process that is gone. */
static bool is_stale_unix(const struct prazo_addr *addr)
{
    struct stat st;
    if (lstat(sockaddr_of(addr)->un.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    int fd = open_socket(AF_UNIX);
    if (fd < 0)
        return false;
    bool is_stale = connect(fd, &sockaddr_of(addr)->any, addr->len) != 0 && errno == ECONNREFUSED;
    close(fd);
    return is_stale;
}

static int bind_err(int errnum)
{
    switch (errnum) {
    case EADDRNOTAVAIL:
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EAFNOSUPPORT:
        return PRAZO_E_INVALID;
    default:
        return prazo__sock_err(errnum);
    }
}

static int bind_addr(int fd, const struct prazo_addr *addr)
{
    const struct sockaddr *sa = &sockaddr_of(addr)->any;
    if (bind(fd, sa, addr->len) == 0)
        return PRAZO_OK;
    if (errno != EADDRINUSE || sa->sa_family != AF_UNIX)
        return bind_err(errno);
    if (!is_stale_unix(addr))
        return PRAZO_E_IN_USE;
    if (unlink(sockaddr_of(addr)->un.sun_path) != 0 || bind(fd, sa, addr->len) != 0)
        return bind_err(errno);
    return PRAZO_OK;
}

static int bind_and_listen(const struct prazo_addr *addr, int *ret_fd)
{
    int fd = open_socket(family_of(addr));
    if (fd < 0)
        return fd;
    if (family_of(addr) != AF_UNIX)
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (family_of(addr) == AF_INET6)
        set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    int err = bind_addr(fd, addr);
    if (err == PRAZO_OK && listen(fd, BACKLOG) != 0)
        err = bind_err(errno);
    if (err != PRAZO_OK) {
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return PRAZO_OK;
}

int prazo_listen(const struct prazo_addr *addr, int *ret_fd)
{
    int err = bind_and_listen(addr, ret_fd);
    const union sock_addr *sa = sockaddr_of(addr);
    if (err != PRAZO_E_UNREACHABLE || family_of(addr) != AF_INET6)
        return err;
    if (!IN6_IS_ADDR_UNSPECIFIED(&sa->in6.sin6_addr))
        return PRAZO_E_INVALID;
    /* "Any address" on a host without IPv6. */
    static const uint8_t any_ip[4];
    struct prazo_addr any;
    prazo__addr_from_ip(any_ip, sizeof(any_ip), ntohs(sa->in6.sin6_port), &any);
    return bind_and_listen(&any, ret_fd);
}

static int accept_err(int errnum)
{
    switch (errnum) {
    case EAGAIN:
        return PRAZO_E_AGAIN;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
        return prazo__sock_err(errnum);
    case EBADF:
    case EINVAL:
    case ENOTSOCK:
    case EOPNOTSUPP:
        return PRAZO_E_INVALID;
    default:
        /* accept(2) passes on errors that the network already has for that one connection. */
        return PRAZO_E_RESET;
    }
}

int prazo_accept(int listen_fd, int *ret_fd, struct prazo_addr *ret_peer)
{
    union sock_addr sa = { 0 };
    socklen_t len = sizeof(sa);
    int fd = accept4(listen_fd, &sa.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return accept_err(errno);
    if (sa.any.sa_family != AF_UNIX)
        set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    addr_from_kernel(&sa, len, ret_peer);
    *ret_fd = fd;
    return PRAZO_OK;
}
