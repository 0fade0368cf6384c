#pragma once

/*
 * What a client asks of a new process, for execs and for background processes: one table of keys
 * each. Command, environment, working directory and user go through a spec's own parsers, so that
 * both say the same about the same.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/exec.h"

struct buf;
struct err;
struct http_request;
struct sandbox;
struct spec;

enum {
    EXEC_BODY_MAX = 6 << 20,  /* bytes of JSON: argv and env of 2 MiB, and stdin */
    EXEC_STDIN_MAX = 4 << 20, /* bytes of a stdin that is given beforehand */
    EXEC_SIDE_MAX = 65535,    /* rows or columns */
    EXEC_ID_MAX = 63,         /* bytes of a process's id */
};
#define EXEC_TIMEOUT_MAX (INT64_C(1) << 40) /* ms; 34 years */

/* How an exec's output comes back. */
enum exec_mode {
    EXEC_MODE_AUTO = 0, /* by the headers: Upgrade, Accept: text/event-stream, else buffered */
    EXEC_MODE_BUFFERED,
    EXEC_MODE_EVENTS,
    EXEC_MODE_STREAM,
};

enum exec_body_kind { EXEC_BODY_EXEC = 1, EXEC_BODY_PROCESS };

struct exec_body {
    struct spec *spec; /* owned; its argv, env, cwd and user are set */
    char *id;          /* owned; NULL = made (processes) */
    char *input;       /* owned; NULL = none: what stdin says, then its end */
    size_t input_len;
    int mode; /* enum exec_mode */
    int input_encoding;
    int64_t timeout_ms; /* LIMIT_UNSET = none */
    int64_t max_output; /* bytes of each stream; -1 = the supervisor's */
    int64_t rows, cols; /* 0 = the default size */
    bool tty, combined, keep, own, detach, idle, has_command;
};

/* Its stdin as what exec_io_give takes; the request's own body, which has been decoded, makes room
 * for it. -EAGAIN: the budget of what is held for clients has none. */
int exec_body_input(const struct exec_body *body, struct http_request *req, struct buf *ret,
                    struct err *err);
/* The body of req; *ret is to be freed by exec_body_done also on failure. -EINVAL, -ERANGE, -E2BIG,
 * -EMEDIUMTYPE, -ENOMEM. */
int exec_body_read(const struct http_request *req, enum exec_body_kind kind, struct exec_body *ret,
                   struct err *err);
void exec_body_done(struct exec_body *b);
/* A whole handler: the sandbox, the body, and `start` with both; what is negative of it is the
 * answer. */
void exec_body_post(struct http_request *req, enum exec_body_kind kind,
                    int (*start)(struct http_request *req, struct sandbox *s,
                                 const struct exec_body *body, struct err *err));
/* What core is asked for; strings belong to b. */
void exec_body_options(const struct exec_body *b, struct exec_options *ret);

/* What a client asks of a signal: {"signal":"TERM"} or a number, and "group":false for the process
 * alone. */
struct exec_kill {
    int signo;
    bool group; /* the process group; SIGKILL: everything that it has started */
};
/* signo: what is meant when the body names none; 0 = it must. */
int exec_kill_read(const struct http_request *req, int signo, struct exec_kill *ret,
                   struct err *err);
