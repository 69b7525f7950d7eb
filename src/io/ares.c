/* SPDX-License-Identifier: MIT */
/* Names to addresses with c-ares, on the loop: no thread, nothing that blocks, nothing to wait for
 * at exit. c-ares' sockets are watched as borrowed streams, its time-outs are one timer.
 *
 * A watch asks in rounds. A round looks into /etc/hosts, and if the name is not there it is one
 * look-up for A and one for AAAA, because only separate answers tell "this name has no IPv6" from
 * "nobody answered": addresses of a family are replaced by an answer, dropped when the name turns
 * out to have none while the other family has some, and kept through every failure. What
 * /etc/hosts says holds for both families, so that a "localhost" of IPv4 only stays that.
 *
 * Invariants:
 *   - Callbacks of the owner run from the watch's timer, never inside c-ares and never inside a
 *     function that the owner called; they are the last thing that the timer does, so that they
 *     may unwatch, or free the resolver.
 *   - watch->pending counts look-ups that c-ares still holds; the memory of a watch outlives them.
 *   - At most one round of a watch is under way. */
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/time.h>

#include <ares.h>

#include "base/list.h"
#include "base/mem.h"
#include "io/io.h"
#include "io/sock.h"

/* One packet lost costs a second; a dead name server is given up after 1 + 2 + 4 s. */
#define TRY_TIMEOUT_MS 1000
#define TRIES 3

#define TTL_S_MIN 1
#define TTL_S_MAX 300
#define BACKOFF_S_MAX 30
/* The file has no TTL; reading it is cheap, and who edits it waits for the effect. */
#define FILE_TTL_S 5
#define SECOND_US INT64_C(1000000)

#define FAMILIES 2

struct prazo_resolver {
    struct prazo_loop *loop;
    ares_channel channel; /* asks name servers */
    ares_channel files;   /* reads /etc/hosts; answers inside the call */
    char *servers_csv;    /* NULL: as the system says */
    size_t pending;       /* look-ups under way, of all watches */
    struct prazo_timer timer;
    struct prazo_list socks;
    struct prazo_list watches;
};

/* A socket of c-ares. */
struct ares_sock {
    struct prazo_list node;
    struct prazo_resolver *resolver;
    struct prazo_stream *stream;
    ares_socket_t fd;
};

/* Sorted, without doubles; of more than its maximum the smallest, so that a name server that
 * rotates a long answer does not make the set change. */
struct addr_set {
    size_t count;
    struct prazo_addr addrs[PRAZO_RESOLVE_ADDRS_MAX];
};

#define STATUS_PENDING (-1)

struct lookup {
    struct prazo_resolve_watch *watch;
    int family;
    int status; /* ARES_*, or STATUS_PENDING */
    int ttl_s;
    struct addr_set set;
};

struct prazo_resolve_watch {
    struct prazo_list node;
    struct prazo_resolver *resolver;
    char *host;
    uint16_t port;
    prazo_resolve_cb cb;
    void *arg;
    struct prazo_timer timer; /* the next round, or something to tell */
    unsigned pending;
    unsigned failures; /* rounds failed in a row */
    bool is_round_open;
    bool is_closed;
    struct lookup lookups[FAMILIES];
    struct addr_set told;
};

/* ---- sets ---- */

static int compare(const struct prazo_addr *a, const struct prazo_addr *b)
{
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return memcmp(a->storage, b->storage, a->len);
}

static void set_add(struct addr_set *set, const struct prazo_addr *addr)
{
    size_t at = set->count;
    while (at > 0 && compare(addr, &set->addrs[at - 1]) < 0)
        at--;
    if (at > 0 && prazo_addr_eq(addr, &set->addrs[at - 1]))
        return;
    if (at == PRAZO_RESOLVE_ADDRS_MAX)
        return;
    if (set->count < PRAZO_RESOLVE_ADDRS_MAX)
        set->count++;
    memmove(&set->addrs[at + 1], &set->addrs[at], (set->count - 1 - at) * sizeof(*addr));
    set->addrs[at] = *addr;
}

