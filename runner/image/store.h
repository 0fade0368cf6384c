#pragma once

/*
 * The store of images: an OCI image layout.
 *
 *     images/oci-layout  index.json  blobs/sha256/HEX  tmp/  lock  use
 *
 * index.json has one entry a name of an image, and one without a name for an image that has none.
 * A blob is written to tmp/ and renamed once its digest is known to be its name's: it is there
 * whole and verified or not at all, whoever dies when. Several processes may work on one store:
 * who changes index.json holds `lock`; who makes blobs and layers, or uses some that nothing names
 * yet, holds `use` shared, and who removes what nothing names holds it alone (image_store_collect).
 *
 * Everything here blocks, and may be called from any thread.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "image/config.h"
#include "image/reference.h"

struct err;
struct image_store;
struct manifest;

/* ---- digests ---- */

/* "sha256:…" of these bytes. */
void digest_of(const void *data, size_t len, char ret[DIGEST_LEN + 1]);
void digest_format(const uint8_t bytes[32], char ret[DIGEST_LEN + 1]);
/* Of what fd holds from its beginning; *ret_size its bytes. Negative errno. */
int digest_of_file(int fd, char ret[DIGEST_LEN + 1], int64_t *ret_size);

/* ---- one image ---- */

struct image_layer {
    char blob[DIGEST_LEN + 1];    /* of the archive, as it came */
    char diff_id[DIGEST_LEN + 1]; /* of the archive, uncompressed */
    char chain_id[DIGEST_LEN + 1];
    char chain_name[DIGEST_LEN + 1]; /* what its tree is stored by where that is of_parents: the
                                        digest of the chain id, because that of the bottom layer is
                                        its diff id */
    char media_type[129];
    int64_t bytes;   /* of the archive */
    bool of_parents; /* unpacked, it is good for this chain alone: stored by its chain */
};
/* The name that its tree is stored by: 64 digits. */
const char *image_layer_name(const struct image_layer *l);

struct image {
    char id[DIGEST_LEN + 1];       /* of the configuration */
    char manifest[DIGEST_LEN + 1]; /* of the manifest */
    char media_type[129];          /* of the manifest */
    int64_t manifest_bytes, config_bytes;
    char **names;                /* owned, NULL-terminated; whole: "docker.io/library/a:1" */
    struct image_config *config; /* owned */
    struct image_layer *layers;  /* owned; bottom first */
    size_t layer_count;
    int64_t bytes;               /* of its blobs */
    int64_t created_ms;          /* as the configuration says; 0 = it does not */
    int64_t loaded_ms;           /* when it came into the store */
    char parent[DIGEST_LEN + 1]; /* the id of the image that it is a snapshot of, or "" */
    json_t *config_tree;         /* owned; the configuration as it is */
};
void image_free(struct image *i);
DEFINE_AUTO(struct image, image_free);
void image_list_free(struct image **list, size_t count);

/* Fills in layers and what is counted, from a manifest and a configuration that belong together:
 * -EINVAL where their layers do not. */
int image_assemble(struct image *i, const struct manifest *m, struct err *err);
/* The chain id and the name of layer i, from its diff id and the chain id of the one below. */
void image_chain(struct image_layer *layers, size_t i);

/* ---- the store ---- */

/* dir_fd: where `images` is, or is made. Borrowed for the call. */
int image_store_open(int dir_fd, struct image_store **ret, struct err *err);
void image_store_close(struct image_store *s);
DEFINE_AUTO(struct image_store, image_store_close);

/* Holds `use` shared until the fd is closed. Returns the fd. Waits while somebody collects. */
int image_store_use(struct image_store *s, struct err *err);

/* ---- blobs ---- */

enum { BLOB_TMP_MAX = 40 };
struct blob_file {
    int fd;                 /* owned */
    char tmp[BLOB_TMP_MAX]; /* its name in tmp/ */
};
#define BLOB_FILE_NONE                                                                             \
    {                                                                                              \
        .fd = -1, .tmp = ""                                                                        \
    }
/* An empty file for a blob. Only while `use` is held. */
int blob_begin(struct image_store *s, struct blob_file *ret, struct err *err);
/* It has this digest, by who has read it all: it becomes that blob, on disk first. In both cases it
 * is done with. */
int blob_commit(struct image_store *s, struct blob_file *f, const char *digest, struct err *err);
/* The same file, to be read only, from its beginning. Returns the fd. */
int blob_reopen(struct image_store *s, const struct blob_file *f, struct err *err);
/* Removes it; nothing when it is done with. */
void blob_drop(struct image_store *s, struct blob_file *f);
/* A small one as a whole. */
int blob_put(struct image_store *s, const void *data, size_t len, char ret_digest[DIGEST_LEN + 1],
             struct err *err);
/* Read only. Returns the fd; -ENOENT. */
int blob_open(struct image_store *s, const char *digest, int64_t *ret_size, struct err *err);
bool blob_there(struct image_store *s, const char *digest);
/* All of a small one, which is checked against its digest: -EBADMSG. */
int blob_read(struct image_store *s, const char *digest, size_t max, char **ret, size_t *ret_len,
              struct err *err);

/* ---- the index ---- */

/* By reference, id, or the beginning of an id. -ENOENT, -ENOTUNIQ, -EINVAL; -EBADMSG, -EUCLEAN for
 * one that is damaged. */
int image_store_find(struct image_store *s, const char *name, struct image **ret, struct err *err);
enum { IMAGE_LIST_LABELS_MAX = 64 << 20 }; /* bytes of the labels of all that are listed */
/* All, newest first, for a list: of the configuration the labels alone, and no layers. Damaged ones
 * have no config. -E2BIG: more than IMAGE_LIST_LABELS_MAX. */
int image_store_list(struct image_store *s, struct image ***ret, size_t *ret_count,
                     struct err *err);

/* Puts an image whose blobs are there into the index, and gives it these names (whole;
 * NULL-terminated), taken from whoever has them. max: images at most, -EAGAIN. */
int image_store_add(struct image_store *s, const struct image *image, char *const *names,
                    unsigned max, struct err *err);
/* name: of the image, as image_store_find; whole: the new one. */
int image_store_tag(struct image_store *s, const char *name, const char *whole,
                    char ret_id[DIGEST_LEN + 1], struct err *err);

/* What a removal has done. */
struct store_removal {
    char **untagged; /* owned, NULL-terminated */
    char **deleted;  /* owned; ids */
};
void store_removal_done(struct store_removal *r);
/* is_used: whether an image (by id) is some sandbox's. As images_remove. */
int image_store_remove(struct image_store *s, const char *name, bool force,
                       bool (*is_used)(void *data, const char *id), void *data,
                       struct store_removal *ret, struct err *err);
int image_store_prune(struct image_store *s, bool all, bool (*is_used)(void *data, const char *id),
                      void *data, struct store_removal *ret, struct err *err);

/*
 * Removes blobs that no image has, and what is left in tmp/. *ret_layers: the names of all layers
 * that images have (owned, sorted, NULL-terminated). Returns a fd that keeps others from making
 * any until it is closed, or FD_NONE: somebody is at work, another time. *ret_bytes: removed.
 */
int image_store_collect(struct image_store *s, char ***ret_layers, int64_t *ret_bytes,
                        struct err *err);
/* Bytes of all blobs, on disk. */
int image_store_usage(struct image_store *s, int64_t *ret_bytes, uint64_t *ret_images,
                      struct err *err);
