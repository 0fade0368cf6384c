#pragma once

/*
 * workerd's network sidecar as a container: a sandbox without a process that stands for the image
 * "proxy-everything", and core/sidecar.h, which does its work. What it was asked for is kept in its
 * label, and the port of its ingress, so that a later supervisor can take it up again.
 *
 * Or, with another image, a container like any that administers its network (the policy net-admin)
 * and does the work itself. Of rind it has a door to the port of the host's loopback where workerd
 * listens (core/door.h), which Docker's gateway address stands for.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/sandbox.h"

struct create_body;
struct docker;
struct err;
struct native;

enum { SIDECAR_INGRESS_PORT = 39001 /* inside, as workerd knows it */ };

/* Whether an image's name means the sidecar, in any tag or digest. `configured`: the whole name for
 * which the built-in one stands; NULL = docker.io/cloudflare/proxy-everything. */
bool docker_sidecar_image(const char *configured, const char *image);
/* Whether a container is one, and not one of its helpers. */
bool docker_is_sidecar(const struct sandbox *s);
/* Whether it is one of another image. */
bool docker_is_own_sidecar(const struct sandbox *s);
/* Whether a body asks for one, by CapAdd and command line: 1, 0; -EINVAL. Its network is kept as
 * workerd wants it, and what it knows of the host is the door. */
int docker_own_sidecar_take(struct create_body *b, struct err *err);
/* As sandbox_start. */
int docker_own_sidecar_start(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* From its command line: what is to be kept. 0: it is none (a helper: no flags); 1; -EINVAL. */
int docker_sidecar_take(struct create_body *b, struct err *err);
/* cb when the ingress listens. */
int docker_sidecar_start(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Takes up those that an earlier supervisor had started. */
void docker_sidecar_resume(struct native *n);
