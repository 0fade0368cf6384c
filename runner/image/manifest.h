#pragma once

/*
 * Manifests and indexes, OCI's and Docker's, decoded from hostile JSON. Unknown keys are allowed by
 * the specification; what is known is checked and bounded. And the manifests that are made here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "image/config.h"
#include "image/reference.h"

struct err;

enum {
    MANIFEST_MAX = 4 << 20,      /* bytes of the JSON */
    MANIFEST_ENTRIES_MAX = 4096, /* of an index */
    MEDIA_TYPE_MAX = 128,
};

enum media_kind {
    MEDIA_OTHER = 0, /* what this program knows nothing of (signatures, attestations) */
    MEDIA_MANIFEST,
    MEDIA_INDEX,
    MEDIA_CONFIG,
    MEDIA_LAYER,
};
enum media_kind media_kind(const char *type);
#define MEDIA_TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"
/* Of a layer's archive (borrowed): what its first bytes say. */
const char *media_type_of_layer(int fd);

struct descriptor {
    char digest[DIGEST_LEN + 1];
    char media_type[MEDIA_TYPE_MAX + 1];
    int64_t size;
    char *name; /* owned; of an index: what it is called there, or NULL */
    char os[32], architecture[32], variant[32]; /* of an index; "" = not said */
};

struct manifest {
    struct descriptor config;
    struct descriptor *layers; /* owned; bottom first */
    size_t layer_count;
};

/* An image's manifest. -EINVAL, -EFBIG, -E2BIG, -EOPNOTSUPP (layers that are somewhere else). */
int manifest_parse(const char *text, size_t len, struct manifest **ret, struct err *err);
void manifest_free(struct manifest *m);
/* The text of a new one, of descriptors (taken) of its layers, bottom first. Caller frees;
 * NULL on OOM. */
char *manifest_format(const char *config_digest, int64_t config_size, json_t *layers);
json_t *descriptor_of(const char *media_type, const char *digest, int64_t size);
DEFINE_AUTO(struct manifest, manifest_free);

/* An index of either kind, or index.json of a layout. */
struct image_list_file {
    struct descriptor *entries; /* owned */
    size_t count;
};
int manifest_list_parse(const char *text, size_t len, struct image_list_file **ret,
                        struct err *err);
void manifest_list_free(struct image_list_file *l);
DEFINE_AUTO(struct image_list_file, manifest_list_free);
/* The entry for this machine; NULL: there is none. */
const struct descriptor *manifest_list_pick(const struct image_list_file *l);

/* This machine's, as images call it: "amd64", "arm64". */
const char *image_architecture(void);

/* One image of manifest.json in an archive of docker save. */
struct archive_image {
    char *config;  /* owned; names of entries, as written */
    char **layers; /* owned, NULL-terminated */
    char **tags;   /* owned, NULL-terminated; NULL = none */
};
struct archive_images {
    struct archive_image *images; /* owned */
    size_t count;
};
int archive_images_parse(const char *text, size_t len, struct archive_images **ret,
                         struct err *err);
void archive_images_free(struct archive_images *a);
DEFINE_AUTO(struct archive_images, archive_images_free);
