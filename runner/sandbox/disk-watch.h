#pragma once

/*
 * Keeps the reserve of the host's disk (limits.diskReserveBytes) against writers that run. The
 * daemon looks at the free space of the state directory's file system, more often the less there
 * is. Below the reserve it asks the launcher what each running sandbox writes, and freezes those
 * that write on:
 *
 *   below the reserve      those that no size bounds: without a disk limit, or with a writable
 *                          directory of the host or volume without a size
 *   below half of it       any
 *
 * Sandboxes that write nothing run on. A frozen one goes on when there is room again, when a client
 * resumes it (and is frozen again if it writes), or when it is stopped; one that writes on while it
 * is being stopped is ended at once.
 */

#include <stdbool.h>
#include <stdint.h>

struct err;
struct sandbox;
struct supervisor;
struct disk_watch;

/* Begins to watch. */
int disk_watch_new(struct supervisor *sup, struct disk_watch **ret, struct err *err);
void disk_watch_close(struct disk_watch *w);
/* True while less than the reserve is free. */
bool disk_is_low(const struct supervisor *sup);

/* ---- pure, for the tests ---- */

/* Until the next look: the time in which a fast disk could fill the space above the reserve. */
unsigned disk_watch_wait_ms(uint64_t free_bytes, uint64_t reserve);
/* What a sandbox may still write below the reserve before it is frozen. */
uint64_t disk_watch_allowance(uint64_t reserve);
/* With so much free, a watch that was low is no more. */
bool disk_watch_is_over(uint64_t free_bytes, uint64_t reserve);
