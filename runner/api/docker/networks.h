#pragma once

#include "api/docker/common.h"
#include "policy/policy.h"

/* Resolves a client's name for a network (name, id, or prefix of an id) to its name: "bridge",
 * "none", a created one, or one that a container names. -ENOENT, -ENOTUNIQ. */
int docker_network_find(struct http_request *req, const char *text, char ret[DOCKER_NAME_MAX + 1],
                        struct err *err);
/* Derives a network's id from its name, so that nothing is stored. */
void docker_network_id(const char *name, char ret[DOCKER_ID_LEN + 1]);

/* True for Docker's predefined networks. */
bool docker_network_is_builtin(const char *name);

/* What a member of these networks may reach beside them: the internet, unless all are internal. */
enum net_mode docker_networks_mode(struct supervisor *sup, const struct spec *spec, bool bridge);
/* Checks the networks of a container that is to be started, and follows ones that were made anew.
 * -ENOENT: "network X not found". */
int docker_networks_check(struct http_request *req, struct sandbox *s, struct err *err);

/* Appends links ("NAME", "NAME:ALIAS", or as inspect shows them, "/NAME:/OWN/ALIAS"; list may be
 * NULL) to ret as a spec has them. must: -EINVAL for a container that is not there; otherwise one
 * that comes later is found by its name. */
int docker_links(struct http_request *req, json_t *list, bool must, json_t *ret, struct err *err);

/* POST /networks/{name}/connect and disconnect */
void docker_network_connect(struct http_request *req);
void docker_network_disconnect(struct http_request *req);
