/* SPDX-License-Identifier: MIT */
/* Dispatch: the first argument names the command; nothing else happens here. `help`, `--help` and
 * `--version` are understood in its place, as GNU programs do. */
#include "cli/opts.h"

#include "config/value.h"

static const struct prazo_command *const commands[] = {
    &prazo_cmd_run,
    &prazo_cmd_config,
    &prazo_cmd_demo,
    &prazo_cmd_version,
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_overview(FILE *to)
{
    fprintf(to, "Usage: prazo COMMAND [OPTION…] [ARGUMENT…]\n\n"
                "An HTTP gateway that keeps deadlines.\n\nCommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(to, "  %-9s %s\n", "help", "Show this, or the help of a command: prazo help run.");
    fprintf(to, "\nIn front of a service on port 9001:\n"
                "  prazo run --listen 127.0.0.1:8080 --to 127.0.0.1:9001\n");
}

static const struct prazo_command *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (prazo_text_is_near(prazo_str_z(name), prazo_str_z(commands[i]->name)))
            return prazo_usage_error(NULL, "unknown command '%s'; did you mean '%s'?", name,
                                     commands[i]->name);
    return prazo_usage_error(NULL, "unknown %s '%s'", name[0] == '-' ? "option" : "command", name);
}

static int overview(void)
{
    print_overview(stdout);
    return prazo_finish_stdout(PRAZO_EXIT_OK);
}

static int help(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-' || strcmp(argv[1], "help") == 0)
        return overview();
    const struct prazo_command *command = find(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    char flag[] = "--help";
    char *of_command[] = { argv[1], flag, NULL };
    return command->run(command, 2, of_command);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return PRAZO_EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0)
        return help(argc - 1, argv + 1);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return overview();
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0)
        name = "version";
    const struct prazo_command *command = find(name);
    return command ? command->run(command, argc - 1, argv + 1) : unknown_command(name);
}
