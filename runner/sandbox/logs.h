#pragma once

/* The logs of processes: four segments each, two a stream, which init writes and anyone with the
 * sandbox reads. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct sandbox;

/* What there is of a stream: logical offsets of the first byte that is kept and behind the last
 * one. dropped: bytes that found no room on the disk; they have no offsets. */
struct process_log {
    uint64_t first, end, dropped;
};

/* The four segments of a process's log, made empty (or as they are). */
int logs_open(struct sandbox *s, const char *name, bool fresh, int fds[4], struct err *err);
void logs_remove(struct sandbox *s, const char *name);
/* Makes what is missing of the main process's. */
int logs_make_main(struct sandbox *s, struct err *err);
/* Opens them for a run that begins, and keeps where that is, over a crash of the supervisor, too.
 * No earlier run may go on writing. */
int logs_begin_main(struct sandbox *s, int fds[4], struct err *err);
/* Where in each stream the last run has begun; 0 where that is not known. */
void logs_main_began(struct sandbox *s, uint64_t ret[2]);
/* As process_read_log and process_log_state, of the two segments of a stream; a negative errno. */
ssize_t logs_read(const int fds[2], uint64_t *offset, void *buf, size_t size, uint64_t *ret_lost);
void logs_state(const int fds[2], struct process_log *ret);
