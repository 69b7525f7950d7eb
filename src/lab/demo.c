/* SPDX-License-Identifier: MIT */
/* `prazo demo`: the service station of station.c behind HTTP.
 *
 * One thread, one loop. Work begins when its request is complete; each job has a timer that is
 * armed when a worker takes it. Questions and settings are answered on the spot: they need neither
 * a worker nor a place in the queue, so that one can look at a service that is drowning.
 *
 * Invariants: a job's object lives from its request's head to its answer or its caller's leaving,
 * and owns its exchange all the while; every live object is in `arriving` (body still coming) or in
 * one of the station's lists. At most `jobs.count_max` of them exist; the next caller gets 503.
 *
 * It does not log requests and keeps nothing: it is a load, not a server to build on. */
#include "lab/demo.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/pool.h"
#include "base/prng.h"
#include "base/timers.h"
#include "core/problem.h"
#include "http/exchange.h"
#include "io/io.h"
#include "lab/demo_control.h"
#include "lab/station.h"

/* Jobs that wait or are worked on. A caller's connection takes about 1 KiB here and one descriptor;
 * beyond this many nobody would get an answer within any sensible deadline. */
#define JOBS_MAX 100000u
/* Descriptors kept free for questions, settings and the loop itself while the queue is full. */
#define SPARE_FDS 256u
#define CONTROL_BYTES_MAX 4096u
#define CONTROLS_MAX 16u

#define EXIT_NO_START 2

struct demo {
    struct prazo_loop *loop;
    struct prazo_server *server;
    struct prazo_station station;
    struct prazo_demo_settings settings;
    enum prazo_demo_dist dist;
    struct prazo_prng prng;
    struct prazo_list arriving; /* requests whose body is not complete */
    struct prazo_pool jobs, controls;
    struct prazo_arena_pool arenas;
    uint64_t refused; /* answered 503 */
    bool has_warned;  /* that connections cannot be accepted */
};

enum request_kind { REQUEST_WORK = 0, REQUEST_CONTROL };

/* What on_request() returns: the exchange's owner. */
struct request {
    enum request_kind kind;
    struct demo *demo;
    struct prazo_sx *sx;    /* NULL once the exchange is ended */
    struct prazo_list link; /* in demo->arriving until the body is complete */
};

struct work {
    struct request request;
    struct prazo_job job;
    struct prazo_timer timer; /* linked while the job is busy */
};

struct control {
    struct request request;
    struct prazo_buf body;
};

#define WORK_OF(r) PRAZO_CONTAINER(r, struct work, request)
#define CONTROL_OF(r) PRAZO_CONTAINER(r, struct control, request)

/* ---- answers ---- */

static void answer_json(struct prazo_sx *sx, int status, const struct prazo_buf *body)
{
    prazo_sx_answer(sx, status, "application/json", NULL, prazo_buf_str(body));
}

static void answer_error(struct prazo_sx *sx, int status, struct prazo_str what)
{
    struct prazo_buf body;
    prazo_buf_init(&body, 2 * CONTROL_BYTES_MAX);
    (void)prazo_buf_add_z(&body, "{\"error\":");
    (void)prazo_buf_add_json(&body, what);
    (void)prazo_buf_add_z(&body, "}\n");
    answer_json(sx, status, &body);
    prazo_buf_done(&body);
}

static void answer_wrong_method(struct demo *demo, struct prazo_sx *sx, struct prazo_str allowed)
{
    struct prazo_arena arena;
    struct prazo_head_out extra;
    prazo_arena_init(&arena, &demo->arenas, PRAZO_ARENA_BLOCK_BYTES);
    prazo_head_out_init(&extra, &arena, 64);
    prazo_head_out_add(&extra, PRAZO_STR("allow"), allowed);
    prazo_sx_answer(sx, 405, "text/plain", &extra, PRAZO_STR("method not allowed\n"));
    prazo_arena_reset(&arena);
}

