#pragma once

/*
 * The logs of processes: two segments for each output stream. init writes them, and every reader of
 * the sandbox's files may read them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct sandbox;

/*
 * The extent of a stream: logical offsets of the first kept byte and of the end. dropped: the
 * number of bytes that found no room on the disk; they have no offsets.
 */
struct process_log {
    uint64_t first, end, dropped;
};

/* Opens the four segments of a process's log, and empties them if `fresh`. The caller owns fds. */
int logs_open(struct sandbox *s, const char *name, bool fresh, int fds[4], struct err *err);
void logs_remove(struct sandbox *s, const char *name);
/* Creates missing segments of the main process's log. */
int logs_make_main(struct sandbox *s, struct err *err);
/*
 * Opens the main process's log for a new run, and saves the offset at which the run begins. No
 * earlier run may still write. The caller owns fds.
 */
int logs_begin_main(struct sandbox *s, int fds[4], struct err *err);
/* Returns the offset of the last run's beginning in each stream; 0 if it is unknown. */
void logs_main_began(struct sandbox *s, uint64_t ret[2]);
/*
 * As process_read_log and process_log_state, for the two segments of one stream. Returns a negative
 * errno on failure.
 */
ssize_t logs_read(const int fds[2], uint64_t *offset, void *buf, size_t size, uint64_t *ret_lost);
void logs_state(const int fds[2], struct process_log *ret);
