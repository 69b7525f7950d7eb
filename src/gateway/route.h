/* SPDX-License-Identifier: MIT */
/* Choice of the route. */
#ifndef PRAZO_GATEWAY_ROUTE_H
#define PRAZO_GATEWAY_ROUTE_H

#include "gateway/call.h"

/* Sets route, series, upstream … of the call. OPTIONS * is answered here (route stays NULL and the
 * answer is PRAZO_PROBLEM_NONE). */
enum prazo_problem prazo_call_route(struct prazo_call *call, const struct prazo_head *head,
                                    const char **ret_detail);

#endif
