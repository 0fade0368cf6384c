#pragma once

/*
 * Health checks: a command that is run in a running sandbox now and then, as the spec or its image
 * says. What comes of them is shown and told by events ("health"); nothing is done about it.
 */

#include <stdint.h>

struct sandbox;

enum health_status {
    HEALTH_NONE = 0,
    HEALTH_STARTING,
    HEALTH_HEALTHY,
    HEALTH_UNHEALTHY,
    HEALTH_MAX
};

enum {
    HEALTH_INTERVAL_MS = 30000, /* where none is said */
    HEALTH_TIMEOUT_MS = 30000,
    HEALTH_START_INTERVAL_MS = 5000,
    HEALTH_RETRIES = 3,
    HEALTH_LOG = 5,           /* checks that are remembered */
    HEALTH_OUTPUT_MAX = 4096, /* bytes of what one says; the rest is dropped */
};

struct health_check_result {
    int64_t started_ms, ended_ms;
    int exit_code; /* -1: it could not be run, or was ended for its timeout */
    char *output;  /* owned; NUL-terminated; NULL = nothing */
};

struct health_info {
    enum health_status status;
    int64_t failing_streak;
    struct health_check_result log[HEALTH_LOG]; /* oldest first */
    unsigned count;                             /* of log */
};

const char *health_status_name(enum health_status status);
/* Begins, when the main process runs and the spec has a check; again: begins anew. */
void health_begin(struct sandbox *s);
/* The main process runs no more. What was found last stays to be shown. */
void health_end(struct sandbox *s);
/* Called when the sandbox is freed. */
void health_free(struct sandbox *s);
/* Borrowed; NULL: it has no check, or has never run. */
const struct health_info *sandbox_health(const struct sandbox *s);
