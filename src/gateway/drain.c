/* SPDX-License-Identifier: MIT */
/* Shutdown (contract 7), driven by one timer on the main loop:
 *
 *   serving   listeners open, each answer says Connection: close; until `delay` has passed and no
 *             request has come for 1 s, at most `drain` longer
 *   closing   listeners and idle connections closed, work in flight goes on; at most `drain`
 *   stopped   what is left is cut, all loops end
 *
 * A second signal cuts at once. */
#include "base/log.h"
#include "gateway/attempt.h"
#include "gateway/gateway_internal.h"

#define LOOK_US 20000    /* how often the workers are looked at */
#define QUIET_US 1000000 /* nobody has sent a request for so long */

static void on_all(struct prazo_gateway *g, prazo_loop_cb cb)
{
    for (unsigned i = 0; i < g->worker_count; i++)
        (void)prazo_loop_post(g->workers[i]->loop, cb, g->workers[i]);
}

static void say_close(void *arg)
{
    prazo_server_drain(((struct prazo_worker *)arg)->server);
}

static void close_listeners(void *arg)
{
    struct prazo_worker *w = arg;

    for (size_t i = 0; i < w->ear_count; i++) {
        if (w->ears[i] != NULL)
            prazo_listener_close(w->ears[i]->listener);
    }
    prazo_server_close_idle(w->server);
    __atomic_fetch_add(&w->gateway->deaf_count, 1, __ATOMIC_RELEASE);
}

static void stop(void *arg)
{
    struct prazo_worker *w = arg;

    prazo_calls_cut_all(w);
    prazo_attempts_cut_all(w);
    prazo_loop_stop(w->loop);
}

static int64_t requests(const struct prazo_gateway *g)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < g->worker_count; i++)
        sum += __atomic_load_n(&g->workers[i]->now_requests, __ATOMIC_RELAXED);
    return sum;
}

static int64_t last_request_us(const struct prazo_gateway *g)
{
    int64_t last_us = g->drain_began_us - QUIET_US;

    for (unsigned i = 0; i < g->worker_count; i++) {
        int64_t us = __atomic_load_n(&g->workers[i]->now_last_request_us, __ATOMIC_RELAXED);
        last_us = us > last_us ? us : last_us;
    }
    return last_us;
}

static void look_again(struct prazo_gateway *g, int64_t now_us)
{
    prazo_timers_link_at(prazo_loop_timers(g->workers[0]->loop), &g->drain_timer, now_us + LOOK_US);
}

static void on_timer(struct prazo_timer *timer, int64_t now_us)
{
    struct prazo_gateway *g = PRAZO_CONTAINER(timer, struct prazo_gateway, drain_timer);
    const struct prazo_config *config = g->snapshot->config;
    int64_t delay_end_us = g->drain_began_us + config->shutdown_delay_us;

    /* While a socket is open the kernel lets clients in, and nobody would serve them. */
    if (__atomic_load_n(&g->deaf_count, __ATOMIC_ACQUIRE) == g->worker_count)
        prazo_sockets_close_unused(g, NULL, 0);
    if (!g->is_closed) {
        bool is_quiet = now_us - last_request_us(g) >= QUIET_US;
        if ((now_us >= delay_end_us && is_quiet) ||
            now_us >= delay_end_us + config->shutdown_drain_us) {
            g->is_closed = true;
            g->closed_us = now_us;
            on_all(g, close_listeners);
        }
    } else if (requests(g) == 0 || now_us >= g->closed_us + config->shutdown_drain_us) {
        on_all(g, stop);
        return;
    }
    look_again(g, now_us);
}

void prazo_drain_begin(struct prazo_gateway *g)
{
    prazo_logf(PRAZO_LOG_INFO, "draining", "a second signal ends at once");
    __atomic_store_n(&g->is_ready, false, __ATOMIC_RELAXED);
    g->drain_began_us = prazo_loop_now_us(g->workers[0]->loop);
    g->drain_timer.cb = on_timer;
    if (g->admin != NULL)
        prazo_admin_drain(g->admin);
    on_all(g, say_close);
    look_again(g, g->drain_began_us);
}

void prazo_drain_now(struct prazo_gateway *g)
{
    on_all(g, stop);
}
