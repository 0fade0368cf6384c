#pragma once

/* The body of a commit, Docker's container.Config, as changes of the image's configuration
 * (image/config.h). Pure. */

#include <jansson.h>

struct err;

/* *ret: owned, NULL-terminated (json_strings_free). What a
 * Config has beside the image's part (terminal, streams, host name) is ignored, as in Docker.
 * -EINVAL. */
int commit_config_changes(json_t *body, char ***ret, struct err *err);
