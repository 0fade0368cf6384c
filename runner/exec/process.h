#pragma once

/* A named background process: an exec whose output init logs, with or without a supervisor. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/exec.h"
#include "sandbox/logs.h"

struct err;
struct process;
struct sandbox;

enum {
    PROCESS_ID_MAX = 63,
    PROCESS_INPUT_MAX = 64 << 10, /* bytes: what a socket takes at once */
};
enum process_state {
    PROCESS_INVALID = 0,
    PROCESS_STARTING,
    PROCESS_RUNNING,
    PROCESS_EXITED,
    PROCESS_KILLED,
    PROCESS_FAILED,
    PROCESS_LOST,
    PROCESS_STATE_MAX
};
enum { PROCESS_STDOUT = 0, PROCESS_STDERR = 1 };

typedef void (*process_cb)(void *data, int r, const struct err *err);

/* Starts it; id NULL = made. cb when execve worked or did not. *ret borrowed, valid until the
 * process is deleted. -EEXIST. */
int process_start(struct sandbox *s, const char *id, const struct exec_options *o, process_cb cb,
                  void *data, struct process **ret, struct err *err);
/* What stdin says, and then its end: at most PROCESS_INPUT_MAX bytes, and with_stdin must have been
 * set. To be called right after process_start. -ENOMEM: the process is killed. */
int process_give_input(struct process *p, const void *data, size_t len, struct err *err);
struct process *process_find(struct sandbox *s, const char *id);
/* The main process as one whose log can be read and waited for; borrowed, and neither listed nor
 * deleted as others are. -ENOENT: the sandbox has none. -EINVAL: it has no log. */
int process_main(struct sandbox *s, struct process **ret, struct err *err);
struct process *process_first(struct sandbox *s);
struct process *process_next(struct process *p);
struct sandbox *process_sandbox(const struct process *p);
/* group: to its process group, as a terminal does; SIGKILL then to everything that it has started.
 * -EBUSY: it has ended. */
int process_kill(struct process *p, int signo, bool group, struct err *err);
/* Forgets an ended one with its logs. -EBUSY while it runs. */
int process_delete(struct process *p, struct err *err);

struct process_info {
    const char *id;
    char *const *argv;
    pid_t pid;
    enum process_state state;
    int exit_code; /* -1 = none */
    bool timed_out;
    int64_t started_ms, finished_ms;
};
void process_get_info(const struct process *p, struct process_info *ret);
const char *process_state_name(enum process_state state);

/*
 * Reads a stream's log from a logical offset: at most `size` bytes into buf; returns the count (0 =
 * nothing newer yet). *offset is moved to the first byte that is still there and past what was
 * read; *ret_lost: how many bytes between the asked offset and that one are gone (rotated away or
 * dropped).
 */
ssize_t process_read_log(struct process *p, int stream, uint64_t *offset, void *buf, size_t size,
                         uint64_t *ret_lost, struct err *err);

void process_log_state(const struct process *p, int stream, struct process_log *ret);
/* Where in each stream its last run begins. A main process's log goes on over runs; any other has
 * had one. */
void process_run_offsets(const struct process *p, uint64_t ret[2]);

enum process_watched { PROCESS_KEPT = 0, PROCESS_DELETED };

/*
 * Woken when a log has grown or the process has ended. Must say when it has deleted the process,
 * and do that last. p is NULL: it was deleted (it is no longer watched then).
 */
struct process_watcher {
    enum process_watched (*on_change)(struct process_watcher *w, struct process *p);
    struct process_watcher *next, **link;
};
int process_watch(struct process *p, struct process_watcher *w, struct err *err);
void process_unwatch(struct process *p, struct process_watcher *w);

/* ---- for the table of parts ---- */

/* The main process has ended. */
void process_main_ended(struct sandbox *s);
/* Takes up the records on disk after an adoption; those that init does not know are lost. */
void process_load_all(struct sandbox *s);
void process_free_all(struct sandbox *s);
