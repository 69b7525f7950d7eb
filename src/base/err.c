/* SPDX-License-Identifier: MIT */
/* Names and texts of the error numbers, both from PRAZO_ERR_MAP. */
#include "prazo/err.h"

const char *prazo_err_name(int err)
{
    switch (err) {
    case PRAZO_OK:
        return "PRAZO_OK";
#define X(name, number, text)                                                                      \
    case number:                                                                                   \
        return "PRAZO_E_" #name;
        PRAZO_ERR_MAP(X)
#undef X
    default:
        return "PRAZO_E_UNKNOWN";
    }
}

const char *prazo_strerror(int err)
{
    switch (err) {
    case PRAZO_OK:
        return "no error";
#define X(name, number, text)                                                                      \
    case number:                                                                                   \
        return text;
        PRAZO_ERR_MAP(X)
#undef X
    default:
        return "unknown error";
    }
}
