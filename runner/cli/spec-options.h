#pragma once

/* The options that describe a new sandbox, shared by the verbs that create one. */

#include <jansson.h>

#include "cli/attached.h"
#include "cli/cidfile.h"
#include "cli/remote.h"

struct err;
struct spec;

struct sandbox_args {
    struct remote remote;             /* first */
    struct spec *spec;                /* borrowed; filled by the options */
    struct attached_options attached; /* only `detach`, the keys, is used */
    bool remove;                      /* --rm */
    bool alone, detach;               /* for run: --alone, --detach */
    struct cidfile cidfile;           /* --cidfile */
};

extern const struct opt root_options[], command_options[], limit_options[], isolation_options[];
/* Options of sandboxes that the daemon keeps. */
extern const struct opt kept_options[];

/*
 * Encodes the request for the daemon. Host paths are made absolute, and their symbolic links
 * resolved with the caller's rights. -EILSEQ: a text is not UTF-8.
 */
int spec_request(const struct spec *spec, json_t **ret, struct err *err);

/* -EINVAL: --rm and --restart exclude each other. */
int spec_check_remove(const struct sandbox_args *args, struct err *err);

/*
 * Handles the operands. With `--rootfs` or `--image`, or after `--` (dashes), all of them are the
 * command; else the first is an image. An empty command without an image is an error.
 */
int spec_operands(struct spec *spec, char **operands, bool dashes, struct err *err);
