/* SPDX-License-Identifier: MIT */
/* `prazo run`: loads the configuration and hands it to the gateway. */
#include "cli/opts.h"

#include "config/config.h"
#include "gateway/gateway.h"

#define DIAG_BYTES_MAX ((size_t)256 << 10)

static const char *const usage[] = {
    "run [--check] CONFIG",
    "run --listen=ADDRESS --to=ADDRESS",
    NULL,
};

/* PRAZO_EXIT_OK with *ret_config, or the exit code; messages are printed. */
static int load(const char *path, const char *listen, const char *to,
                struct prazo_config **ret_config)
{
    struct prazo_buf diag;
    prazo_buf_init(&diag, DIAG_BYTES_MAX);
    int err = path ? prazo_config_load_file(path, &diag, ret_config)
                   : prazo_config_load_pair(listen, to, &diag, ret_config);
    prazo_print_diag(&diag);
    prazo_buf_done(&diag);
    return err ? PRAZO_EXIT_CONFIG : PRAZO_EXIT_OK;
}

static int run(const struct prazo_command *command, int argc, char **argv)
{
    const char *listen = NULL, *to = NULL;
    bool is_check = false;
    const struct prazo_option options[] = {
        { "check", NULL, "only validate the configuration", NULL, &is_check },
        { "listen", "ADDRESS", "where clients connect, instead of a CONFIG", &listen, NULL },
        { "to", "ADDRESS", "the upstream's server, instead of a CONFIG", &to, NULL },
        { 0 },
    };
    char **args;
    int count, code;
    if (!prazo_options_parse(command, options, argc, argv, &args, &count, &code))
        return code;
    if (count > 1)
        return prazo_usage_error(command, "one CONFIG is expected, '%s' is one more", args[1]);
    if (count == 1 && (listen || to))
        return prazo_usage_error(command, "a CONFIG and --listen or --to exclude each other");
    if (count == 0 && (!listen || !to))
        return prazo_usage_error(command, listen || to
                                              ? "--listen and --to belong together"
                                              : "a CONFIG, or --listen and --to, is missing");

    const char *path = count ? args[0] : NULL;
    struct prazo_config *config = NULL;
    code = load(path, listen, to, &config);
    if (code == PRAZO_EXIT_OK && is_check) {
        printf("%s: the configuration is valid\n", path ? path : "command line");
        code = prazo_finish_stdout(PRAZO_EXIT_OK);
    } else if (code == PRAZO_EXIT_OK) {
        code = prazo_gateway_run(config, path);
    }
    prazo_config_unref(config);
    return code;
}

const struct prazo_command prazo_cmd_run = {
    .name = "run",
    .summary = "Run the gateway.",
    .usage = usage,
    .details = "SIGTERM drains and ends, SIGHUP loads CONFIG again. The log goes to stderr.\n\n"
               "Exit code: 0 drained, 1 the configuration is wrong or cannot be read,\n"
               "2 cannot start or wrong usage.",
    .run = run,
};
