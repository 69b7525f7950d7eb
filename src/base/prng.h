/* SPDX-License-Identifier: MIT */
/* xoshiro256** (Blackman & Vigna, 2018), seeded through splitmix64. Integers only; the same seed
 * gives the same sequence everywhere. Not for secrets. Not thread-safe: one per thread. */
#ifndef PRAZO_BASE_PRNG_H
#define PRAZO_BASE_PRNG_H

#include <stdint.h>

struct prazo_prng {
    uint64_t s[4];
};

void prazo_prng_seed(struct prazo_prng *prng, uint64_t seed);
/* Seeds from the kernel (getrandom): processes started together must not draw the same numbers. */
void prazo_prng_seed_random(struct prazo_prng *prng);
uint64_t prazo_prng_next(struct prazo_prng *prng);
/* Uniform in [0, n), without modulo bias. n > 0. */
uint64_t prazo_prng_below(struct prazo_prng *prng, uint64_t n);

#endif
