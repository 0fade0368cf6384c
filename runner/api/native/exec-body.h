#pragma once

/* Decodes the request for a new process: a table for execs and one for background processes.
 * Command, environment, working directory and user are parsed by the spec's own functions, so
 * errors are the same everywhere. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/exec.h"

struct buf;
struct err;
struct http_request;
struct sandbox;
struct spec;

enum {
    EXEC_BODY_MAX = 6 << 20,  /* bytes of JSON: 2 MiB of argv and env, plus stdin */
    EXEC_STDIN_MAX = 4 << 20, /* bytes of stdin in the body */
    EXEC_SIDE_MAX = 65535,    /* rows or columns */
    EXEC_ID_MAX = 63,         /* bytes of a process id */
};
#define EXEC_TIMEOUT_MAX (INT64_C(1) << 40) /* ms; 34 years */

/* The format of an exec's output. */
enum exec_mode {
    EXEC_MODE_AUTO = 0, /* by headers: Upgrade, Accept: text/event-stream, else buffered */
    EXEC_MODE_BUFFERED,
    EXEC_MODE_EVENTS,
    EXEC_MODE_STREAM,
};

enum exec_body_kind { EXEC_BODY_EXEC = 1, EXEC_BODY_PROCESS };

struct exec_body {
    struct spec *spec; /* owned; its argv, env, cwd and user are set */
    char *id;          /* owned; NULL = generated (processes) */
    char *input;       /* owned; NULL = none: written to stdin, then EOF */
    size_t input_len;
    int mode; /* enum exec_mode */
    int input_encoding;
    int64_t timeout_ms; /* LIMIT_UNSET = none */
    int64_t max_output; /* bytes per stream; -1 = the supervisor's limit */
    int64_t rows, cols; /* 0 = the default size */
    bool tty, combined, keep, own, detach, idle, has_command;
};

/* Copies the stdin of the body for exec_io_give and frees the request's own body, which has been
 * decoded, to make room. -EAGAIN: the budget for buffered bytes is exhausted. */
int exec_body_input(const struct exec_body *body, struct http_request *req, struct buf *ret,
                    struct err *err);
/* Decodes the body of req; the caller frees *ret by exec_body_done, also on failure. -EINVAL,
 * -ERANGE, -E2BIG, -EMEDIUMTYPE, -ENOMEM. */
int exec_body_read(const struct http_request *req, enum exec_body_kind kind, struct exec_body *ret,
                   struct err *err);
void exec_body_done(struct exec_body *b);
/* A complete handler: looks up the sandbox, decodes the body and calls `start`, whose errors are
 * answered. */
void exec_body_post(struct http_request *req, enum exec_body_kind kind,
                    int (*start)(struct http_request *req, struct sandbox *s,
                                 const struct exec_body *body, struct err *err));
/* Fills core's options; their strings belong to b. */
void exec_body_options(const struct exec_body *b, struct exec_options *ret);

/* A request to send a signal: {"signal":"TERM"} or a number, and "group":false for the process
 * alone. */
struct exec_kill {
    int signo;
    bool group; /* to the process group; with SIGKILL: to all descendants */
};
/* signo: the default; 0 = the body must name one. */
int exec_kill_read(const struct http_request *req, int signo, struct exec_kill *ret,
                   struct err *err);
