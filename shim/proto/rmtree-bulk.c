#include "proto/rmtree-bulk.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/dents.h"

enum { BUF_BYTES = 3 << 20, REFS_MAX = BUF_BYTES / DENT_BYTES_MIN };

struct ref {
    uint64_t ino;
    const struct dent *dent;
};

struct bulk {
    struct ref refs[REFS_MAX];
    _Alignas(8) char buf[BUF_BYTES];
};

static int ref_compare(const void *a, const void *b)
{
    uint64_t x = ((const struct ref *)a)->ino, y = ((const struct ref *)b)->ino;

    return (x > y) - (x < y);
}

/* Sorts the files among the entries in the buffer by inode. Returns their number. */
static size_t sort_files(struct bulk *b, size_t bytes)
{
    size_t n = 0;

    for (size_t at = 0; at < bytes && n < REFS_MAX;) {
        const struct dent *e = (const void *)(b->buf + at);

        at += e->size;
        if (e->type != DT_DIR && e->type != DT_UNKNOWN)
            b->refs[n++] = (struct ref){.ino = e->ino, .dent = e};
    }
    qsort(b->refs, n, sizeof(b->refs[0]), ref_compare);
    return n;
}

static int remove_files(struct bulk *b, int dirfd, rmtree_unlink_fn *unlink, void *ctx)
{
    long bytes;
    int r;

    while ((bytes = dents_read(dirfd, b->buf, BUF_BYTES)) > 0) {
        size_t n = sort_files(b, (size_t)bytes);

        for (size_t i = 0; i < n; i++) {
            r = unlink(ctx, dirfd, b->refs[i].dent->name);
            if (r < 0 && r != -EISDIR)
                return r;
        }
    }
    return (int)bytes;
}

int rmtree_bulk(int dirfd, rmtree_unlink_fn *unlink, void *ctx)
{
    struct bulk *b = malloc(sizeof(*b));
    int r;

    if (b == NULL)
        return -ENOMEM;
    r = remove_files(b, dirfd, unlink, ctx);
    free(b);
    return r;
}
