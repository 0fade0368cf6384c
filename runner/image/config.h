#pragma once

/*
 * An image's configuration (the OCI image configuration, and Docker's superset of it), decoded from
 * hostile JSON. Unlike with what clients write, keys that are not known are no error, because the
 * specification allows them; everything that is known is checked for its type and bounded. The
 * text itself is what the image's id is the digest of, and is kept as it is.
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
    IMAGE_LAYERS_MAX = 127,     /* of one image; the built-in base is below them */
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
    char *created_by, *comment, *created; /* owned; NULL = not said */
    bool empty_layer;
};

struct image_config {
    char *os, *architecture, *variant; /* owned; NULL = not said */
    char *created, *author;            /* owned; as written; NULL */
    char **entrypoint, **cmd;          /* owned, NULL-terminated; NULL = none */
    char **env;                        /* owned: "K=V"; what has no name is left out */
    char **labels;                     /* owned: "K=V" */
    char **volumes;                    /* owned: absolute paths inside, as written */
    char **exposed;                    /* owned: "3000/tcp"; what is none is left out */
    char **on_build;                   /* owned */
    char **shell;                      /* owned; NULL */
    char *user, *cwd, *stop_signal;    /* owned; as written; NULL or not empty */
    struct image_health health;
    char **diff_ids; /* owned; bottom first; digests */
    size_t layer_count;
    struct image_history *history; /* owned; NULL without */
    size_t history_count;
};

/* -EINVAL, -EFBIG, -E2BIG. Which system and processor it is for is for who starts it to look at. */
int image_config_parse(const char *text, size_t len, struct image_config **ret, struct err *err);
/* The same of a tree that was parsed strictly (json/parse.h). */
int image_config_decode(json_t *root, struct image_config **ret, struct err *err);
/* Keeps the labels alone, for a list. Returns the bytes that they take. */
size_t image_config_shorten(struct image_config *c);
void image_config_free(struct image_config *c);
DEFINE_AUTO(struct image_config, image_config_free);

/*
 * The tree of a configuration with changes as Dockerfiles write them: CMD, ENTRYPOINT, ENV, EXPOSE,
 * LABEL, USER, VOLUME, WORKDIR, STOPSIGNAL, HEALTHCHECK, ONBUILD. tree: borrowed, changed. -EINVAL
 * quotes the change.
 */
int image_config_change(json_t *tree, const char *change, struct err *err);
