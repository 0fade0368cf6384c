#pragma once

/* What the process-*.c files share. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/process.h"

struct err;
struct http_request;

/* The process that {id} and {process} name, and the sandbox's main process as "main": for requests
 * of its log and its end. NULL: the request has been answered. */
struct process *process_requested_or_main(struct http_request *req);
bool process_runs(const struct process *p);
/* As lists and inspection show it; NULL on OOM. */
json_t *process_encode(const struct process *p);

/* GET …/logs, POST …/wait/exit, …/wait/log, …/wait/port */
void process_get_logs(struct http_request *req);
void process_wait_exit(struct http_request *req);
void process_wait_log(struct http_request *req);
void process_wait_port(struct http_request *req);

/*
 * A request that waits for something to happen to a process, in the first member of the waiter's
 * own struct. It is counted against maxWatchers, and ends by its deadline, by the process's end
 * (where the waiter does not take that for an answer), by the process's deletion, or with its
 * client: each of these answers the request and then calls ops->release.
 */
struct process_waiter;
struct process_waiter_ops {
    /* Something happened; `ended`: the process has. Returns whether the request has been answered
     * (the waiter then calls process_waiter_end itself, before). */
    bool (*changed)(struct process_waiter *w, bool ended);
    void (*stopped)(struct process_waiter *w); /* at once: nothing else may happen. May be NULL */
    void (*release)(struct process_waiter *w); /* frees it */
};

struct process_waiter {
    struct process_watcher watcher; /* first */
    const struct process_waiter_ops *ops;
    struct http_request *req;
    struct process *process; /* NULL once it is no longer watched */
    char id[PROCESS_ID_MAX + 1];
    uv_timer_t deadline;
    unsigned handles;
    bool dead;
    bool deleted; /* it has deleted its process */
};

enum { PROCESS_WAIT_ANY = -1 /* no deadline */ };

/*
 * Begins: takes req over on success, and looks at once whether what is waited for is there already.
 * On failure nothing is taken, the request has been answered, and w is the caller's to free.
 */
int process_waiter_begin(struct process_waiter *w, struct http_request *req, struct process *p,
                         int64_t timeout_ms, const struct process_waiter_ops *ops);
/* Lets go of everything; ops->release follows from the loop. The request is to be answered by the
 * caller. Idempotent. */
void process_waiter_end(struct process_waiter *w);
/* Ends and answers with an error. */
void process_waiter_fail(struct process_waiter *w, const struct err *err);
