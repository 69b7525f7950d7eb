/* SPDX-License-Identifier: MIT */
/* `prazo version`. */
#include "cli/opts.h"

static const char *const usage[] = { "version [--json]", NULL };

static int run(const struct prazo_command *command, int argc, char **argv)
{
    bool is_json = false;
    const struct prazo_option options[] = {
        { "json", NULL, "as JSON", NULL, &is_json },
        { 0 },
    };
    char **args;
    int count, code;
    if (!prazo_options_parse(command, options, argc, argv, &args, &count, &code))
        return code;
    if (count > 0)
        return prazo_usage_error(command, "'%s' is not expected", args[0]);
    if (is_json)
        printf("{\"name\":\"prazo\",\"version\":\"%s\"}\n", PRAZO_VERSION);
    else
        printf("prazo %s\n", PRAZO_VERSION);
    return prazo_finish_stdout(PRAZO_EXIT_OK);
}

const struct prazo_command prazo_cmd_version = {
    .name = "version",
    .summary = "Print the version.",
    .usage = usage,
    .run = run,
};
