/* SPDX-License-Identifier: MIT */
/* Option tables over getopt_long(), --help, and what every command prints the same way. Colour only
 * on a terminal that has it, and never with NO_COLOR set (https://no-color.org). */
#include "cli/opts.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "config/value.h"

#define OPTIONS_MAX 16

static bool has_color(int fd)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fd) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

static void print_help(const struct prazo_command *command, const struct prazo_option *options)
{
    for (size_t i = 0; command->usage[i]; i++)
        printf("%s prazo %s\n", i ? "      " : "Usage:", command->usage[i]);
    printf("\n%s\n\nOptions:\n", command->summary);
    for (; options->name; options++) {
        char left[64];
        snprintf(left, sizeof(left), "--%s%s%s", options->name, options->value ? "=" : "",
                 options->value ? options->value : "");
        printf("  %-24s  %s\n", left, options->help);
    }
    printf("  %-24s  %s\n", "-h, --help", "show this");
    if (command->details)
        printf("\n%s\n", command->details);
}

int prazo_usage_error(const struct prazo_command *command, const char *fmt, ...)
{
    fprintf(stderr, "prazo%s%s: ", command ? " " : "", command ? command->name : "");
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\nTry 'prazo %s%s' for what is possible.\n", command ? command->name : "",
            command ? " --help" : "help");
    return PRAZO_EXIT_USAGE;
}

static int unknown_option(const struct prazo_command *command, const struct prazo_option *options,
                          const char *arg)
{
    if (strncmp(arg, "--", 2) != 0)
        return prazo_usage_error(command, "unknown option '%s'", arg);
    struct prazo_str name = prazo_str_n(arg + 2, strcspn(arg + 2, "="));
    for (; options->name; options++)
        if (prazo_text_is_near(name, prazo_str_z(options->name)))
            return prazo_usage_error(command, "unknown option '%s'; did you mean '--%s'?", arg,
                                     options->name);
    return prazo_usage_error(command, "unknown option '%s'", arg);
}

/* The option's index from 1 stands in `val`; help is 'h'. Returns their number. */
static int to_getopt(const struct prazo_option *options, struct option *to)
{
    int count = 0;
    for (; options[count].name; count++) {
        PRAZO_ASSERT(count + 2 < OPTIONS_MAX);
        to[count] = (struct option){ options[count].name,
                                     options[count].value ? required_argument : no_argument, NULL,
                                     count + 1 };
    }
    to[count] = (struct option){ "help", no_argument, NULL, 'h' };
    to[count + 1] = (struct option){ 0 };
    return count;
}

/* getopt's '?': an unknown, ambiguous or malformed option stands right before optind. */
static int bad_option(const struct prazo_command *command, const struct prazo_option *options,
                      int count, char **argv)
{
    const char *arg = argv[optind - 1];
    if (optopt > 0 && optopt <= count && !options[optopt - 1].value)
        return prazo_usage_error(command, "'--%s' takes no value", options[optopt - 1].name);
    if (optopt == 'h')
        return prazo_usage_error(command, "'--help' takes no value");
    if (optopt > ' ' && optopt < 0x7f)
        return prazo_usage_error(command, "unknown option '-%c'", optopt);
    return unknown_option(command, options, arg);
}

bool prazo_options_parse(const struct prazo_command *command, const struct prazo_option *options,
                         int argc, char **argv, char ***ret_args, int *ret_arg_count, int *ret_exit)
{
    struct option table[OPTIONS_MAX];
    int count = to_getopt(options, table), c;
    opterr = 0;
    optind = 1;
    while ((c = getopt_long(argc, argv, ":h", table, NULL)) != -1) {
        if (c == 'h') {
            print_help(command, options);
            *ret_exit = prazo_finish_stdout(PRAZO_EXIT_OK);
            return false;
        }
        if (c == ':') {
            *ret_exit = prazo_usage_error(command, "'%s' needs a value", argv[optind - 1]);
            return false;
        }
        if (c == '?') {
            *ret_exit = bad_option(command, options, count, argv);
            return false;
        }
        const struct prazo_option *option = &options[c - 1];
        if (option->value)
            *option->ret_text = optarg;
        else
            *option->ret_flag = true;
    }
    *ret_args = argv + optind;
    *ret_arg_count = argc - optind;
    return true;
}

void prazo_print_diag(const struct prazo_buf *diag)
{
    static const char *const kinds[] = { " error: ", " warning: " };
    bool is_colored = has_color(STDERR_FILENO);
    struct prazo_str rest = prazo_buf_str(diag);
    while (rest.len) {
        const char *end = memchr(rest.base, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.base) + 1 : rest.len;
        size_t at = 0, kind_len = 0;
        for (size_t i = 0; is_colored && !kind_len && i < 2; i++) {
            const char *kind = memmem(rest.base, len, kinds[i], strlen(kinds[i]));
            at = kind ? (size_t)(kind - rest.base) : 0;
            kind_len = kind ? strlen(kinds[i]) : 0;
        }
        if (kind_len)
            fprintf(stderr, "%.*s\033[1;31m%.*s\033[0m", (int)at, rest.base, (int)kind_len,
                    rest.base + at);
        fprintf(stderr, "%.*s", (int)(len - at - kind_len), rest.base + at + kind_len);
        rest = prazo_str_n(rest.base + len, rest.len - len);
    }
}

int prazo_finish_stdout(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "prazo: standard output: %s\n", strerror(errno));
    return 1;
}
