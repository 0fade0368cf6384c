#pragma once

/* Shared by the process-*.c files. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "exec/process.h"

struct err;
struct http_request;

/* The process that {id} and {process} name, and the sandbox's main process as "main": for requests
 * of its log and its end. NULL: the request has been answered. */
struct process *process_requested_or_main(struct http_request *req);
bool process_runs(const struct process *p);
/* Encodes a process for lists and inspection; NULL on OOM. */
json_t *process_encode(const struct process *p);

/* GET …/logs, POST …/wait/exit, …/wait/log, …/wait/port */
void process_get_logs(struct http_request *req);
void process_wait_exit(struct http_request *req);
void process_wait_log(struct http_request *req);
void process_wait_port(struct http_request *req);

/* A request that waits for an event of a process; the first member of the waiter's struct. It
 * counts against maxWatchers. It ends by its deadline, the process's end (unless that is the
 * awaited event), the process's deletion, or when its client is gone: each answers the request,
 * and ops->release follows. */
struct process_waiter;
struct process_waiter_ops {
    /* Called after a change; `ended`: the process has ended. Returns true if the request was
     * answered; before answering the waiter calls process_waiter_end. */
    bool (*changed)(struct process_waiter *w, bool ended);
    void (*stopped)(struct process_waiter *w); /* at once: cancels the waiter's pending work. May
                                                * be NULL */
    void (*release)(struct process_waiter *w); /* frees it */
};

struct process_waiter {
    struct process_watcher watcher; /* first */
    const struct process_waiter_ops *ops;
    struct http_request *req;
    struct process *process; /* NULL once it is not watched any more */
    char id[PROCESS_ID_MAX + 1];
    uv_timer_t deadline;
    unsigned handles;
    bool dead;
    bool deleted; /* the waiter has deleted its process */
};

enum { PROCESS_WAIT_ANY = -1 /* no deadline */ };

/* Starts waiting: takes over req on success, and checks at once whether the awaited event has
 * happened. On failure the request was answered, and the caller frees w. */
int process_waiter_begin(struct process_waiter *w, struct http_request *req, struct process *p,
                         int64_t timeout_ms, const struct process_waiter_ops *ops);
/* Releases everything; ops->release follows from the loop. The caller answers the request.
 * Idempotent. */
void process_waiter_end(struct process_waiter *w);
/* Ends the wait and answers with an error. */
void process_waiter_fail(struct process_waiter *w, const struct err *err);
