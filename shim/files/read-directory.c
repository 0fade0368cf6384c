/*
 * The frame begins with its length and the number of entries, and one failed entry makes the whole
 * command fail. So the listing is collected before it is sent. It is kept in its final form, in
 * chunks that are freed as they are sent. Nothing is copied or reallocated, and the memory is that
 * of the payload.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/shim.h"
#include "proto/dents.h"
#include "proto/utf8.h"

enum { READ_BYTES = 65536, CHUNK_BYTES = 262144 };

struct chunk {
    struct chunk *next; /* owned */
    size_t len;
    uint8_t data[CHUNK_BYTES];
};

struct listing {
    struct chunk *first, *last; /* only `first` is owned */
    uint64_t bytes;
    uint64_t count;
};

int shim_entry_type(int dirfd, const char *name, unsigned char d_type)
{
    struct stat st;

    /* DT_* are the shifted type bits of st_mode. */
    if (d_type != DT_UNKNOWN)
        return (int)shim_type_of_mode((mode_t)d_type << 12);
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return (int)shim_type_of_mode(st.st_mode);
}

/* Reserves len bytes in the last chunk. */
static uint8_t *listing_room(struct listing *l, size_t len)
{
    struct chunk *c = l->last;

    if (c == NULL || c->len + len > CHUNK_BYTES) {
        c = malloc(sizeof(*c));
        if (c == NULL)
            shim_die_errno(-ENOMEM);
        c->next = NULL;
        c->len = 0;
        *(l->last == NULL ? &l->first : &l->last->next) = c;
        l->last = c;
    }
    l->bytes += len;
    c->len += len;
    return c->data + c->len - len;
}

static int listing_add(struct listing *l, int dirfd, const struct dent *e)
{
    size_t len = strlen(e->name);
    int type;

    if (dent_is_dot(e))
        return 0;
    if (!utf8_valid(e->name, len))
        return -EILSEQ;
    if (len > FRAME_NAME_MAX)
        shim_die("directory entry name is too long");
    type = shim_entry_type(dirfd, e->name, e->type);
    if (type < 0)
        return type;
    (void)frame_put_entry(listing_room(l, FRAME_ENTRY_HEAD_SIZE + len), (enum frame_type)type,
                          e->name, (uint16_t)len);
    l->count++;
    return 0;
}

static int listing_read(struct listing *l, int fd)
{
    static _Alignas(8) char buf[READ_BYTES];
    long n;
    int r;

    while ((n = dents_read(fd, buf, sizeof(buf))) > 0) {
        for (long at = 0; at < n;) {
            const struct dent *e = (const void *)(buf + at);

            r = listing_add(l, fd, e);
            if (r < 0)
                return r;
            at += e->size;
        }
    }
    return (int)n;
}

static int listing_send(struct listing *l)
{
    uint8_t head[FRAME_HEADER_SIZE + FRAME_COUNT_SIZE];
    int r;

    if (l->bytes + FRAME_COUNT_SIZE > UINT32_MAX)
        shim_die("directory listing is too large");
    frame_put_header(head, FRAME_DATA, (uint32_t)(l->bytes + FRAME_COUNT_SIZE));
    frame_put_count(head + FRAME_HEADER_SIZE, (uint32_t)l->count);
    r = shim_write(STDOUT_FILENO, head, sizeof(head));
    for (struct chunk *c = l->first, *next; r == 0 && c != NULL; c = next) {
        r = shim_write(STDOUT_FILENO, c->data, c->len);
        next = c->next;
        free(c);
    }
    if (r < 0)
        shim_die_errno(r);
    return EXIT_ANSWERED;
}

int shim_cmd_read_directory(char **args)
{
    struct listing l = {.first = NULL};
    int fd = shim_open(args[0], O_RDONLY | O_DIRECTORY, 0);
    int r = fd < 0 ? fd : listing_read(&l, fd);

    return r < 0 ? shim_answer_error(STDOUT_FILENO, r) : listing_send(&l);
}
