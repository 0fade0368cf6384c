#pragma once

/* workerd's network sidecar as a container. With the image "proxy-everything" it is a sandbox
 * without process, and workerd/sidecar.h does its work. Its flags and its ingress port are stored
 * in its label, so that a later supervisor can resume it.
 *
 * With another image it is an ordinary container that administers its network (policy net-admin)
 * and does the work itself. rind gives it a forward to the port of the host's loopback where
 * workerd listens (workerd/loopback-forward.h); Docker's gateway address stands for it. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/sandbox.h"

struct create_body;
struct docker;
struct err;
struct native;

enum { SIDECAR_INGRESS_PORT = 39001 /* inside, as workerd knows it */ };

/* True if an image's name denotes the sidecar, with any tag or digest. configured: the full name
 * of the built-in image; NULL = docker.io/cloudflare/proxy-everything. */
bool docker_sidecar_image(const char *configured, const char *image);
/* True if a container is a built-in sidecar, not one of its helpers. */
bool docker_is_sidecar(const struct sandbox *s);
/* True if a container is a sidecar of another image. */
bool docker_is_own_sidecar(const struct sandbox *s);
/* Detects a sidecar of another image by CapAdd and command line, and sets up its network and its
 * host loopback forward. 1; 0: not a sidecar; -EINVAL. */
int docker_own_sidecar_take(struct create_body *b, struct err *err);
/* Like sandbox_start, for a sidecar of another image. */
int docker_own_sidecar_start(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Parses the command line of the built-in image. 1; 0: a helper without flags; -EINVAL. */
int docker_sidecar_take(struct create_body *b, struct err *err);
/* Starts a built-in sidecar; cb is called when its ingress listens. */
int docker_sidecar_start(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Resumes the sidecars that an earlier supervisor had started. */
void docker_sidecar_resume(struct native *n);
