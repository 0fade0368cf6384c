#pragma once

/* One sandbox, supervised by this process from its start to its removal: `rind run` without a
 * daemon. */

#include <stdbool.h>

struct err;
struct spec;

struct core_config {
    const char *state_dir, *runtime_dir; /* absolute */
    bool debug;
    /* NULL, or called with the sandbox's id when its init runs. A negative errno ends the run. */
    int (*on_id)(void *data, const char *id, struct err *err);
    void *data;
};

/*
 * Runs spec's command and removes the sandbox. Its anonymous volumes are given names. Our stdin
 * (when interactive), stdout and stderr are the command's, through pipes or a pty that belong to
 * the sandbox; signals are forwarded. Returns 0 with the command's exit status in *ret_status
 * (128+n when signal n ended it), or a negative errno with err set and *ret_status 125, or 126/127
 * when the command could not be executed or found, or 137 when the whole sandbox was killed (by its
 * memory limit, or from outside).
 */
int core_run(const struct core_config *cfg, struct spec *spec, int *ret_status, struct err *err);