static bool set_eq(const struct addr_set *a, const struct addr_set *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!prazo_addr_eq(&a->addrs[i], &b->addrs[i]))
            return false;
    }
    return true;
}

/* ---- c-ares on the loop ---- */

static struct ares_sock *find_sock(struct prazo_resolver *resolver, ares_socket_t fd)
{
    for (struct prazo_list *l = resolver->socks.next; l != &resolver->socks; l = l->next) {
        struct ares_sock *sock = PRAZO_CONTAINER(l, struct ares_sock, node);
        if (sock->fd == fd)
            return sock;
    }
    return NULL;
}

static void close_sock(struct ares_sock *sock)
{
    prazo_stream_close(sock->stream, false);
    prazo_list_del(&sock->node);
    prazo_mem_free(sock);
}

static void update_timer(struct prazo_resolver *resolver)
{
    struct timeval left;
    int64_t at_us = PRAZO_NEVER;
    if (ares_timeout(resolver->channel, NULL, &left))
        at_us = prazo_loop_now_us(resolver->loop) + left.tv_sec * SECOND_US + left.tv_usec;
    prazo_timers_link_at(prazo_loop_timers(resolver->loop), &resolver->timer, at_us);
}

static void on_timer(struct prazo_timer *timer, int64_t now_us)
{
    (void)now_us;
    struct prazo_resolver *resolver = PRAZO_CONTAINER(timer, struct prazo_resolver, timer);
    ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    update_timer(resolver);
}

static void on_sock_event(void *arg, unsigned events)
{
    struct ares_sock *sock = arg;
    struct prazo_resolver *resolver = sock->resolver;
    ares_socket_t fd = sock->fd;
    bool can_read = events & (PRAZO_STREAM_READABLE | PRAZO_STREAM_HANGUP);
    bool can_write = events & PRAZO_STREAM_WRITABLE;
    ares_process_fd(resolver->channel, can_read ? fd : ARES_SOCKET_BAD,
                    can_write ? fd : ARES_SOCKET_BAD);
    update_timer(resolver);
    /* An ICMP error ends a stream's watching, but c-ares may go on with its UDP socket. */
    sock = find_sock(resolver, fd);
    if (sock)
        prazo_stream_watch(sock->stream, prazo_stream_watched(sock->stream));
}

static struct ares_sock *open_sock(struct prazo_resolver *resolver, ares_socket_t fd)
{
    struct ares_sock *sock = prazo_mem_calloc(1, sizeof(*sock));
    if (!sock)
        return NULL;
    if (prazo_stream_open_borrowed(resolver->loop, fd, on_sock_event, sock, &sock->stream) !=
        PRAZO_OK) {
        prazo_mem_free(sock);
        return NULL;
    }
    sock->resolver = resolver;
    sock->fd = fd;
    prazo_list_push_back(&resolver->socks, &sock->node);
    return sock;
}

/* c-ares says what it wants of a socket; neither: it is about to close it. */
static void on_sock_state(void *arg, ares_socket_t fd, int readable, int writable)
{
    struct prazo_resolver *resolver = arg;
    struct ares_sock *sock = find_sock(resolver, fd);
    if (!readable && !writable) {
        if (sock)
            close_sock(sock);
        return;
    }
    if (!sock)
        sock = open_sock(resolver, fd);
    /* Without memory the look-up runs into its time-out. */
    if (sock)
        prazo_stream_watch(sock->stream, (readable ? PRAZO_STREAM_READABLE : 0u) |
                                             (writable ? PRAZO_STREAM_WRITABLE : 0u));
}

/* lookups: "b" name servers, "f" the hosts file (c-ares' letters). */
static int init_channel(struct prazo_resolver *resolver, const char *lookups,
                        ares_channel *ret_channel)
{
    char letters[] = { lookups[0], 0 };
    struct ares_options options = {
        .timeout = TRY_TIMEOUT_MS,
        .tries = TRIES,
        .lookups = letters,
        .sock_state_cb = on_sock_state,
        .sock_state_cb_data = resolver,
    };
    int status = ares_init_options(ret_channel, &options,
                                   ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                                       ARES_OPT_SOCK_STATE_CB);
    if (status == ARES_SUCCESS)
        return PRAZO_OK;
    return status == ARES_ENOMEM ? PRAZO_E_NOMEM : PRAZO_E_IO;
}

