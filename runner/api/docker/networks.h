#pragma once

#include "api/docker/common.h"

/* The network that a client calls so, by name, id, or the beginning of one: "bridge", "none", one
 * that somebody has made, or that a container names. -ENOENT, -ENOTUNIQ. */
int docker_network_find(struct http_request *req, const char *text, char ret[DOCKER_NAME_MAX + 1],
                        struct err *err);
/* What follows from its name: nothing has to be written down. */
void docker_network_id(const char *name, char ret[DOCKER_ID_LEN + 1]);
