#pragma once

/*
 * Formats numbers and times for people. Each function writes at most HUMAN_MAX bytes, including the
 * NUL, and returns buf.
 */

#include <stdint.h>

enum { HUMAN_MAX = 32 };

/* "512 B", "1.5 MiB": at least three significant digits if there are as many. */
const char *human_bytes(uint64_t n, char buf[HUMAN_MAX]);
/* "12 s", "3 min", "5 h", "2 d": the largest unit with a value of at least one. */
const char *human_seconds(int64_t seconds, char buf[HUMAN_MAX]);
/* Time from an RFC 3339 time in UTC to now_ms; "-" for NULL and invalid text. */
const char *human_ago(const char *time, int64_t now_ms, char buf[HUMAN_MAX]);
/* Parses "2006-01-02T15:04:05.678Z" to milliseconds since 1970; -1 if invalid. */
int64_t human_parse_time(const char *time);
