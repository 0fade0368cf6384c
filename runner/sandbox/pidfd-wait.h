#pragma once

/* Waits in the loop for a process to end, but not for ever. */

#include <stdbool.h>
#include <uv.h>

struct pidfd_wait;

/* late: it is still there after the limit. Called once, never from within pidfd_wait_start; the
 * watch is closed by then. */
typedef void (*pidfd_wait_cb)(void *data, bool late);

/* pidfd: borrowed, duplicated. limit_ms: 0 = for ever. 0 or negative errno. */
int pidfd_wait_start(uv_loop_t *loop, int pidfd, unsigned limit_ms, pidfd_wait_cb cb, void *data,
                     struct pidfd_wait **ret);
/* No callback any more; freed by the loop. NULL is fine. */
void pidfd_wait_close(struct pidfd_wait *d);
