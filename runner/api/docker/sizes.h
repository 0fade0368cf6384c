#pragma once

/* Puts the disk space of containers and volumes into their encoded forms. The files of both are
 * hostile, so that a worker counts them (images/disk-size.h); only where a client asks for it. */

#include <jansson.h>
#include <stdbool.h>

#include "http/route.h"

struct err;

struct docker_sizes {
    /* Arrays of objects with "Id"; each gets "SizeRw", and "SizeRootFs" if it has an image. May be
     * NULL. */
    json_t *containers;
    /* Arrays of objects with "Name" and "UsageData", which gets "Size". May be NULL. */
    json_t *volumes;
    /* For a prune: recent results are not enough, and of a tree that is too large to be counted in
     * time the counted part is better than -1. */
    bool prune;
};

/* Called once, from the loop, never inside docker_sizes_put. What could not be counted is -1. */
typedef void (*docker_sizes_cb)(void *data);

/* Counts for the peer, which may use all of these. Takes references to the arrays. */
int docker_sizes_put(struct http_request *req, const struct docker_sizes *what, docker_sizes_cb cb,
                     void *data, struct err *err);
