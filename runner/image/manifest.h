#pragma once

/*
 * Manifests and indexes of OCI and Docker, decoded from hostile JSON, and encoding of new
 * manifests. Unknown keys are accepted, as the specification demands; known keys are checked for
 * type and size.
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
    MANIFEST_ENTRIES_MAX = 4096, /* entries of an index */
    MEDIA_TYPE_MAX = 128,
};

enum media_kind {
    MEDIA_OTHER = 0, /* unknown to rind, such as signatures and attestations */
    MEDIA_MANIFEST,
    MEDIA_INDEX,
    MEDIA_CONFIG,
    MEDIA_LAYER,
};
enum media_kind media_kind(const char *type);
#define MEDIA_TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"
/* Media type of a layer's archive (borrowed fd), from its first bytes. */
const char *media_type_of_layer(int fd);

struct descriptor {
    char digest[DIGEST_LEN + 1];
    char media_type[MEDIA_TYPE_MAX + 1];
    int64_t size;
    char *name; /* owned; in an index: the image's name there, or NULL */
    char os[32], architecture[32], variant[32]; /* in an index; "" = missing */
};

struct manifest {
    struct descriptor config;
    struct descriptor *layers; /* owned; bottom first */
    size_t layer_count;
};

/* Parses an image's manifest. -EINVAL, -EFBIG, -E2BIG, -EOPNOTSUPP (layers stored elsewhere). */
int manifest_parse(const char *text, size_t len, struct manifest **ret, struct err *err);
void manifest_free(struct manifest *m);
/*
 * Encodes a manifest. layers: array of descriptors (taken), bottom first. Caller frees; NULL = out
 * of memory.
 */
char *manifest_format(const char *config_digest, int64_t config_size, json_t *layers);
json_t *descriptor_of(const char *media_type, const char *digest, int64_t size);
DEFINE_AUTO(struct manifest, manifest_free);

/* An index of either kind, or a layout's index.json. */
struct image_list_file {
    struct descriptor *entries; /* owned */
    size_t count;
};
int manifest_list_parse(const char *text, size_t len, struct image_list_file **ret,
                        struct err *err);
void manifest_list_free(struct image_list_file *l);
DEFINE_AUTO(struct image_list_file, manifest_list_free);
/* Returns the entry for this machine; NULL if there is none. */
const struct descriptor *manifest_list_pick(const struct image_list_file *l);

/* This machine's architecture by OCI names: "amd64", "arm64". */
const char *image_architecture(void);

/* One image in the manifest.json of an archive of docker save. */
struct archive_image {
    char *config;  /* owned; names of entries in the archive, as written */
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
