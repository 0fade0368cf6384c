#pragma once

/* The options that describe a new sandbox: for every verb that makes one. */

#include "cli/cli.h"

struct spec;

struct sandbox_args {
    struct globals globals;
    struct spec *spec; /* borrowed; filled by the options */
    bool remove;       /* --rm */
};

extern const struct opt root_options[], command_options[], limit_options[], isolation_options[];

/*
 * What stands behind the options. With `--rootfs`, or behind `--`, all of it is the command.
 * (Images will be named by the first operand, as docker users expect, when neither is there.)
 * Refuses an empty command.
 */
int spec_operands(struct spec *spec, const struct opt_rest *rest, struct err *err);
