#pragma once

/* Shared by the files of the image resources. */

#include <stdbool.h>

#include "http/route.h"
#include "image/reference.h"

struct err;
struct http_request;
struct image;

http_handler_fn docker_post_load, docker_post_image_create, docker_get_save, docker_get_save_one;

void docker_image_fail(struct http_request *req, const char *name, int r, const struct err *err);
/* Joins to "name", "name:tag" or "name@sha256:…". */
void docker_join_name(const char *repo, const char *tag, char ret[REFERENCE_MAX + 1]);
/* True if the image fits the requested platform ("linux/amd64"; NULL or "": any). An image without
 * an architecture fits each. */
bool docker_is_image_platform(const char *platform, const struct image *image);
/* True if a name ("a/b:1") matches a pattern with "*" and "?", as a whole or without its tag. */
bool docker_glob_name(const char *pattern, const char *name);
