/* SPDX-License-Identifier: MIT */
/* Service station: moves jobs from the queue to the workers and out, and counts what came of them.
 *
 * Invariant: a job is in `queue` exactly while it is QUEUED and in `work` exactly while it is BUSY;
 * busy and queued are the lengths of these lists. set_state() is the only place that moves a job,
 * so the lists and the counts cannot come apart. */
#include "lab/station.h"

#include "base/assert.h"

void prazo_station_init(struct prazo_station *station, unsigned workers, bool ignores_cancel)
{
    *station = (struct prazo_station){ .workers = workers, .ignores_cancel = ignores_cancel };
    prazo_list_init(&station->queue);
    prazo_list_init(&station->work);
}

/* The only writer of job->state: a state is membership in one list. */
static void set_state(struct prazo_station *station, struct prazo_job *job,
                      enum prazo_job_state next)
{
    if (job->state == PRAZO_JOB_QUEUED)
        station->queued--;
    else if (job->state == PRAZO_JOB_BUSY)
        station->busy--;
    prazo_list_del(&job->link);
    job->state = next;
    if (next == PRAZO_JOB_QUEUED) {
        prazo_list_push_back(&station->queue, &job->link);
        station->queued++;
    } else if (next == PRAZO_JOB_BUSY) {
        prazo_list_push_back(&station->work, &job->link);
        station->busy++;
    }
}

void prazo_station_arrive(struct prazo_station *station, struct prazo_job *job)
{
    PRAZO_ASSERT(job->state == PRAZO_JOB_NEW);
    prazo_list_init(&job->link);
    job->has_caller = true;
    station->arrived++;
    set_state(station, job, PRAZO_JOB_QUEUED);
}

struct prazo_job *prazo_station_next(struct prazo_station *station)
{
    if (station->busy >= station->workers || prazo_list_is_empty(&station->queue))
        return NULL;
    struct prazo_job *job = PRAZO_CONTAINER(station->queue.next, struct prazo_job, link);
    set_state(station, job, PRAZO_JOB_BUSY);
    if (station->busy > station->busy_max)
        station->busy_max = station->busy;
    return job;
}

bool prazo_station_end(struct prazo_station *station, struct prazo_job *job, int64_t now_us)
{
    PRAZO_ASSERT(job->state == PRAZO_JOB_BUSY);
    set_state(station, job, PRAZO_JOB_OVER);
    if (job->has_caller) {
        station->done++;
        return true;
    }
    station->abandoned--;
    station->orphan++;
    station->orphan_us += now_us - job->gone_at_us;
    return false;
}

bool prazo_station_leave(struct prazo_station *station, struct prazo_job *job, int64_t now_us)
{
    PRAZO_ASSERT(job->state == PRAZO_JOB_QUEUED || job->state == PRAZO_JOB_BUSY);
    PRAZO_ASSERT(job->has_caller);
    job->has_caller = false;
    job->gone_at_us = now_us;
    if (station->ignores_cancel) {
        station->abandoned++;
        return false;
    }
    set_state(station, job, PRAZO_JOB_OVER);
    station->cancelled++;
    return true;
}