/* The arena goes with this function, so what the head is made of has to be written before. */
static void send_continue(struct demo *demo, struct prazo_sx *sx)
{
    struct prazo_arena arena;
    struct prazo_head_out none;
    prazo_arena_init(&arena, &demo->arenas, PRAZO_ARENA_BLOCK_BYTES);
    prazo_head_out_init(&none, &arena, 64);
    (void)prazo_sx_send_informational(sx, 100, &none);
    prazo_sx_flush(sx);
    prazo_arena_reset(&arena);
}

static void answer_stats(struct demo *demo, struct prazo_sx *sx)
{
    const struct prazo_station *s = &demo->station;
    struct prazo_buf body;
    prazo_buf_init(&body, CONTROL_BYTES_MAX);
    (void)prazo_buf_addf(&body,
                         "{\"arrived\":%" PRIu64 ",\"done\":%" PRIu64 ",\"orphan\":%" PRIu64
                         ",\"orphan_ms\":%" PRId64 ",\"cancelled\":%" PRIu64 ",\"refused\":%" PRIu64
                         ",\"busy\":%" PRIu64 ",\"queued\":%" PRIu64 ",\"abandoned\":%" PRIu64
                         ",\"max_concurrency\":%" PRIu64 "}\n",
                         s->arrived, s->done, s->orphan, s->orphan_us / 1000, s->cancelled,
                         demo->refused, s->busy, s->queued, s->abandoned, s->busy_max);
    answer_json(sx, 200, &body);
    prazo_buf_done(&body);
}

/* ---- work ---- */

/* A service time of the wanted distribution with the configured mean. */
static int64_t draw_service_us(struct demo *demo)
{
    int64_t mean_us = demo->settings.service_us;
    switch (demo->dist) {
    case PRAZO_DEMO_EXP: {
        /* 53 random bits make a double in [0, 1); 1 − u is never 0, so the logarithm is finite:
         * at most 37 means. */
        double u = (double)(prazo_prng_next(&demo->prng) >> 11) * 0x1p-53;
        return (int64_t)(-log(1.0 - u) * (double)mean_us);
    }
    case PRAZO_DEMO_BIMODAL:
        return prazo_prng_below(&demo->prng, 10) == 0 ? mean_us * 11 / 2 : mean_us / 2;
    case PRAZO_DEMO_FIXED:
        return mean_us;
    case PRAZO_DEMO_DIST_COUNT:
        break;
    }
    PRAZO_UNREACHABLE();
}

/* Hands waiting jobs to free workers. */
static void start_work(struct demo *demo)
{
    int64_t now_us = prazo_loop_now_us(demo->loop);
    struct prazo_job *job;
    while ((job = prazo_station_next(&demo->station)) != NULL) {
        struct work *work = PRAZO_CONTAINER(job, struct work, job);
        prazo_timers_link_at(prazo_loop_timers(demo->loop), &work->timer,
                             now_us + draw_service_us(demo));
    }
}

static void free_work(struct work *work)
{
    struct demo *demo = work->request.demo;
    PRAZO_ASSERT(work->request.sx == NULL);
    prazo_timers_unlink(prazo_loop_timers(demo->loop), &work->timer);
    prazo_list_del(&work->request.link);
    prazo_list_del(&work->job.link);
    prazo_pool_put(&demo->jobs, work);
}

/* An orphan's answer is sent as well: a real server that ignores hang-ups writes it too, and who is
 * still reading behind a FIN has to be able to count it. */
static void on_service_over(struct prazo_timer *timer, int64_t now_us)
{
    struct work *work = PRAZO_CONTAINER(timer, struct work, timer);
    struct demo *demo = work->request.demo;
    (void)prazo_station_end(&demo->station, &work->job, now_us);
    prazo_sx_answer(work->request.sx, 200, "text/plain", NULL, PRAZO_STR("ok\n"));
    work->request.sx = NULL;
    free_work(work);
    start_work(demo);
}

/* ---- settings ---- */

static void free_control(struct control *control)
{
    PRAZO_ASSERT(control->request.sx == NULL);
    prazo_buf_done(&control->body);
    prazo_list_del(&control->request.link);
    prazo_pool_put(&control->request.demo->controls, control);
}

