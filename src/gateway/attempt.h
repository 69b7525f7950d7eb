/* SPDX-License-Identifier: MIT */
/* One try of a call at one server of its upstream, from the choice of the server to the release of
 * the connection. After the call has gone an attempt may live on alone (contract 6): it has hung up
 * and reads on until the server closes, answers (an orphan) or `abandon_wait` is over.
 * Belongs to its worker's thread. */
#ifndef PRAZO_GATEWAY_ATTEMPT_H
#define PRAZO_GATEWAY_ATTEMPT_H

#include "gateway/call.h"

enum prazo_attempt_state {
    ATTEMPT_RESOLVING = 0, /* waits for a name's first address */
    ATTEMPT_CONNECTING,
    ATTEMPT_SENT,
    ATTEMPT_ANSWERING, /* the final head has come */
    ATTEMPT_LINGERING, /* without a call */
    ATTEMPT_DONE,
};

extern const struct prazo_cx_ops prazo_attempt_cx_ops;

/* Starts a try. kind: enum prazo_stat_kind. server: this one first, or NULL to choose.
 * may_reuse: an idle connection will do. Ends at once in prazo_call_on_attempt_failed() or
 * prazo_call_wait_for_slot() where nothing can be started. */
void prazo_attempt_start(struct prazo_call *call, int kind, struct prazo_server_rt *server,
                         bool may_reuse);
/* The call does not want the answer any more: ends it as `how` says. cause: enum prazo_stat_cause.
 */
void prazo_attempt_abandon(struct prazo_attempt *attempt, enum prazo_abandon how, int cause);
void prazo_attempt_send_body(struct prazo_attempt *attempt, const char *data, size_t len);
/* The request is complete. */
void prazo_attempt_send_end(struct prazo_attempt *attempt, const struct prazo_header *trailers,
                            size_t count);
void prazo_attempt_flush(struct prazo_attempt *attempt);
bool prazo_attempt_is_sending(const struct prazo_attempt *attempt);
size_t prazo_attempt_pending(const struct prazo_attempt *attempt);
void prazo_attempt_pause(struct prazo_attempt *attempt);
void prazo_attempt_resume(struct prazo_attempt *attempt);
size_t prazo_attempt_bytes(void);
/* Is this node of worker->lingering a write that is to be finished (on_abandon: finish)? */
bool prazo_attempt_must_complete(const struct prazo_list *node);
/* Names have been resolved (or not: err): those that waited go on. */
void prazo_attempts_on_resolved(struct prazo_worker *worker);
void prazo_attempts_cut_all(struct prazo_worker *worker);

#endif
