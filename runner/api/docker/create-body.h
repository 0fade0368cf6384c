#pragma once

/* POST /containers/create: its body, as what the native API is asked for. Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/docker/body.h"

struct err;

enum { CREATE_WARNINGS_MAX = 4 };

struct create_body {
    json_t *spec;         /* owned: as POST /v1/sandboxes takes it, but for the image's part */
    json_t *kept;         /* owned: what inspect shows of it, and no spec holds */
    const char *image;    /* borrowed from the tree; NULL = none */
    json_t *exposed;      /* borrowed: ExposedPorts, or NULL */
    bool publish_all;     /* all exposed ports, those of the image included */
    json_t *unset;        /* owned array: variables that are to be there in no case; or NULL */
    json_t *entrypoint;   /* owned array, or NULL: not said */
    json_t *cmd;          /* owned array, or NULL */
    bool host_pid;        /* PidMode "host" */
    bool has_network;     /* NetworkMode says something but the default */
    const char *joins;    /* borrowed: of NetworkMode "container:…", whose; NULL */
    const char *network;  /* borrowed: of NetworkMode, what names a network; NULL */
    const char *endpoint; /* borrowed: the network that NetworkingConfig names; NULL */
    json_t *aliases;      /* borrowed: names that it is to have there; or NULL */
    const char *policy;   /* borrowed: SecurityOpt "rind-policy=…"; NULL */
    bool adds_net_admin;  /* CapAdd NET_ADMIN: another policy, but for a sidecar that rind plays */
    const char *warnings[CREATE_WARNINGS_MAX];
    unsigned warning_count;
};

/* root: borrowed, outlives *ret. -EPERM for what would weaken the isolation, whoever asks;
 * -EOPNOTSUPP for what cannot be had; -EINVAL. *ret is to be freed also on failure. */
int create_body_decode(json_t *root, struct create_body *ret, struct err *err);
/* All names of a create body: Docker's container.Config, HostConfig, NetworkingConfig. */
extern const struct body_field create_body_fields[];
/* For the bodies of all other calls: what only a creation may ask for is refused there by name. */
extern const struct body_elsewhere create_body_elsewhere[];
/* The same for a commit's, which is a container.Config in Docker: 501 for all of it. */
extern const struct body_elsewhere create_body_of_commit[];
void create_body_done(struct create_body *b);
/* CapAdd, once it is known what the policy of this name has: -EPERM for what it has not. A
 * NET_ADMIN is looked at elsewhere. */
int create_check_caps(const struct create_body *b, const char *policy, uint64_t had,
                      struct err *err);
/* A spec's words in Docker's: "volumes[0]…" becomes "HostConfig.Binds: volumes[0]…". */
void create_body_explain(struct err *err);