static void apply_control(struct control *control)
{
    struct demo *demo = control->request.demo;
    struct prazo_buf text;
    prazo_buf_init(&text, CONTROL_BYTES_MAX);
    int err = prazo_demo_settings_read(&demo->settings, prazo_buf_str(&control->body), &text);
    if (err) {
        answer_error(control->request.sx, 400, prazo_buf_str(&text));
    } else {
        demo->station.workers = demo->settings.workers;
        demo->station.ignores_cancel = demo->settings.ignores_cancel;
        start_work(demo);
        (void)prazo_demo_settings_write(&demo->settings, &text);
        answer_json(control->request.sx, 200, &text);
    }
    control->request.sx = NULL;
    prazo_buf_done(&text);
    free_control(control);
}

/* ---- requests ---- */

/* From the pool, zeroed; NULL after a 503. */
static struct request *new_request(struct demo *demo, struct prazo_sx *sx, enum request_kind kind)
{
    void *object = prazo_pool_get(kind == REQUEST_WORK ? &demo->jobs : &demo->controls);
    if (!object) {
        demo->refused++;
        answer_error(sx, 503, PRAZO_STR("too many requests wait here already"));
        return NULL;
    }
    struct request *request;
    if (kind == REQUEST_WORK) {
        struct work *work = object;
        work->timer.cb = on_service_over;
        prazo_list_init(&work->job.link);
        request = &work->request;
    } else {
        struct control *control = object;
        prazo_buf_init(&control->body, CONTROL_BYTES_MAX);
        request = &control->request;
    }
    request->kind = kind;
    request->demo = demo;
    request->sx = sx;
    prazo_list_push_back(&demo->arriving, &request->link);
    return request;
}

static void *on_request(void *server_arg, struct prazo_sx *sx, const struct prazo_head *head)
{
    struct demo *demo = server_arg;
    if (prazo_str_eq(head->path, PRAZO_STR("/_stats"))) {
        if (head->method_id == PRAZO_METHOD_GET || head->method_id == PRAZO_METHOD_HEAD)
            answer_stats(demo, sx);
        else
            answer_wrong_method(demo, sx, PRAZO_STR("GET, HEAD"));
        return NULL;
    }
    bool is_control = prazo_str_eq(head->path, PRAZO_STR("/_control"));
    if (is_control && head->method_id != PRAZO_METHOD_PUT) {
        answer_wrong_method(demo, sx, PRAZO_STR("PUT"));
        return NULL;
    }
    struct request *request = new_request(demo, sx, is_control ? REQUEST_CONTROL : REQUEST_WORK);
    if (request && head->expects_continue)
        send_continue(demo, sx);
    return request;
}

/* Ends the exchange of a request that will not be carried out, and forgets it. status 0: the caller
 * is gone, nothing is said. */
static void drop_request(struct request *request, int status, struct prazo_str what)
{
    if (status)
        answer_error(request->sx, status, what);
    else
        prazo_sx_abort(request->sx);
    request->sx = NULL;
    if (request->kind == REQUEST_WORK)
        free_work(WORK_OF(request));
    else
        free_control(CONTROL_OF(request));
}

static void on_body(void *arg, struct prazo_sx *sx, const char *data, size_t len)
{
    (void)sx;
    struct request *request = arg;
    if (request->kind == REQUEST_WORK)
        return;
    int err = prazo_buf_add(&CONTROL_OF(request)->body, data, len);
    if (err == PRAZO_E_TOO_LARGE)
        drop_request(request, 413, PRAZO_STR("settings have to fit into 4096 bytes"));
    else if (err)
        drop_request(request, 503, PRAZO_STR("out of memory"));
}

