/* SPDX-License-Identifier: MIT */
/* `prazo demo`: reads the options of the demonstration service and starts it. */
#include "cli/opts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "config/table.h"
#include "config/value.h"
#include "lab/demo.h"
#include "prazo/err.h"

static const char *const usage[] = { "demo [OPTION…]", NULL };

struct texts {
    const char *listen, *workers, *service, *dist, *seed;
    bool ignores_cancel;
};

/* False after a message. The defaults have been filled in. */
static bool read_texts(const struct prazo_command *command, const struct texts *texts,
                       struct prazo_demo_options *ret)
{
    int64_t workers, seed;
    if (prazo_str_to_i64(prazo_str_z(texts->workers), &workers) || workers < 1 ||
        workers > (int64_t)PRAZO_DEMO_WORKERS_MAX) {
        prazo_usage_error(command, "--workers: '%s' is not a number from 1 to %u", texts->workers,
                          PRAZO_DEMO_WORKERS_MAX);
        return false;
    }
    if (prazo_duration_parse(prazo_str_z(texts->service), &ret->service_us) ||
        ret->service_us > PRAZO_DEMO_SERVICE_US_MAX) {
        prazo_usage_error(command, "--service: '%s' is not a duration up to 1h, such as 100ms",
                          texts->service);
        return false;
    }
    /* In the order of enum prazo_demo_dist. */
    ret->dist = prazo_word_index("fixed|exp|bimodal", prazo_str_z(texts->dist));
    if (ret->dist < 0) {
        prazo_usage_error(command, "--dist: '%s' is not one of fixed, exp, bimodal", texts->dist);
        return false;
    }
    if (prazo_str_to_i64(prazo_str_z(texts->seed), &seed)) {
        prazo_usage_error(command, "--seed: '%s' is not a number", texts->seed);
        return false;
    }
    ret->listen = texts->listen;
    ret->workers = (unsigned)workers;
    ret->ignores_cancel = texts->ignores_cancel;
    ret->seed = (uint64_t)seed;
    return true;
}

static int run(const struct prazo_command *command, int argc, char **argv)
{
    struct texts texts = { "127.0.0.1:9100", "50", "100ms", "fixed", "0", false };
    const struct prazo_option options[] = {
        { "listen", "ADDRESS", "where to serve (127.0.0.1:9100)", &texts.listen, NULL },
        { "workers", "NUMBER", "requests worked on at the same time (50)", &texts.workers, NULL },
        { "service", "DURATION", "work per request (100ms)", &texts.service, NULL },
        { "ignore-cancel", NULL, "work on after the caller has gone", NULL, &texts.ignores_cancel },
        { "dist", "KIND", "service times: fixed, exp, bimodal (fixed)", &texts.dist, NULL },
        { "seed", "NUMBER", "of the drawn service times (0: a new one)", &texts.seed, NULL },
        { 0 },
    };
    char **args;
    int count, code;
    if (!prazo_options_parse(command, options, argc, argv, &args, &count, &code))
        return code;
    if (count > 0)
        return prazo_usage_error(command, "'%s' is not expected", args[0]);
    struct prazo_demo_options demo;
    if (!read_texts(command, &texts, &demo))
        return PRAZO_EXIT_USAGE;
    return prazo_demo_run(&demo);
}

const struct prazo_command prazo_cmd_demo = {
    .name = "demo",
    .summary = "Run a small service to put behind the gateway.",
    .usage = usage,
    .details = "A queue with workers behind it, as a database has. Any path is work;\n"
               "GET /_stats counts, PUT /_control {\"service_ms\":4000} makes it slow.\n\n"
               "Exit code: 0 ended by a signal, 2 cannot start or wrong usage.",
    .run = run,
};
