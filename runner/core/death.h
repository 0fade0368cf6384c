#pragma once

/* Waits in the loop for a process to end, but not for ever. */

#include <stdbool.h>
#include <uv.h>

struct death;

/* late: it is still there after the limit. Called once, never from within death_watch; the watch is
 * closed by then. */
typedef void (*death_cb)(void *data, bool late);

/* pidfd: borrowed, duplicated. limit_ms: 0 = for ever. 0 or negative errno. */
int death_watch(uv_loop_t *loop, int pidfd, unsigned limit_ms, death_cb cb, void *data,
                struct death **ret);
/* No callback any more; freed by the loop. NULL is fine. */
void death_close(struct death *d);
