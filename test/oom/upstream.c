/* SPDX-License-Identifier: MIT */
/* A thread accepts, and one more serves each connection until it ends. */
#include "oom/upstream.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_BYTES_MAX 131072
#define CHUNK_BYTES 60000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static bool is_held;

void upstream_hold(void)
{
    pthread_mutex_lock(&lock);
    is_held = true;
    pthread_mutex_unlock(&lock);
}

void upstream_let_go(void)
{
    pthread_mutex_lock(&lock);
    is_held = false;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
}

static void wait_for_release(void)
{
    pthread_mutex_lock(&lock);
    while (is_held)
        pthread_cond_wait(&released, &lock);
    pthread_mutex_unlock(&lock);
}

char upstream_big_byte(int64_t i)
{
    return (char)('a' + i % 23);
}

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static bool send_head(int fd, const char *line, const char *rest)
{
    char head[4096];
    int len =
        snprintf(head, sizeof head, "HTTP/1.1 %s\r\nx-filler: %03000d\r\n%s\r\n", line, 0, rest);

    return send_all(fd, head, (size_t)len);
}

static bool send_big(int fd)
{
    static const char last[] = "0\r\nx-sum: 1\r\n\r\n";
    char chunk[CHUNK_BYTES + 8];

    if (!send_head(fd, "200 OK", "transfer-encoding: chunked\r\n"))
        return false;
    for (int64_t at = 0; at < UPSTREAM_BIG_BYTES; at += CHUNK_BYTES) {
        int len = snprintf(chunk, sizeof chunk, "%x\r\n", CHUNK_BYTES);
        for (int64_t i = 0; i < CHUNK_BYTES; i++)
            chunk[len + i] = upstream_big_byte(at + i);
        memcpy(chunk + len + CHUNK_BYTES, "\r\n", 2);
        if (!send_all(fd, chunk, (size_t)len + CHUNK_BYTES + 2))
            return false;
    }
    return send_all(fd, last, sizeof last - 1);
}

static bool send_small(int fd)
{
    return send_head(fd, "200 OK", "content-length: 5\r\n") && send_all(fd, "hello", 5);
}

/* The tunnel ends after it: false. */
static bool echo(int fd)
{
    char bytes[4];

    if (send_head(fd, "101 Switching Protocols", "connection: upgrade\r\nupgrade: echo\r\n") &&
        recv(fd, bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes)
        (void)send_all(fd, bytes, sizeof bytes);
    return false;
}

static bool answer(int fd, const char *request)
{
    const char *path = strchr(request, ' ') + 1;

    if (strncmp(path, "/big ", 5) == 0)
        return send_big(fd);
    if (strncmp(path, "/echo ", 6) == 0 && strstr(request, "\r\nupgrade: ") != NULL)
        return echo(fd);
    if (strncmp(path, "/early ", 7) == 0 && !send_head(fd, "103 Early Hints", "link: </a>\r\n"))
        return false;
    if (strncmp(path, "/hold ", 6) == 0)
        wait_for_release();
    return send_small(fd);
}

/* Is the request whole? */
static bool is_complete(const char *request, size_t len)
{
    const char *end = strstr(request, "\r\n\r\n");
    const char *length = strstr(request, "\r\ncontent-length: ");

    if (end == NULL)
        return false;
    if (strstr(request, "\r\ntransfer-encoding: chunked\r\n") != NULL)
        return strncmp(request + len - 7, "\r\n0\r\n\r\n", 7) == 0;
    return length == NULL || len == (size_t)(end + 4 - request) + strtoul(length + 18, NULL, 10);
}

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char request[REQUEST_BYTES_MAX];
    size_t len = 0;

    for (;;) {
        ssize_t n = recv(fd, request + len, sizeof request - 1 - len, 0);
        if (n <= 0)
            break;
        len += (size_t)n;
        request[len] = '\0';
        if (!is_complete(request, len))
            continue;
        if (!answer(fd, request))
            break;
        len = 0;
    }
    close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    int listen_fd = (int)(intptr_t)arg;
    pthread_t thread;

    for (;;) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
        else
            close(fd);
    }
}

void upstream_start(int listen_fd)
{
    pthread_t thread;

    (void)fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) & ~O_NONBLOCK);
    if (pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)listen_fd) != 0)
        abort();
    pthread_detach(thread);
}
