#pragma once

#include "api/docker/common.h"

/* Resolves a client's name for a network (name, id, or prefix of an id) to its name: "bridge",
 * "none", a created one, or one that a container names. -ENOENT, -ENOTUNIQ. */
int docker_network_find(struct http_request *req, const char *text, char ret[DOCKER_NAME_MAX + 1],
                        struct err *err);
/* Derives a network's id from its name, so that nothing is stored. */
void docker_network_id(const char *name, char ret[DOCKER_ID_LEN + 1]);
