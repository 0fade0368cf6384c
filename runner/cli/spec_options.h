#pragma once

/* The options that describe a new sandbox: for every verb that makes one. */

#include <jansson.h>

#include "cli/attached.h"
#include "cli/remote.h"

struct err;
struct spec;

struct sandbox_args {
    struct remote remote;             /* first */
    struct spec *spec;                /* borrowed; filled by the options */
    struct attached_options attached; /* detach alone: the keys */
    bool remove;                      /* --rm */
    bool alone, detach;               /* of run: --alone, --detach */
};

extern const struct opt root_options[], command_options[], limit_options[], isolation_options[];
/* What only a sandbox that the daemon keeps has. */
extern const struct opt kept_options[];

/* What the daemon is asked to make: host paths made absolute, links in them resolved by who asks.
 * -EILSEQ: something is no text that JSON can hold. */
int spec_request(const struct spec *spec, json_t **ret, struct err *err);

/* -EINVAL: --rm and --restart, which exclude one another. */
int spec_check_remove(const struct sandbox_args *args, struct err *err);

/*
 * What stands behind the options. With `--rootfs` or `--image`, or behind `--` (dashes), all of it
 * is the command; else the first names an image. Refuses an empty command where there is no image.
 */
int spec_operands(struct spec *spec, char **operands, bool dashes, struct err *err);
