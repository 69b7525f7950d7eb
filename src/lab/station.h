/* SPDX-License-Identifier: MIT */
/* A service station: W workers and one FIFO queue in front of them, as a database has. It keeps the
 * books only: who waits, who is worked on, and what came of it. The owner tells it the time and
 * runs the clock of each job.
 *
 *   arrived = done + orphan + cancelled + busy + queued
 *
 * Pure: no clock, no allocation, cannot fail. Not thread-safe. */
#ifndef PRAZO_LAB_STATION_H
#define PRAZO_LAB_STATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

enum prazo_job_state {
    PRAZO_JOB_NEW = 0, /* not at the station */
    PRAZO_JOB_QUEUED,  /* in station->queue */
    PRAZO_JOB_BUSY,    /* in station->work; holds a worker */
    PRAZO_JOB_OVER,    /* has left the station */
    /* must stay last */
    PRAZO_JOB_STATE_COUNT
};

struct prazo_job {
    struct prazo_list link;
    enum prazo_job_state state;
    bool has_caller;    /* false: the answer will be an orphan */
    int64_t gone_at_us; /* when the caller left; only without caller */
};

struct prazo_station {
    unsigned workers;
    bool ignores_cancel;     /* a job whose caller has left is done all the same */
    struct prazo_list queue; /* first come, first served */
    struct prazo_list work;
    uint64_t busy, queued; /* lengths of `work` and `queue` */
    uint64_t busy_max;     /* most jobs that were worked on at once */
    uint64_t abandoned;    /* of busy and queued: jobs whose caller has gone */
    uint64_t arrived;
    uint64_t done;      /* ended with a caller to answer */
    uint64_t orphan;    /* ended without one */
    int64_t orphan_us;  /* sum over orphans: from the caller's leaving to the job's end */
    uint64_t cancelled; /* given up because the caller left */
};

void prazo_station_init(struct prazo_station *station, unsigned workers, bool ignores_cancel);

/* A job (zeroed by the owner) joins the queue's end; take it with prazo_station_next(). */
void prazo_station_arrive(struct prazo_station *station, struct prazo_job *job);
/* The job that a free worker begins now, or NULL. To be asked until NULL after an arrival, after an
 * end or a leaving, and after `workers` was raised. With `workers` lowered, running jobs go on and
 * none begins until enough have ended. */
struct prazo_job *prazo_station_next(struct prazo_station *station);
/* The work of a busy job is complete. True: the caller is there to be answered. The job has left
 * the station. */
bool prazo_station_end(struct prazo_station *station, struct prazo_job *job, int64_t now_us);
/* The caller of a job has gone (once a job). True: the job is given up and has left the station;
 * false: it goes on, as an orphan. */
bool prazo_station_leave(struct prazo_station *station, struct prazo_job *job, int64_t now_us);

#endif
