/* SPDX-License-Identifier: MIT */
/* xoshiro256** and its seeding, written after the papers (Blackman & Vigna 2018; Steele, Lea &
 * Flood 2014 for splitmix64). The state is never all zero, which would be a fixed point. */
#include "base/prng.h"

#include <errno.h>
#include <stddef.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

static uint64_t rotate_left(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t splitmix_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void prazo_prng_seed(struct prazo_prng *prng, uint64_t seed)
{
    /* splitmix64 is a bijection of its counter: at most one of the four words can be zero. */
    for (int i = 0; i < 4; i++)
        prng->s[i] = splitmix_next(&seed);
}

void prazo_prng_seed_random(struct prazo_prng *prng)
{
    struct timespec now = { 0 };
    ssize_t len;

    do {
        len = getrandom(prng->s, sizeof(prng->s), 0);
    } while (len < 0 && errno == EINTR);
    if (len == (ssize_t)sizeof(prng->s) && (prng->s[0] | prng->s[1] | prng->s[2] | prng->s[3]))
        return;
    /* No getrandom (a strict seccomp filter): still different for every process and start. */
    clock_gettime(CLOCK_REALTIME, &now);
    prazo_prng_seed(prng, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec +
                              ((uint64_t)getpid() << 40));
}

uint64_t prazo_prng_next(struct prazo_prng *prng)
{
    uint64_t *s = prng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* The high half of a 128-bit product (Lemire 2019): a draw is repeated only if its low half falls
 * into the first 2^64 mod n values, whose share would be one too many. */
uint64_t prazo_prng_below(struct prazo_prng *prng, uint64_t n)
{
    unsigned __int128 product;
    uint64_t low;

    PRAZO_ASSERT(n > 0);
    product = (unsigned __int128)prazo_prng_next(prng) * n;
    low = (uint64_t)product;
    if (low < n) {
        uint64_t surplus = (0 - n) % n;

        while (low < surplus) {
            product = (unsigned __int128)prazo_prng_next(prng) * n;
            low = (uint64_t)product;
        }
    }
    return (uint64_t)(product >> 64);
}
