#pragma once

/*
 * The store of images, an OCI image layout:
 *
 *     images/oci-layout  index.json  blobs/sha256/HEX  tmp/  lock  use
 *
 * index.json has one entry for each name of an image, and one for an image without a name. A blob
 * is written to tmp/ and renamed when its digest has been verified, so an existing blob is
 * complete, whatever crashes.
 *
 * Several processes may use a store. A process holds `lock` while it changes index.json. It holds
 * `use` shared while it makes blobs and layers, or uses blobs that no image refers to yet. It holds
 * `use` exclusively to remove unreferenced blobs (image_store_collect).
 *
 * All functions block, and may be called from any thread.
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

/* Computes "sha256:…" of a buffer. */
void digest_of(const void *data, size_t len, char ret[DIGEST_LEN + 1]);
void digest_format(const uint8_t bytes[32], char ret[DIGEST_LEN + 1]);
/* Hashes the file from its beginning; *ret_size: its size in bytes. Negative errno on failure. */
int digest_of_file(int fd, char ret[DIGEST_LEN + 1], int64_t *ret_size);

/* ---- one image ---- */

struct image_layer {
    char blob[DIGEST_LEN + 1];    /* digest of the archive as received */
    char diff_id[DIGEST_LEN + 1]; /* digest of the uncompressed archive */
    char chain_id[DIGEST_LEN + 1];
    /*
     * Directory name of a tree with of_parents: the digest of the chain id, since the bottom
     * layer's chain id is also its diff id.
     */
    char chain_name[DIGEST_LEN + 1];
    char media_type[129];
    int64_t bytes;   /* size of the archive */
    bool of_parents; /* the unpacked tree depends on the layers below, and is stored by its chain */
    bool claimed;    /* only an archive says that `blob` unpacks to `diff_id` (claims.h) */
};
/* Directory name of the unpacked tree: 64 digits. */
const char *image_layer_name(const struct image_layer *l);

struct image {
    char id[DIGEST_LEN + 1];       /* digest of the configuration */
    char manifest[DIGEST_LEN + 1]; /* digest of the manifest */
    char media_type[129];          /* media type of the manifest */
    int64_t manifest_bytes, config_bytes;
    char **names; /* owned, NULL-terminated; full references: "docker.io/library/a:1" */
    struct image_config *config; /* owned */
    struct image_layer *layers;  /* owned; bottom first */
    size_t layer_count;
    int64_t bytes;               /* total size of its blobs */
    int64_t created_ms;          /* from the configuration; 0 = missing */
    int64_t loaded_ms;           /* time when it was added to the store */
    char parent[DIGEST_LEN + 1]; /* id of the image that this is a snapshot of, or "" */
    json_t *config_tree;         /* owned; the complete configuration */
};
/* NULL is allowed. */
void image_free(struct image *i);
DEFINE_AUTO(struct image, image_free);
void image_list_free(struct image **list, size_t count);

/*
 * Fills in layers and totals from a manifest and configuration. -EINVAL: their layers do not match.
 */
int image_assemble(struct image *i, const struct manifest *m, struct err *err);
/*
 * Computes chain id and chain name of layer i from its diff id and the chain id of the layer below.
 */
void image_chain(struct image_layer *layers, size_t i);

/* ---- the store ---- */

/* Opens the store; creates `images` in dir_fd (borrowed for the call) if needed. */
int image_store_open(int dir_fd, struct image_store **ret, struct err *err);
void image_store_close(struct image_store *s);
DEFINE_AUTO(struct image_store, image_store_close);

/* Locks `use` shared until the returned fd is closed. Waits while another process collects. */
int image_store_use(struct image_store *s, struct err *err);

/* ---- blobs ---- */

enum { BLOB_TMP_MAX = 40 };
struct blob_file {
    int fd;                 /* owned */
    char tmp[BLOB_TMP_MAX]; /* file name in tmp/ */
};
#define BLOB_FILE_NONE                                                                             \
    {                                                                                              \
        .fd = -1, .tmp = ""                                                                        \
    }
/* Creates an empty file for a blob. The caller must hold `use`. */
int blob_begin(struct image_store *s, struct blob_file *ret, struct err *err);
/*
 * Makes the file a blob of this digest, which the caller has computed from all of it. Syncs it
 * first. Ends the use of f, also on failure.
 */
