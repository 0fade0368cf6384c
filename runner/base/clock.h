#pragma once

/* The two clocks. Deadlines are of the second: the first is what people set, back and forth. */

#include <stdint.h>
#include <time.h>

/* Microseconds since the epoch. */
static inline int64_t clock_wall_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Milliseconds since the epoch, for stamps that people read. */
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