static int open_channel(struct prazo_resolver *resolver, ares_channel *ret_channel)
{
    ares_channel channel;
    int err = init_channel(resolver, "b", &channel);
    if (err != PRAZO_OK)
        return err;
    if (resolver->servers_csv &&
        ares_set_servers_ports_csv(channel, resolver->servers_csv) != ARES_SUCCESS) {
        ares_destroy(channel);
        return PRAZO_E_NOMEM; /* it has been parsed before */
    }
    *ret_channel = channel;
    return PRAZO_OK;
}

/* c-ares reads /etc/resolv.conf once. A process that was started before the network was there
 * would never resolve anything, so it is read again after failures. */
static void reopen_channel(struct prazo_resolver *resolver)
{
    ares_channel fresh;
    if (resolver->pending > 0 || open_channel(resolver, &fresh) != PRAZO_OK)
        return;
    ares_destroy(resolver->channel);
    resolver->channel = fresh;
}

/* ---- rounds ---- */

static void wake_watch(struct prazo_resolve_watch *watch, int64_t at_us)
{
    prazo_timers_link_at(prazo_loop_timers(watch->resolver->loop), &watch->timer, at_us);
}

static void free_watch(struct prazo_resolve_watch *watch)
{
    prazo_mem_free(watch->host);
    prazo_mem_free(watch);
}

static const void *node_ip(const struct ares_addrinfo_node *node, unsigned *ret_bytes)
{
    const void *sa = node->ai_addr;
    *ret_bytes = node->ai_family == AF_INET ? 4 : 16;
    return node->ai_family == AF_INET ? (const void *)&((const struct sockaddr_in *)sa)->sin_addr
                                      : (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
}

/* False if the answer holds no address of the family. */
static bool take_answer(struct lookup *lookup, const struct ares_addrinfo *answer)
{
    struct addr_set set = { 0 };
    lookup->ttl_s = TTL_S_MAX;
    for (const struct ares_addrinfo_node *n = answer->nodes; n; n = n->ai_next) {
        if (n->ai_family != lookup->family)
            continue;
        unsigned bytes;
        const void *ip = node_ip(n, &bytes);
        struct prazo_addr addr;
        prazo__addr_from_ip(ip, bytes, lookup->watch->port, &addr);
        set_add(&set, &addr);
        if (n->ai_ttl < lookup->ttl_s)
            lookup->ttl_s = n->ai_ttl;
    }
    if (set.count > 0)
        lookup->set = set;
    return set.count > 0;
}

static void on_lookup(void *arg, int status, int timeouts, struct ares_addrinfo *answer)
{
    (void)timeouts;
    struct lookup *lookup = arg;
    struct prazo_resolve_watch *watch = lookup->watch;
    lookup->status = status;
    if (status == ARES_SUCCESS && !take_answer(lookup, answer))
        lookup->status = ARES_ENODATA;
    if (answer)
        ares_freeaddrinfo(answer);
    watch->pending--;
    watch->resolver->pending--;
    if (watch->is_closed) {
        if (watch->pending == 0)
            free_watch(watch);
        return;
    }
    /* The first family's addresses need not wait for the other. */
    if (lookup->status == ARES_SUCCESS || watch->pending == 0)
        wake_watch(watch, prazo_loop_now_us(watch->resolver->loop));
}

static void on_file_answer(void *arg, int status, int timeouts, struct ares_addrinfo *answer)
{
    (void)timeouts;
    struct prazo_resolve_watch *watch = arg;
    for (size_t i = 0; status == ARES_SUCCESS && i < FAMILIES; i++) {
        struct lookup *lookup = &watch->lookups[i];
        lookup->status = take_answer(lookup, answer) ? ARES_SUCCESS : ARES_ENODATA;
        lookup->ttl_s = FILE_TTL_S;
    }
    if (answer)
        ares_freeaddrinfo(answer);
}

static bool has_answer(const struct prazo_resolve_watch *watch)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        if (watch->lookups[i].status == ARES_SUCCESS)
            return true;
    }
    return false;
}