int blob_commit(struct image_store *s, struct blob_file *f, const char *digest, struct err *err);
/* Opens the file again, read-only, at its beginning. Returns the fd. */
int blob_reopen(struct image_store *s, const struct blob_file *f, struct err *err);
/* Removes the file; does nothing after blob_commit. */
void blob_drop(struct image_store *s, struct blob_file *f);
/* Stores a small blob. */
int blob_put(struct image_store *s, const void *data, size_t len, char ret_digest[DIGEST_LEN + 1],
             struct err *err);
/* Opens a blob read-only. Returns the fd; -ENOENT. */
int blob_open(struct image_store *s, const char *digest, int64_t *ret_size, struct err *err);
bool blob_there(struct image_store *s, const char *digest);
/* Reads a small blob and verifies its digest: -EBADMSG. */
int blob_read(struct image_store *s, const char *digest, size_t max, char **ret, size_t *ret_len,
              struct err *err);

/* ---- the index ---- */

/*
 * For whom an entry is looked up or changed. Each name belongs to the user that gave it, so several
 * users may have the same one for different images: a user's own goes first, then the daemon's.
 * Entries of the daemon (root and its owner; also those of an older index) are common to all users,
 * unless they are private: images made of a sandbox's files. A user's entries are its own alone.
 */
struct image_view {
    bool all;     /* root and the owner of the daemon: sees all entries, and makes the daemon's */
    int64_t uid;  /* otherwise the user */
    bool private; /* what is added is not common */
};
#define IMAGE_VIEW_ALL ((const struct image_view){.all = true, .uid = -1})

/*
 * Finds an image by reference, id, or prefix of an id. -ENOENT, -ENOTUNIQ, -EINVAL; -EBADMSG,
 * -EUCLEAN: damaged.
 */
int image_store_find(struct image_store *s, const struct image_view *view, const char *name,
                     struct image **ret, struct err *err);
enum { IMAGE_LIST_LABELS_MAX = 64 << 20 }; /* bytes of the labels of all listed images */
/*
 * Lists all images, newest first, with labels only and without layers. Damaged images have no
 * config. -E2BIG: more than IMAGE_LIST_LABELS_MAX.
 */
int image_store_list(struct image_store *s, const struct image_view *view, struct image ***ret,
                     size_t *ret_count, struct err *err);

/*
 * Calls fn with each image of the index, whosever it is, until it returns false. Damaged images are
 * left out.
 */
int image_store_each(struct image_store *s, bool (*fn)(void *data, const struct image *i),
                     void *data, struct err *err);

/*
 * Adds an image to the index; its blobs must exist. names: full references, NULL-terminated; other
 * images of the same user lose them. max: limit of images, -EAGAIN. bounds: of the images of a user
 * who is not the daemon's owner; -EDQUOT; or NULL.
 */
struct image_bounds;
int image_store_add(struct image_store *s, const struct image_view *view, const struct image *image,
                    char *const *names, unsigned max, const struct image_bounds *bounds,
                    struct err *err);
/* Gives an image another name. name: as for image_store_find; whole: the new full reference. */
int image_store_tag(struct image_store *s, const struct image_view *view, const char *name,
                    const char *whole, char ret_id[DIGEST_LEN + 1], struct err *err);

/* Result of a removal. */
struct store_removal {
    char **untagged; /* owned, NULL-terminated */
    char **deleted;  /* owned; ids */
};
void store_removal_done(struct store_removal *r);
/*
 * is_used: true if a sandbox uses the image with this id. Rules as for images_remove. -EPERM: the
 * user sees the image, but it is the daemon's.
 */
int image_store_remove(struct image_store *s, const struct image_view *view, const char *name,
                       bool force, bool (*is_used)(void *data, const char *id), void *data,
                       struct store_removal *ret, struct err *err);
/* Removes the user's own, root's prune the daemon's. */
/* keeps: images that stay in any case; or NULL. */
int image_store_prune(struct image_store *s, const struct image_view *view, bool all,
                      bool (*keeps)(void *data, const char *id),
                      bool (*is_used)(void *data, const char *id), void *data,
                      struct store_removal *ret, struct err *err);

/*
 * Removes blobs that no image refers to, and the remains in tmp/. *ret_layers: names of the layers
 * of all images (owned, sorted, NULL-terminated). *ret_bytes: size removed. Returns a fd that keeps
 * other processes from making blobs and layers until it is closed; FD_NONE if the store is in use,
 * try again later.
 */
int image_store_collect(struct image_store *s, char ***ret_layers, int64_t *ret_bytes,
                        struct err *err);
/* Size of all blobs on disk, in bytes; number of images that the user sees. */
int image_store_usage(struct image_store *s, const struct image_view *view, int64_t *ret_bytes,
                      uint64_t *ret_images, struct err *err);
