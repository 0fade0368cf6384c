#pragma once

/*
 * Indexes, manifests and configurations as registries send them: which of them a body is, which
 * image of an index is for a platform, and whether a manifest is an image that rind can have.
 * Hostile JSON. Pure. (The store reads them again, by image/manifest.h.)
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/manifest.h"
#include "image/registry-proto.h"
#include "platform.h"

struct err;

enum { DOCUMENT_MAX = MANIFEST_MAX, DOCUMENT_CONFIG_MAX = IMAGE_CONFIG_MAX };

/* The value of Accept: the types that document_open takes. */
#define DOCUMENT_ACCEPT                                                                            \
    "application/vnd.oci.image.index.v1+json, "                                                    \
    "application/vnd.docker.distribution.manifest.list.v2+json, "                                  \
    "application/vnd.oci.image.manifest.v1+json, "                                                 \
    "application/vnd.docker.distribution.manifest.v2+json, "                                       \
    "application/vnd.docker.distribution.manifest.v1+prettyjws, "                                  \
    "application/vnd.docker.distribution.manifest.v1+json"

struct document {
    enum registry_document kind; /* an index or a manifest */
    char media_type[MEDIA_TYPE_MAX + 1];
    json_t *root; /* owned */
};

/* What a document says of another one. */
struct pointed {
    char digest[DIGEST_LEN + 1];
    char media_type[MEDIA_TYPE_MAX + 1];
    int64_t size;
};

/*
 * Parses a body. type: the header's media type, or "". *ret_fault says of a failure what it is.
 * -EINVAL, -EFBIG, -EOPNOTSUPP (schema 1 and others).
 */
int document_open(const char *type, const char *body, size_t len, struct document **ret,
                  enum registry_fault *ret_fault, struct err *err);
void document_free(struct document *d);
DEFINE_AUTO(struct document, document_free);

/* Chooses the entry of an index for a platform. It may be an index again. -ENOENT, with the
 * platforms that there are. */
int document_choose(const struct document *index, const struct platform *want, struct pointed *ret,
                    enum registry_fault *ret_fault, struct err *err);

struct image_limits {
    int64_t layers, bytes; /* of all layers, as stored */
};

/* Checks a manifest: an image, of layers that are in the registry, within the limits. Outputs: its
 * configuration and the number of its layers. */
int document_check_manifest(const struct document *manifest, const struct image_limits *limits,
                            struct pointed *ret_config, size_t *ret_layers,
                            enum registry_fault *ret_fault, struct err *err);

/* Checks that a configuration is of the platform and has a diff id for each layer. */
int document_check_config(const char *text, size_t len, const struct platform *want, size_t layers,
                          enum registry_fault *ret_fault, struct err *err);
