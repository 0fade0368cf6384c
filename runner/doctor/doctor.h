#pragma once

/*
 * Reports what this host can and cannot do for rind. The report is a list of checks: each says what
 * was found, what rind does without it, and the command that fixes it. It also lists the barriers
 * around a sandbox of the default policy on this host. The checks are a table (doctor-checks.c);
 * their kernel probes are in sys/probe.h. The checks leave the caller and the host unchanged.
 *
 * Forks children that run ordinary C, so the process must be single-threaded. A server runs `rind
 * doctor --json` instead.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json_t;
struct host_rootfs;

enum check_state {
    CHECK_INVALID = 0,
    CHECK_OK,
    CHECK_LIMITED, /* available, but not fully, or not to every user */
    CHECK_MISSING,
    CHECK_UNKNOWN, /* this user is not permitted to find out */
    CHECK_STATE_MAX
};

enum {
    DOCTOR_FOUND_MAX = 200,
    DOCTOR_FIX_MAX = 240,
    DOCTOR_BARRIER_MAX = 160,
};

struct check_result {
    const char *name;  /* static: stable, for programs */
    const char *title; /* static: for people */
    const char *group; /* static */
    enum check_state state;
    bool required; /* the default policy cannot start a sandbox without it */
    char found[DOCTOR_FOUND_MAX];
    const char *without; /* static: what rind does without it */
    char fix[DOCTOR_FIX_MAX];
};

struct barrier_result {
    const char *name; /* static */
    bool on;          /* false: a start fails; rind never starts a sandbox without the barrier */
    char what[DOCTOR_BARRIER_MAX];
};

struct doctor_report {
    struct check_result *checks; /* owned */
    size_t check_count;
    struct barrier_result *barriers; /* owned */
    size_t barrier_count;
    struct host_rootfs *host; /* owned; root file system `host`; NULL: its file is invalid */
    char host_error[DOCTOR_FOUND_MAX];
    bool met; /* no required check is CHECK_MISSING or CHECK_UNKNOWN */
};

/*
 * Runs all checks; blocks while the probes run. state_dir: where images and sandboxes are kept; it
 * need not exist. A negative errno means that rind itself failed (out of memory, invalid default
 * policy).
 */
int doctor_run(const char *state_dir, struct doctor_report **ret, struct err *err);
void doctor_free(struct doctor_report *r);

const char *check_state_name(enum check_state state);

/* State of one tree of report->host: "shown", or the reason why it is not. */
const char *doctor_tree_state(const char *path);

/* Encodes the report as JSON. Returns a new reference, or NULL when out of memory. */
struct json_t *doctor_encode(const struct doctor_report *r);