static void ask_servers(struct prazo_resolve_watch *watch)
{
    struct prazo_resolver *resolver = watch->resolver;
    watch->pending = FAMILIES;
    resolver->pending += FAMILIES;
    for (size_t i = 0; i < FAMILIES; i++) {
        struct ares_addrinfo_hints hints = { .ai_family = watch->lookups[i].family,
                                             .ai_flags = ARES_AI_NOSORT };
        ares_getaddrinfo(resolver->channel, watch->host, NULL, &hints, on_lookup,
                         &watch->lookups[i]);
    }
    update_timer(resolver);
}

static void start_round(struct prazo_resolve_watch *watch, int64_t now_us)
{
    if (watch->failures > 0)
        reopen_channel(watch->resolver);
    watch->is_round_open = true;
    for (size_t i = 0; i < FAMILIES; i++)
        watch->lookups[i].status = STATUS_PENDING;
    struct ares_addrinfo_hints any = { .ai_family = AF_UNSPEC, .ai_flags = ARES_AI_NOSORT };
    ares_getaddrinfo(watch->resolver->files, watch->host, NULL, &any, on_file_answer, watch);
    if (has_answer(watch))
        wake_watch(watch, now_us);
    else
        ask_servers(watch);
}

static int round_err(const struct prazo_resolve_watch *watch)
{
    int err = PRAZO_E_RESOLVE;
    for (size_t i = 0; i < FAMILIES; i++) {
        if (watch->lookups[i].status == ARES_ENOMEM)
            return PRAZO_E_NOMEM;
        if (watch->lookups[i].status == ARES_ETIMEOUT)
            err = PRAZO_E_TIMEOUT;
    }
    return err;
}

static bool is_absent(int status)
{
    return status == ARES_ENODATA || status == ARES_ENOTFOUND;
}

static int64_t ttl_s(const struct prazo_resolve_watch *watch)
{
    int64_t least_s = TTL_S_MAX;
    for (size_t i = 0; i < FAMILIES; i++) {
        const struct lookup *lookup = &watch->lookups[i];
        if (lookup->status == ARES_SUCCESS && lookup->ttl_s < least_s)
            least_s = lookup->ttl_s;
    }
    return least_s > TTL_S_MIN ? least_s : TTL_S_MIN;
}

static int64_t backoff_s(unsigned failures)
{
    return failures < 6 && (1 << (failures - 1)) < BACKOFF_S_MAX ? 1 << (failures - 1)
                                                                 : BACKOFF_S_MAX;
}

static void finish_round(struct prazo_resolve_watch *watch, int64_t now_us)
{
    bool is_answered = has_answer(watch);
    watch->is_round_open = false;
    watch->failures = is_answered ? 0 : watch->failures + 1;
    for (size_t i = 0; is_answered && i < FAMILIES; i++) {
        if (is_absent(watch->lookups[i].status))
            watch->lookups[i].set.count = 0;
    }
    int64_t wait_s = is_answered ? ttl_s(watch) : backoff_s(watch->failures);
    wake_watch(watch, now_us + wait_s * SECOND_US);
}

/* Whether the owner has to hear of a new set, which is then in watch->told. */
static bool has_news(struct prazo_resolve_watch *watch)
{
    struct addr_set all = { 0 };
    for (size_t i = 0; i < FAMILIES; i++) {
        const struct addr_set *set = &watch->lookups[i].set;
        for (size_t j = 0; j < set->count; j++)
            set_add(&all, &set->addrs[j]);
    }
    if (set_eq(&all, &watch->told))
        return false;
    watch->told = all;
    return true;
}

static void on_watch_timer(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_resolve_watch *watch = PRAZO_CONTAINER(timer, struct prazo_resolve_watch, timer);
    if (!watch->is_round_open) {
        start_round(watch, now_us);
        return;
    }
    if (watch->pending == 0)
        finish_round(watch, now_us);
    if (!has_answer(watch))
        watch->cb(watch->arg, round_err(watch), NULL, 0);
    else if (has_news(watch))
        watch->cb(watch->arg, PRAZO_OK, watch->told.addrs, watch->told.count);
}

