#pragma once

/*
 * What an archive claims: that a layer's blob, of which the digest is known, unpacks to the diff id
 * that the image's configuration says.
 *
 * A claim that names an unpacked layer must be proven before that layer is used. Otherwise a client
 * who knows the digest of another user's layer has its files, and what a scanner finds in the blob
 * is not what the sandbox runs. A claim is proven by equal digests (the archive has the
 * uncompressed bytes), by an image of the store with the same pair, or by unpacking the blob
 * (images-layering.c).
 */

#include <stdbool.h>
#include <stddef.h>

#include "image/store.h"

struct claim {
    char blob[DIGEST_LEN + 1], diff_id[DIGEST_LEN + 1];
    bool proven;
};

/* The claims of all images of one archive, each once. */
struct claims {
    struct claim *list; /* owned; sorted */
    size_t count;
};

/* Collects the claims of count images. -ENOMEM. */
int claims_collect(struct claims *c, struct image *const *images, size_t count);
/* Proves what images of the store show. Blocks: it may read all of them. */
int claims_look_up(struct claims *c, struct image_store *s, struct err *err);
/* Sets `claimed` of the layers of one of the images. */
void claims_mark(const struct claims *c, struct image *image);
/* All layers of this image have been proven. */
void claims_prove(struct claims *c, const struct image *image);
void claims_done(struct claims *c);
