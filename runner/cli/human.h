#pragma once

/* Numbers and times as people read them. Each writes at most HUMAN_MAX bytes, its NUL included, and
 * returns the buffer. */

#include <stdint.h>

enum { HUMAN_MAX = 32 };

/* "512 B", "1.5 MiB": three digits at least where there are so many. */
const char *human_bytes(uint64_t n, char buf[HUMAN_MAX]);
/* "12 s", "3 min", "5 h", "2 d": the largest unit that is one at least. */
const char *human_seconds(int64_t seconds, char buf[HUMAN_MAX]);
/* How long ago an RFC 3339 time in UTC was, as of now_ms; "-" for NULL and what is none. */
const char *human_ago(const char *time, int64_t now_ms, char buf[HUMAN_MAX]);
/* "2006-01-02T15:04:05.678Z" in milliseconds since 1970; -1. */
int64_t human_parse_time(const char *time);
