/* SPDX-License-Identifier: MIT */
/* An HTTP client by hand, on a loop of the code under test: writes bytes as they are (several
 * requests at once if need be), reads when it is told to, and takes apart what came back. */
#ifndef PRAZO_TEST_RAW_CLIENT_H
#define PRAZO_TEST_RAW_CLIENT_H

#include "io/io.h"

struct raw_client {
    struct prazo_loop *loop;
    struct prazo_stream *stream;
    void (*on_news)(void *arg); /* more bytes, or the end */
    void *arg;
    char *in; /* everything so far */
    size_t len, cap;
    bool has_ended; /* FIN or RST from the other side */
};

/* One answer. The body is given by its length and raw_hash(), since chunks lie apart. */
struct raw_answer {
    int status;
    int64_t body_bytes;
    uint64_t body_hash;
    bool is_complete;
};

#define RAW_HASH_START 1469598103934665603u
uint64_t raw_hash(uint64_t hash, const char *data, size_t len);

/* Connects to "unix:/path" and writes `bytes`, which have to fit into the socket's buffer. Reads
 * from the start if may_read. An error: nothing was opened; raw_client_close() is allowed. */
int raw_client_open(struct raw_client *client, struct prazo_loop *loop, const char *address,
                    struct prazo_str bytes, bool may_read, void (*on_news)(void *arg), void *arg);
void raw_client_send(struct raw_client *client, struct prazo_str bytes);
void raw_client_read(struct raw_client *client);
void raw_client_close(struct raw_client *client);
/* The answer at *at, which moves behind it. False: not even its head is there. Behind a 101
 * everything counts as its body. Fails the test on an answer that is malformed. */
bool raw_client_next(struct raw_client *client, size_t *at, struct raw_answer *ret_answer);

#endif
