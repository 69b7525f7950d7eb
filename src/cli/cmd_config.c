/* SPDX-License-Identifier: MIT */
/* `prazo config`: the effective configuration on stdout, in a form that can be used again. */
#include "cli/opts.h"

#include "config/config.h"

#define DIAG_BYTES_MAX ((size_t)256 << 10)
/* A configuration is at most 1 MiB; with every default written out it may grow. */
#define OUTPUT_BYTES_MAX ((size_t)64 << 20)

static const char *const usage[] = {
    "config CONFIG",
    "config --reference",
    NULL,
};

static int print(struct prazo_buf *output, int err)
{
    int code = PRAZO_EXIT_OK;
    if (err) {
        fprintf(stderr, "prazo config: %s\n", prazo_strerror(err));
        code = PRAZO_EXIT_CONFIG;
    } else {
        fwrite(output->base, 1, output->len, stdout);
        code = prazo_finish_stdout(PRAZO_EXIT_OK);
    }
    prazo_buf_done(output);
    return code;
}

static int run(const struct prazo_command *command, int argc, char **argv)
{
    bool is_reference = false;
    const struct prazo_option options[] = {
        { "reference", NULL, "print the reference of all keys (Markdown)", NULL, &is_reference },
        { 0 },
    };
    char **args;
    int count, code;
    if (!prazo_options_parse(command, options, argc, argv, &args, &count, &code))
        return code;
    if (count != (is_reference ? 0 : 1))
        return prazo_usage_error(command, is_reference ? "--reference takes no CONFIG"
                                                       : "exactly one CONFIG is expected");
    struct prazo_buf output, diag;
    prazo_buf_init(&output, OUTPUT_BYTES_MAX);
    if (is_reference)
        return print(&output, prazo_config_write_reference(&output));

    struct prazo_config *config = NULL;
    prazo_buf_init(&diag, DIAG_BYTES_MAX);
    int err = prazo_config_load_file(args[0], &diag, &config);
    prazo_print_diag(&diag);
    prazo_buf_done(&diag);
    if (err)
        return PRAZO_EXIT_CONFIG;
    code = print(&output, prazo_config_write(config, &output));
    prazo_config_unref(config);
    return code;
}

const struct prazo_command prazo_cmd_config = {
    .name = "config",
    .summary = "Print the whole effective configuration.",
    .usage = usage,
    .details =
        "Values that came from ${NAME} or ${file:PATH} into texts are printed as written.\n\n"
        "Exit code: 0, 1 the configuration is wrong or cannot be read, 2 wrong usage.",
    .run = run,
};
