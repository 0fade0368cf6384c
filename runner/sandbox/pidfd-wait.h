#pragma once

/* Waits in the loop for the exit of a process, with a time limit. */

#include <stdbool.h>
#include <uv.h>

struct pidfd_wait;

/*
 * late: the process still exists after the limit. Called once, never inside pidfd_wait_start; the
 * wait is closed by then, but pidfd_wait_again may follow from within the call.
 */
typedef void (*pidfd_wait_cb)(void *data, bool late);

/*
 * Starts a wait. pidfd: borrowed, duplicated. limit_ms: 0 = no limit. Returns 0 or a negative
 * errno.
 */
int pidfd_wait_start(uv_loop_t *loop, int pidfd, unsigned limit_ms, pidfd_wait_cb cb, void *data,
                     struct pidfd_wait **ret);
/* From within the callback: waits again for the same process, without a limit. */
int pidfd_wait_again(struct pidfd_wait *d, struct pidfd_wait **ret);
/* Cancels the wait: no callback follows. The loop frees it. d may be NULL. */
void pidfd_wait_close(struct pidfd_wait *d);
