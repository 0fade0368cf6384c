#pragma once

/* Wall clock and monotonic clock. Deadlines use the latter, as the former can be set back and
 * forth. */

#include <stdint.h>
#include <time.h>

/* Microseconds since the epoch. */
static inline int64_t clock_wall_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Milliseconds since the epoch, for displayed times. */
static inline int64_t clock_wall_ms(void)
{
    return clock_wall_us() / 1000;
}

/* Milliseconds of CLOCK_MONOTONIC, for deadlines. */
static inline int64_t clock_mono_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
