/* SPDX-License-Identifier: MIT */
/* Error numbers of libprazo: one table gives number, name and text.
 *
 * Functions that can fail return int: PRAZO_OK (0) or one of these negative numbers.
 * Verdicts of a policy (admit, refuse, …) are enums of their own, never errors.
 * Thread-safe: constant data only. */
#ifndef PRAZO_ERR_H
#define PRAZO_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

#define PRAZO_ERR_MAP(X)                                                                           \
    X(NOMEM, -1, "out of memory")                                                                  \
    X(INVALID, -2, "invalid argument or malformed input")                                          \
    X(TOO_LARGE, -3, "larger than its limit")                                                      \
    X(AGAIN, -4, "would block")                                                                    \
    X(EOF, -5, "the peer has finished sending")                                                    \
    X(RESET, -6, "connection reset or broken")                                                     \
    X(REFUSED, -7, "connection refused")                                                           \
    X(UNREACHABLE, -8, "host or network unreachable")                                              \
    X(TIMEOUT, -9, "timed out")                                                                    \
    X(NOT_FOUND, -10, "not found")                                                                 \
    X(IN_USE, -11, "address already in use")                                                       \
    X(DENIED, -12, "permission denied")                                                            \
    X(NO_FDS, -13, "out of file descriptors")                                                      \
    X(RESOLVE, -14, "name could not be resolved")                                                  \
    X(CANCELLED, -15, "cancelled")                                                                 \
    X(EXISTS, -16, "exists already")                                                               \
    X(IO, -17, "input/output error")                                                               \
    X(UNSUPPORTED, -18, "not supported")

enum prazo_err {
    PRAZO_OK = 0,
#define X(name, number, text) PRAZO_E_##name = (number),
    PRAZO_ERR_MAP(X)
#undef X
};

/* The symbolic name ("PRAZO_E_NOMEM"), or "PRAZO_E_UNKNOWN". Static storage. */
const char *prazo_err_name(int err);

/* A short English text without a full stop, or "unknown error". Static storage. */
const char *prazo_strerror(int err);

#ifdef __cplusplus
}
#endif
#endif