static void on_body_end(void *arg, struct prazo_sx *sx, const struct prazo_header *trailers,
                        size_t count)
{
    (void)sx, (void)trailers, (void)count;
    struct request *request = arg;
    if (request->kind == REQUEST_CONTROL) {
        apply_control(CONTROL_OF(request));
        return;
    }
    struct demo *demo = request->demo;
    prazo_list_del(&request->link);
    prazo_station_arrive(&demo->station, &WORK_OF(request)->job);
    start_work(demo);
}

static void on_gone(void *arg, struct prazo_sx *sx, enum prazo_gone why)
{
    (void)sx;
    struct request *request = arg;
    if (why == PRAZO_GONE_BAD_BODY) {
        drop_request(request, 400, PRAZO_STR("the request's body is malformed"));
        return;
    }
    if (why == PRAZO_GONE_BODY_TOO_LARGE) {
        drop_request(request, 413, PRAZO_STR("the request's body is too large"));
        return;
    }
    struct demo *demo = request->demo;
    bool is_at_station =
        request->kind == REQUEST_WORK && WORK_OF(request)->job.state != PRAZO_JOB_NEW;
    if (is_at_station &&
        !prazo_station_leave(&demo->station, &WORK_OF(request)->job, prazo_loop_now_us(demo->loop)))
        return;
    drop_request(request, 0, PRAZO_STR(""));
    start_work(demo);
}

static void on_read_done(void *arg, struct prazo_sx *sx)
{
    (void)arg, (void)sx; /* whoever sends here also flushes */
}

static void on_drained(void *arg, struct prazo_sx *sx)
{
    (void)arg, (void)sx; /* every answer is small and complete: nobody waits for room */
}

static void on_bad_request(void *server_arg, struct prazo_sx *sx, int problem)
{
    (void)server_arg;
    enum prazo_problem p = (enum prazo_problem)problem;
    answer_error(sx, prazo_problem_status(p), prazo_str_z(prazo_problem_title(p)));
}

static const struct prazo_sx_ops ops = {
    .on_request = on_request,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_gone = on_gone,
    .on_read_done = on_read_done,
    .on_drained = on_drained,
    .on_bad_request = on_bad_request,
};

/* ---- start and end ---- */

static void on_signal(void *arg, int signum)
{
    struct demo *demo = arg;
    if (signum == SIGTERM || signum == SIGINT)
        prazo_loop_stop(demo->loop);
}

/* Once: whoever wonders why callers hang needs the reason, not a line for each of them. */
static void on_accept_error(void *listener_arg, int err)
{
    struct demo *demo = listener_arg;
    if (!demo->has_warned)
        fprintf(stderr, "prazo demo: cannot accept connections: %s; callers wait\n",
                prazo_strerror(err));
    demo->has_warned = true;
}

/* Raises the soft limit of descriptors to the hard one; returns how many jobs fit under it. */
static size_t raise_jobs_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return SPARE_FDS;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= JOBS_MAX + SPARE_FDS)
        return JOBS_MAX;
    return limit.rlim_cur > 2 * SPARE_FDS ? (size_t)limit.rlim_cur - SPARE_FDS : SPARE_FDS;
}

static void init_demo(struct demo *demo, const struct prazo_demo_options *options)
{
    PRAZO_ASSERT(options->dist >= 0 && options->dist < PRAZO_DEMO_DIST_COUNT);
    PRAZO_ASSERT(options->workers >= 1 && options->workers <= PRAZO_DEMO_WORKERS_MAX);
    PRAZO_ASSERT(options->service_us >= 0 && options->service_us <= PRAZO_DEMO_SERVICE_US_MAX);
    *demo = (struct demo){ .dist = (enum prazo_demo_dist)options->dist };
    demo->settings = (struct prazo_demo_settings){ options->service_us, options->workers,
                                                   options->ignores_cancel };
    prazo_station_init(&demo->station, options->workers, options->ignores_cancel);
    prazo_list_init(&demo->arriving);
    prazo_pool_init(&demo->jobs, sizeof(struct work), 64, raise_jobs_max());
    prazo_pool_init(&demo->controls, sizeof(struct control), CONTROLS_MAX, CONTROLS_MAX);
    prazo_arena_pool_init(&demo->arenas, 4);
    if (options->seed)
        prazo_prng_seed(&demo->prng, options->seed);
    else
        prazo_prng_seed_random(&demo->prng);
}

