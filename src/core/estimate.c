/* SPDX-License-Identifier: MIT */
/* Median and 90 % point of an upstream's times. Does not decide anything.
 *
 * Invariants: total is the sum of all cells; 1024 <= weight < 2^40, so that no product below leaves
 * 64 bits. Work per call is bounded by the cells and 64 s of ageing steps. */
#include "core/estimate.h"

#include <string.h>

/* 1.19^4 = 2: the half-life is 1 s. */
#define AGE_STEP_US 250000
#define AGE_STEPS_MAX 256
#define WEIGHT_FIRST 1024
#define SHIFT 30
/* Below this weight of samples an answer would be chance: the test for time is inert. */
#define SAMPLES_MIN 8

void prazo_estimate_init(struct prazo_estimate *e, int64_t now_us)
{
    memset(e, 0, sizeof *e);
    e->weight = WEIGHT_FIRST;
    e->aged_at_us = e->read_at_us = now_us;
}

static int cell_of(int64_t us)
{
    uint64_t v = us < 64 ? 64 : (uint64_t)us;
    int octave = 63 - __builtin_clzll(v);
    int cell = (octave - 6) * 8 + (int)((v >> (octave - 3)) & 7);
    return cell < PRAZO_ESTIMATE_CELLS ? cell : PRAZO_ESTIMATE_CELLS - 1;
}

static int64_t middle_of(int cell)
{
    return ((int64_t)(17 + 2 * (cell & 7)) << (cell / 8 + 6)) / 16;
}

/* Keeps weight below 2^40. */
static void rescale(struct prazo_estimate *e)
{
    if (e->weight < INT64_C(1) << 40)
        return;
    e->weight >>= SHIFT;
    e->total = 0;
    for (int i = 0; i < PRAZO_ESTIMATE_CELLS; i++) {
        e->done[i] >>= SHIFT;
        e->cut[i] >>= SHIFT;
        e->total += e->done[i] + e->cut[i];
    }
}

static void age(struct prazo_estimate *e, int64_t now_us)
{
    int64_t steps = (now_us - e->aged_at_us) / AGE_STEP_US;
    if (steps <= 0)
        return;
    e->aged_at_us += steps * AGE_STEP_US;
    if (steps > AGE_STEPS_MAX) {
        memset(e->done, 0, sizeof e->done);
        memset(e->cut, 0, sizeof e->cut);
        e->total = 0;
        e->weight = WEIGHT_FIRST;
        return;
    }
    for (; steps > 0; steps--) {
        e->weight += e->weight * 19 / 100;
        rescale(e);
    }
}

void prazo_estimate_add(struct prazo_estimate *e, int64_t now_us, int64_t us, bool is_cut)
{
    age(e, now_us);
    (is_cut ? e->cut : e->done)[cell_of(us)] += e->weight;
    e->total += e->weight;
    e->weight += e->weight / 64;
    e->fresh++;
    rescale(e);
}

static void read_q90(struct prazo_estimate *e)
{
    int64_t sum = 0, seen = 0;
    for (int i = 0; i < PRAZO_ESTIMATE_CELLS; i++)
        sum += e->done[i];
    if (sum < SAMPLES_MIN * e->weight)
        return;
    for (int i = 0; i < PRAZO_ESTIMATE_CELLS; i++) {
        seen += e->done[i];
        if (seen * 10 >= sum * 9) {
            e->q90_us = middle_of(i);
            return;
        }
    }
}

/* If no cell brings survival to one half, the highest is only a lower bound: it may raise p50 but
 * not lower it. Or requests with little time left, cut off in a stall, would teach that their time
 * is enough, take every permit as it comes free and keep the upstream down. */
static void read_p50(struct prazo_estimate *e)
{
    int64_t risk = e->total, survive = 65536, highest_us = 0;
    for (int i = 0; i < PRAZO_ESTIMATE_CELLS; i++) {
        if (e->done[i] + e->cut[i] == 0)
            continue;
        survive = survive * (risk - e->done[i]) / risk;
        risk -= e->done[i] + e->cut[i];
        highest_us = middle_of(i);
        if (survive <= 32768) {
            e->p50_us = highest_us;
            return;
        }
    }
    if (highest_us > e->p50_us)
        e->p50_us = highest_us;
}

void prazo_estimate_read(struct prazo_estimate *e, int64_t now_us)
{
    int64_t since_us = now_us - e->read_at_us;
    if (e->fresh < 8 && !(e->fresh > 0 && since_us >= 20000) && since_us < 100000)
        return;
    e->fresh = 0;
    e->read_at_us = now_us;
    e->active = e->total > 0 && e->total >= SAMPLES_MIN * e->weight;
    read_q90(e);
    read_p50(e);
}
