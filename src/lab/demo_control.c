/* SPDX-License-Identifier: MIT */
/* The demo service's settings from and to JSON. Strict: a misspelt member that was silently ignored
 * would leave an experiment running on other numbers than its plan says. */
#include "lab/demo_control.h"

#include <inttypes.h>
#include <math.h>

#include <jansson.h>

#include "prazo/err.h"

#include "lab/demo.h"

static int refuse(struct prazo_buf *error, const char *expected)
{
    (void)prazo_buf_add_z(error, expected);
    return PRAZO_E_INVALID;
}

static int read_service(struct prazo_demo_settings *to, const json_t *value,
                        struct prazo_buf *error)
{
    double us = json_is_number(value) ? json_number_value(value) * 1000.0 : -1.0;
    if (!(us >= 0.0 && us <= (double)PRAZO_DEMO_SERVICE_US_MAX))
        return refuse(error, "service_ms has to be a number from 0 to 3600000");
    to->service_us = (int64_t)llround(us);
    return PRAZO_OK;
}

static int read_workers(struct prazo_demo_settings *to, const json_t *value,
                        struct prazo_buf *error)
{
    json_int_t count = json_integer_value(value); /* 0 for any other type */
    if (count < 1 || count > (json_int_t)PRAZO_DEMO_WORKERS_MAX)
        return refuse(error, "workers has to be a whole number from 1 to 100000");
    to->workers = (unsigned)count;
    return PRAZO_OK;
}

static int read_ignore_cancel(struct prazo_demo_settings *to, const json_t *value,
                              struct prazo_buf *error)
{
    if (!json_is_boolean(value))
        return refuse(error, "ignore_cancel has to be true or false");
    to->ignores_cancel = json_is_true(value);
    return PRAZO_OK;
}

static const struct {
    const char *name;
    int (*read)(struct prazo_demo_settings *to, const json_t *value, struct prazo_buf *error);
} members[] = {
    { "service_ms", read_service },
    { "workers", read_workers },
    { "ignore_cancel", read_ignore_cancel },
};

static int read_member(struct prazo_demo_settings *to, const char *name, const json_t *value,
                       struct prazo_buf *error)
{
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        if (strcmp(members[i].name, name) == 0)
            return members[i].read(to, value, error);
    }
    (void)prazo_buf_addf(
        error, "unknown member \"%.40s\"; expected service_ms, workers or ignore_cancel", name);
    return PRAZO_E_INVALID;
}

int prazo_demo_settings_read(struct prazo_demo_settings *settings, struct prazo_str json,
                             struct prazo_buf *error)
{
    json_error_t at;
    json_t *root = json_loadb(json.base ? json.base : "", json.len, JSON_REJECT_DUPLICATES, &at);
    if (!root) {
        (void)prazo_buf_addf(error, "malformed JSON at line %d, column %d: %s", at.line, at.column,
                             at.text);
        return PRAZO_E_INVALID;
    }
    struct prazo_demo_settings changed = *settings;
    int err = PRAZO_OK;
    if (!json_is_object(root))
        err = refuse(error, "expected a JSON object such as {\"service_ms\":4000}");
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value)
    {
        err = read_member(&changed, name, value, error);
        if (err)
            break;
    }
    json_decref(root);
    if (!err)
        *settings = changed;
    return err;
}

int prazo_demo_settings_write(const struct prazo_demo_settings *settings, struct prazo_buf *to)
{
    /* 13 digits: the largest mean in µs has ten, so none is lost and none is made up. */
    return prazo_buf_addf(to, "{\"service_ms\":%.13g,\"workers\":%u,\"ignore_cancel\":%s}\n",
                          (double)settings->service_us / 1000.0, settings->workers,
                          settings->ignores_cancel ? "true" : "false");
}
