#pragma once

/* What the files of the image resources share. */

#include <stdbool.h>

#include "api/route.h"
#include "image/reference.h"

struct err;
struct http_request;
struct image;

http_handler_fn docker_post_load, docker_post_image_create, docker_get_save, docker_get_save_one;

void docker_image_fail(struct http_request *req, const char *name, int r, const struct err *err);
/* "name", "name:tag" or "name@sha256:…". */
void docker_join_name(const char *repo, const char *tag, char ret[REFERENCE_MAX + 1]);
/* Whether what was asked for ("linux/amd64"; NULL or "": anything) is this architecture of Linux,
 * as image configurations spell it. variant: NULL = none. */
bool docker_is_platform(const char *platform, const char *architecture, const char *variant);
/* The same of an image; one that does not say its own is of any. */
bool docker_is_image_platform(const char *platform, const struct image *image);
/* Whether a name ("a/b:1") matches a pattern with "*" and "?" in it: as a whole, without its tag,
 * or in its last component. */
bool docker_glob_name(const char *pattern, const char *name);
