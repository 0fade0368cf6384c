#pragma once

/*
 * Interprets the files of an archive of images: an OCI layout, or the output of `docker save` in
 * its newer (manifest.json) or older form (repositories). Names in the archive are hostile. The
 * digests were computed by the worker's trusted process and can be relied on. Runs in the thread
 * pool, except archive_add.
 */

#include "image/store.h"
#include "image/worker-proto.h"

struct err;

enum {
    ARCHIVE_ENTRIES_MAX = 65536,
    ARCHIVE_NAMES_MAX = 32 << 20, /* bytes of all names */
    /*
     * Bytes of JSON parsed for all images together; a file that several images name counts each
     * time.
     */
    ARCHIVE_JSON_MAX = 64 << 20,
};

struct archive_entry {
    char *name; /* owned; normal form: "blobs/sha256/…"; "" if no name can refer to it */
    char *link; /* owned; link target as written, or NULL */
    enum worker_entry kind;
    struct blob_file file;  /* owned; only for files; open while it is being written */
    char tmp[BLOB_TMP_MAX]; /* the temporary file's name; kept when it has been renamed to a blob */
    char digest[DIGEST_LEN + 1];
    int64_t size;
};

struct archive {
    struct archive_entry *entries;               /* owned */
    size_t count, bytes;                         /* bytes: of all names */
    struct archive_entry **by_name, **by_digest; /* owned; sorted by archive_interpret */
    struct image_store *store;                   /* borrowed; during archive_interpret */
    size_t parsed;                               /* bytes of JSON; during archive_interpret */
};

/*
 * Appends an ENTRY message of the worker. *ret: borrowed, valid until the next call. -E2BIG: a
 * limit; -ENOMEM.
 */
int archive_add(struct archive *a, const struct worker_msg *entry, struct archive_entry **ret,
                struct err *err);
/* Frees the archive, and removes its temporary files from s. Blocks. */
void archive_done(struct archive *a, struct image_store *s);

/* One image of the archive. */
struct archived {
    struct image *image; /* owned */
    char **names;        /* owned, NULL-terminated; complete references */
    size_t *blobs;       /* owned; indexes of the entries that are blobs of the image */
    size_t blob_count;
    size_t layer_entries[IMAGE_LAYERS_MAX];
    char *manifest, *config; /* owned; generated texts that are not in the archive; NULL */
};
struct archived_list {
    struct archived *images; /* owned */
    size_t count;
};
/*
 * Builds the list of images. Blocks: reads files of the store s. -EINVAL, -EBADMSG, …: err names
 * the fault. -E2BIG: the JSON exceeds ARCHIVE_JSON_MAX.
 */
int archive_interpret(struct archive *a, struct image_store *s, struct archived_list *ret,
                      struct err *err);
void archived_list_done(struct archived_list *l);