/* ---- for the owner ---- */

int prazo_resolver_watch(struct prazo_resolver *resolver, struct prazo_str host, uint16_t port,
                         prazo_resolve_cb cb, void *arg, struct prazo_resolve_watch **ret_watch)
{
    static const int families[FAMILIES] = { AF_INET, AF_INET6 };
    struct prazo_resolve_watch *watch = prazo_mem_calloc(1, sizeof(*watch));
    char *name = prazo_mem_alloc(host.len + 1);
    if (!watch || !name) {
        prazo_mem_free(name);
        prazo_mem_free(watch);
        return PRAZO_E_NOMEM;
    }
    memcpy(name, host.base, host.len);
    name[host.len] = 0;
    watch->resolver = resolver;
    watch->host = name;
    watch->port = port;
    watch->cb = cb;
    watch->arg = arg;
    watch->timer.cb = on_watch_timer;
    for (size_t i = 0; i < FAMILIES; i++) {
        watch->lookups[i].watch = watch;
        watch->lookups[i].family = families[i];
    }
    prazo_list_push_back(&resolver->watches, &watch->node);
    wake_watch(watch, prazo_loop_now_us(resolver->loop));
    *ret_watch = watch;
    return PRAZO_OK;
}

void prazo_resolver_unwatch(struct prazo_resolve_watch *watch)
{
    if (!watch)
        return;
    prazo_list_del(&watch->node);
    prazo_timers_unlink(prazo_loop_timers(watch->resolver->loop), &watch->timer);
    watch->is_closed = true;
    if (watch->pending == 0)
        free_watch(watch);
}

static int open_channels(struct prazo_resolver *resolver)
{
    int err = init_channel(resolver, "f", &resolver->files);
    if (err != PRAZO_OK)
        return err;
    err = open_channel(resolver, &resolver->channel);
    if (err != PRAZO_OK)
        ares_destroy(resolver->files);
    return err;
}

int prazo_resolver_new(struct prazo_loop *loop, struct prazo_resolver **ret_resolver)
{
    if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS)
        return PRAZO_E_NOMEM;
    struct prazo_resolver *resolver = prazo_mem_calloc(1, sizeof(*resolver));
    int err = PRAZO_E_NOMEM;
    if (!resolver)
        goto out;
    resolver->loop = loop;
    resolver->timer.cb = on_timer;
    prazo_list_init(&resolver->socks);
    prazo_list_init(&resolver->watches);
    err = open_channels(resolver);
    if (err != PRAZO_OK)
        goto out;
    *ret_resolver = resolver;
    return PRAZO_OK;
out:
    prazo_mem_free(resolver);
    ares_library_cleanup();
    return err;
}

void prazo_resolver_free(struct prazo_resolver *resolver)
{
    if (!resolver)
        return;
    while (!prazo_list_is_empty(&resolver->watches)) {
        struct prazo_list *first = resolver->watches.next;
        prazo_resolver_unwatch(PRAZO_CONTAINER(first, struct prazo_resolve_watch, node));
    }
    /* Ends every look-up, which frees its watch, and gives back every socket. */
    ares_destroy(resolver->channel);
    ares_destroy(resolver->files);
    prazo_timers_unlink(prazo_loop_timers(resolver->loop), &resolver->timer);
    prazo_mem_free(resolver->servers_csv);
    prazo_mem_free(resolver);
    ares_library_cleanup();
}

int prazo_resolver_set_servers(struct prazo_resolver *resolver, const char *csv)
{
    if (resolver->pending > 0)
        return PRAZO_E_IN_USE;
    char *copy = prazo_mem_strdup(csv);
    if (!copy)
        return PRAZO_E_NOMEM;
    if (ares_set_servers_ports_csv(resolver->channel, csv) != ARES_SUCCESS) {
        prazo_mem_free(copy);
        return PRAZO_E_INVALID;
    }
    prazo_mem_free(resolver->servers_csv);
    resolver->servers_csv = copy;
    return PRAZO_OK;
}