static int start_server(struct demo *demo, int fd)
{
    struct prazo_server_options options = {
        .ops = &ops,
        .arg = demo,
        .limits = { .head_bytes = 32768,
                    .uri_bytes = 8192,
                    .body_bytes = -1,
                    .header_time_us = 10000000,
                    /* Longer than a gateway keeps idle connections: it retires them, not this. */
                    .idle_us = 75000000 },
        .connections_max = demo->jobs.count_max + SPARE_FDS,
    };
    int err = prazo_loop_new(&demo->loop);
    if (!err)
        err = prazo_loop_on_signals(demo->loop, on_signal, demo);
    if (!err)
        err = prazo_server_new(demo->loop, &options, &demo->server);
    struct prazo_listener_options listener_options = { .fd = fd,
                                                       .listener_arg = demo,
                                                       .on_accept_error = on_accept_error };
    struct prazo_listener *listener;
    if (!err)
        err = prazo_server_listen(demo->server, &listener_options, &listener);
    return err;
}

/* At the end, when the station's books are of no interest any more. */
static void drop_jobs(struct prazo_list *jobs)
{
    while (!prazo_list_is_empty(jobs))
        drop_request(&PRAZO_CONTAINER(jobs->next, struct work, job.link)->request, 0,
                     PRAZO_STR(""));
}

static void done_demo(struct demo *demo)
{
    while (!prazo_list_is_empty(&demo->arriving))
        drop_request(PRAZO_CONTAINER(demo->arriving.next, struct request, link), 0, PRAZO_STR(""));
    drop_jobs(&demo->station.queue);
    drop_jobs(&demo->station.work);
    if (demo->server)
        prazo_server_free(demo->server);
    prazo_loop_free(demo->loop);
    prazo_pool_done(&demo->jobs);
    prazo_pool_done(&demo->controls);
    prazo_arena_pool_done(&demo->arenas);
}

static int say_no_start(const char *address, int err)
{
    const char *advice =
        err == PRAZO_E_IN_USE    ? "; stop what listens there or choose another --listen"
        : err == PRAZO_E_INVALID ? "; expected such as 127.0.0.1:9100, [::1]:9100 or unix:/path"
                                 : "";
    fprintf(stderr, "prazo demo: cannot listen on %s: %s%s\n", address, prazo_strerror(err),
            advice);
    return EXIT_NO_START;
}

/* The real address: the port may have been left to the kernel (":0"). */
static void say_listening(int fd, const struct prazo_demo_options *options)
{
    struct prazo_addr addr;
    char text[PRAZO_ADDR_TEXT_MAX];
    bool is_known = prazo_listen_addr(fd, &addr) == PRAZO_OK;
    if (is_known)
        prazo_addr_format(&addr, text);
    fprintf(stderr, "prazo demo: listening on %s, %u workers, service time %.13g ms\n",
            is_known ? text : options->listen, options->workers,
            (double)options->service_us / 1000.0);
}

int prazo_demo_run(const struct prazo_demo_options *options)
{
    struct prazo_addr addr;
    struct prazo_str host;
    uint16_t port;
    int err = prazo_addr_parse(prazo_str_z(options->listen), &addr, &host, &port);
    if (err) /* a name is as wrong here: which of its addresses would it be? */
        return say_no_start(options->listen, PRAZO_E_INVALID);
    int fd;
    err = prazo_listen(&addr, &fd);
    if (err)
        return say_no_start(options->listen, err);

    struct demo demo;
    init_demo(&demo, options);
    err = start_server(&demo, fd);
    if (err) {
        fprintf(stderr, "prazo demo: cannot start: %s\n", prazo_strerror(err));
    } else {
        say_listening(fd, options);
        prazo_loop_run(demo.loop);
    }
    done_demo(&demo);
    close(fd);
    return err ? EXIT_NO_START : 0;
}
