/* SPDX-License-Identifier: MIT */
/* `prazo run`: the gateway as a process. */
#ifndef PRAZO_GATEWAY_GATEWAY_H
#define PRAZO_GATEWAY_GATEWAY_H

#include "config/config.h"

/* Runs until SIGTERM or SIGINT has been obeyed. Takes a reference of config. path: the file that
 * SIGHUP reads again, or NULL. Returns the exit code: 0 drained, 2 cannot start. */
int prazo_gateway_run(struct prazo_config *config, const char *path);

#endif
