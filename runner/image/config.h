#pragma once

/*
 * An image's configuration (the OCI image configuration, and Docker's superset of it), decoded from
 * hostile JSON. Unlike in requests of clients, unknown keys are accepted, as the specification
 * demands. Known keys are checked for type and size. The image's id is the digest of the text, so
 * the text is stored unchanged.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "image/reference.h"

struct err;

enum {
    IMAGE_CONFIG_MAX = 8 << 20, /* bytes of the JSON */
    IMAGE_LAYERS_MAX = 127,     /* layers of one image; the built-in base layer lies below them */
    IMAGE_STRINGS_MAX = 4096,   /* entries of one list, environment or map */
    IMAGE_HISTORY_MAX = 4096,
};

struct image_health {
    char *
        *test; /* owned, NULL-terminated: "CMD", ARG… or "CMD-SHELL", TEXT or "NONE"; NULL = none */
    int64_t interval_ms, timeout_ms, start_period_ms, start_interval_ms; /* 0 = the default */
    int64_t retries;                                                     /* 0 = the default */
};

struct image_history {
    char *created_by, *comment, *created; /* owned; NULL = missing */
    bool empty_layer;
};

struct image_config {
    char *os, *architecture, *variant; /* owned; NULL = missing */
    char *created, *author;            /* owned, as written; NULL = missing */
    char **entrypoint, **cmd;          /* owned, NULL-terminated; NULL = none */
    char **env;                        /* owned: "K=V"; entries without a name are skipped */
    char **labels;                     /* owned: "K=V" */
    char **volumes;                    /* owned: absolute paths inside, as written */
    char **exposed;                    /* owned: "3000/tcp"; invalid entries are skipped */
    char **on_build;                   /* owned */
    char **shell;                      /* owned, or NULL */
    char *user, *cwd, *stop_signal;    /* owned, as written; NULL or not empty */
    struct image_health health;
    char **diff_ids; /* owned; bottom first; digests */
    size_t layer_count;
    struct image_history *history; /* owned; NULL = none */
    size_t history_count;
};

/*
 * Parses a configuration. -EINVAL, -EFBIG, -E2BIG. Does not check system and architecture; that is
 * done at a start.
 */
int image_config_parse(const char *text, size_t len, struct image_config **ret, struct err *err);
/* As image_config_parse, for a tree that was parsed strictly (json/parse.h). */
int image_config_decode(json_t *root, struct image_config **ret, struct err *err);
/* Frees all but the labels, for lists. Returns the size of the labels in bytes. */
size_t image_config_shorten(struct image_config *c);
void image_config_free(struct image_config *c);
DEFINE_AUTO(struct image_config, image_config_free);

/*
 * Applies a change in Dockerfile syntax to the tree (borrowed): CMD, ENTRYPOINT, ENV, EXPOSE,
 * LABEL, USER, VOLUME, WORKDIR, STOPSIGNAL, HEALTHCHECK, ONBUILD. -EINVAL: err quotes the change.
 */
int image_config_change(json_t *tree, const char *change, struct err *err);
