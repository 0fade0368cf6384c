#pragma once

/*
 * What this host can and cannot do for rind: a list of checks, each with what was found, what rind
 * does without it, and the command that fixes it; and which barriers stand around a sandbox of the
 * default policy here. The checks are a table (doctor_checks.c); what they ask the kernel is in
 * sys/probe.h. Nothing of the caller or the host is changed, nothing is left behind.
 *
 * Forks children that run ordinary C: for single-threaded processes. A server runs
 * `rind doctor --json` instead.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json_t;
struct host_rootfs;

enum check_state {
    CHECK_INVALID = 0,
    CHECK_OK,
    CHECK_LIMITED, /* there, but not all of it, or not for everybody */
    CHECK_MISSING,
    CHECK_UNKNOWN, /* cannot be known by this user */
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
    bool required; /* by the default policy: it cannot start a sandbox without this */
    char found[DOCTOR_FOUND_MAX];
    const char *without; /* static: what rind does without it */
    char fix[DOCTOR_FIX_MAX];
};

struct barrier_result {
    const char *name; /* static */
    bool on;          /* false: a start fails rather than go on without it */
    char what[DOCTOR_BARRIER_MAX];
};

struct doctor_report {
    struct check_result *checks; /* owned */
    size_t check_count;
    struct barrier_result *barriers; /* owned */
    size_t barrier_count;
    struct host_rootfs *host; /* owned; what the root file system `host` shows; NULL: its file is
                                 wrong */
    char host_error[DOCTOR_FOUND_MAX];
    bool met; /* no required check is CHECK_MISSING or CHECK_UNKNOWN */
};

/*
 * Asks. state_dir: where images and sandboxes are kept; it need not exist. Negative errno only when
 * rind itself is at fault (memory, its own default policy).
 */
int doctor_run(const char *state_dir, struct doctor_report **ret, struct err *err);
void doctor_free(struct doctor_report *r);

const char *check_state_name(enum check_state state);

/* How a tree of report->host stands: "shown", or why it is not. */
const char *doctor_tree_state(const char *path);

/* The report as JSON; a new reference, or NULL when out of memory. */
struct json_t *doctor_encode(const struct doctor_report *r);
