#pragma once

/*
 * Credentials of image registries in the forms that Docker's users have: the file config.json and
 * Docker's header X-Registry-Auth; and which registry an image's name means. The command line reads
 * the user's files, the daemon a client's headers. Both are foreign text. Pure.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "image/reference.h"

struct err;

enum {
    REGISTRY_CONFIG_MAX = 4 << 20, /* bytes of config.json */
    REGISTRY_AUTH_MAX = 256 << 10, /* characters of a header */
    REGISTRY_HELPER_MAX = 64,      /* bytes of a helper's suffix */
};

/* Docker Hub's key in files, for helpers and over Docker's API. */
#define REGISTRY_HUB_KEY "https://index.docker.io/v1/"

/* ---- names ---- */

struct registry_name {
    char host[REFERENCE_NAME_MAX + 1];       /* as it is shown and configured: "docker.io" */
    char connect[REFERENCE_NAME_MAX + 1];    /* where it is: "registry-1.docker.io" */
    char repository[REFERENCE_NAME_MAX + 1]; /* "library/busybox" */
};

/* Splits a reference's full name. */
void registry_name_split(const struct reference *r, struct registry_name *ret);
/* Where a registry is: of Docker Hub not where its name says. */
const char *registry_connect_host(const char *host);
/* A host as the user has typed it, or a key of a file, without scheme and path: "docker.io" for all
 * names of Docker Hub. False: nothing is left, or it is too long. */
bool registry_host_of(const char *text, char ret[REFERENCE_NAME_MAX + 1]);
/* The key under which its credentials are stored: REGISTRY_HUB_KEY, or the host. */
const char *registry_key_of(const char *host);

/* ---- credentials ---- */

struct registry_auth {
    char *username, *password; /* owned; NULL = none */
    char *identity;            /* owned: an identity token */
    char *bearer;              /* owned: a token of the registry as it stands */
};
void registry_auth_free(struct registry_auth *a); /* wipes them */
DEFINE_AUTO(struct registry_auth, registry_auth_free);

/*
 * Finds what a config.json (or podman's auth.json, whose keys may have a path) has for a host.
 * repository may be NULL; else the key with the longest path wins. *ret_helper: the suffix of the
 * credential helper to ask instead, "" for none. *ret: NULL = nothing. -EINVAL: the file, or this
 * host's entry, is damaged; other entries do not matter.
 */
int registry_config_find(const char *text, size_t len, const char *host, const char *repository,
                         struct registry_auth **ret, char ret_helper[REGISTRY_HELPER_MAX + 1],
                         struct err *err);
/*
 * Changes the host's entry: a (borrowed; NULL: takes it out). Everything else stays, in its order.
 * text may be empty. *ret: the new text, owned by the caller; NULL = there was nothing to take out.
 */
int registry_config_change(const char *text, size_t len, const char *host,
                           const struct registry_auth *a, char **ret, struct err *err);

/*
 * Decodes X-Registry-Auth, or the body of POST /auth if it is no base64: *ret is NULL if it has
 * nothing. ret_host: the host that it is for (serveraddress), "" if it names none. -EINVAL.
 */
int registry_auth_decode_header(const char *text, struct registry_auth **ret,
                                char ret_host[REFERENCE_NAME_MAX + 1], struct err *err);
int registry_auth_decode(const char *json, size_t len, struct registry_auth **ret,
                         char ret_host[REFERENCE_NAME_MAX + 1], struct err *err);
/* The answer of a helper's `get`. */
int registry_helper_decode(const char *json, size_t len, struct registry_auth **ret,
                           struct err *err);
/* The suffix names a program: letters, digits, dots, hyphens, underscores. */
bool registry_helper_ok(const char *suffix);
