#pragma once

/*
 * What the files of an archive of images add up to: an OCI layout, or what `docker save` writes in
 * its newer (manifest.json) and its older form (repositories). The archive's names are hostile, its
 * digests are by who has read it and can be believed.
 */

#include "image/store.h"
#include "image/worker-proto.h"

struct err;

enum {
    ARCHIVE_ENTRIES_MAX = 65536,
    ARCHIVE_NAMES_MAX = 32 << 20, /* bytes of all names */
    /* Bytes of JSON that are parsed for all its images; one that several name counts each time. */
    ARCHIVE_JSON_MAX = 64 << 20,
};

struct archive_entry {
    char *name; /* owned; normal: "blobs/sha256/…"; "" for what cannot be meant */
    char *link; /* owned; as written; NULL */
    enum worker_entry kind;
    struct blob_file file;  /* owned; of a file; open only while it is written */
    char tmp[BLOB_TMP_MAX]; /* the file's name, which the file loses when it has become a blob */
    char digest[DIGEST_LEN + 1];
    int64_t size;
};

struct archive {
    struct archive_entry *entries;               /* owned */
    size_t count, bytes;                         /* bytes: of the names */
    struct archive_entry **by_name, **by_digest; /* owned; sorted when it is interpreted */
    struct image_store *store;                   /* borrowed; while it is interpreted */
    size_t parsed;                               /* bytes of JSON, while it is interpreted */
};

int archive_add(struct archive *a, const struct worker_msg *entry, struct archive_entry **ret,
                struct err *err);
void archive_done(struct archive *a, struct image_store *s);

/* One image of the archive. */
struct archived {
    struct image *image; /* owned */
    char **names;        /* owned, NULL-terminated; whole */
    size_t *blobs;       /* owned; entries that are its blobs */
    size_t blob_count;
    size_t layer_entries[IMAGE_LAYERS_MAX];
    char *manifest, *config; /* owned; texts that are no entry, but made; NULL */
};
struct archived_list {
    struct archived *images; /* owned */
    size_t count;
};
/*
 * Blocks: it reads files, which are in s. -EINVAL, -EBADMSG, …: err names what is wrong. -E2BIG:
 * all that was parsed is more than ARCHIVE_JSON_MAX.
 */
int archive_interpret(struct archive *a, struct image_store *s, struct archived_list *ret,
                      struct err *err);
void archived_list_done(struct archived_list *l);
