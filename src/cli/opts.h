/* SPDX-License-Identifier: MIT */
/* Options of one command as a table: parsing by GNU conventions (long and short, `=` or the next
 * argument, unique abbreviations, `--`, options after arguments) and --help come from it. */
#ifndef PRAZO_CLI_OPTS_H
#define PRAZO_CLI_OPTS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"

/* Exit codes that commands share; contract 12. */
#define PRAZO_EXIT_OK 0
#define PRAZO_EXIT_CONFIG 1 /* configuration wrong, or its file cannot be read */
#define PRAZO_EXIT_USAGE 2  /* unknown command or option, and: could not start */

struct prazo_option {
    const char *name;      /* long, without dashes; NULL ends a table */
    const char *value;     /* "ADDRESS" as shown in the help; NULL: a flag */
    const char *help;      /* one line */
    const char **ret_text; /* of an option with a value */
    bool *ret_flag;        /* of a flag */
};

struct prazo_command {
    const char *name;
    const char *summary;      /* one line */
    const char *const *usage; /* lines behind "prazo ", NULL at the end */
    const char *details;      /* paragraphs below the options; NULL: none */
    int (*run)(const struct prazo_command *command, int argc, char **argv);
};

extern const struct prazo_command prazo_cmd_run, prazo_cmd_config, prazo_cmd_demo,
    prazo_cmd_version;

/* argv[0] is the command's name. Fills the options' targets and moves the arguments that are no
 * options to the front: *ret_args, *ret_arg_count. False: the command is over, with
 * *ret_exit (--help was given, or the usage is wrong and was explained on stderr). */
bool prazo_options_parse(const struct prazo_command *command, const struct prazo_option *options,
                         int argc, char **argv, char ***ret_args, int *ret_arg_count,
                         int *ret_exit);
/* "prazo run: …" and where help is, on stderr; returns PRAZO_EXIT_USAGE. */
int prazo_usage_error(const struct prazo_command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Messages of a configuration to stderr, `error:` in colour on a terminal. */
void prazo_print_diag(const struct prazo_buf *diag);
/* Flushes stdout. Returns `code`, or 1 with a message if not everything could be written. */
int prazo_finish_stdout(int code);

#endif
