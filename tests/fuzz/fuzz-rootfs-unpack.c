/*
 * Any bytes into the unpacker, as a layer over two others: nothing outside its tree changes, every
 * refusal says why, and what was made can be packed and unpacked again to as many entries.
 *
 * Runs as whoever runs it, in a directory of its own on a tmpfs where there is one.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "pack.h"
#include "proto/rmtree.h"
#include "tarball.h"
#include "unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int outer_fd = -1, parents[2] = {-1, -1};
static char top[64];

static void must(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "%s\n", what);
        abort();
    }
}

static void at_end(void)
{
    (void)rmtree_at(AT_FDCWD, top, 0);
}

static int make_dir(int at, const char *name)
{
    must(mkdirat(at, name, 0755) == 0, "mkdir");
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void put(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    must(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "write");
    (void)close(fd);
}

static void set_up(void)
{
    int d;

    (void)snprintf(top, sizeof(top), "%s/rind-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(top) != NULL, "mkdtemp");
    (void)atexit(at_end);
    outer_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put(outer_fd, "canary", "untouched");
    for (int i = 0; i < 2; i++) {
        parents[i] = make_dir(outer_fd, i == 0 ? "p0" : "p1");
        d = make_dir(parents[i], "d");
        put(d, i == 0 ? "f" : "g", "below");
        (void)close(d);
        put(parents[i], i == 0 ? "a" : "b", "below");
        must(symlinkat("d", parents[i], "l") == 0, "symlink");
    }
}

static unsigned count_names(int at)
{
    DIR *d = fdopendir(openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    unsigned n = 0;

    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n;
}

/* "p0", "p1", "tree", the canary, and nothing has changed in them. */
static void check_outside(void)
{
    char text[32] = "";
    int fd = openat(outer_fd, "canary", O_RDONLY | O_CLOEXEC);

    must(read(fd, text, sizeof(text) - 1) == 9 && strcmp(text, "untouched") == 0, "the canary");
    (void)close(fd);
    must(count_names(outer_fd) == 2 + 4, "names outside");
    must(count_names(parents[0]) == 2 + 3 && count_names(parents[1]) == 2 + 3, "layers below");
}

struct stream {
    uint8_t *bytes;
    size_t len, cap;
};

static int gather(void *data, const void *bytes, size_t len, struct err *err)
{
    struct stream *s = data;

    if (s->len + len > s->cap) {
        s->cap = (s->cap + len) * 2;
        s->bytes = realloc(s->bytes, s->cap);
        must(s->bytes != NULL, "memory");
    }
    if (len > 0)
        (void)memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    (void)err;
    return 0;
}

static int unpack_into(int tree, const void *data, size_t size, bool plain, bool bottom,
                       struct unpack_result *result)
{
    struct unpack_options o = {.tree_fd = tree,
                               .parents = parents,
                               .parent_count = plain || bottom ? 0 : 2,
                               .plain = plain,
                               .bottom = bottom,
                               .keep_owner = geteuid() != 0,
                               .files = 1 << 20,
                               .entries = 64};
    char entry[PATH_ROOM];
    struct err err = ERR_NONE;
    struct tarball t;
    int r;

    o.opaque_fd = memfd_create("opaque", MFD_CLOEXEC);
    r = tarball_open_memory(&t, data, size, &err);
    if (r == 0)
        r = tree_unpack(&t, &o, result, entry, &err);
    must(r == 0 || (r < 0 && err.code == r && err.msg[0] != '\0'), "a refusal says why");
    must(result->entries <= o.entries && result->files <= o.files, "limits");
    tarball_close(&t);
    (void)close(o.opaque_fd);
    return r;
}

static void pack_again(int tree)
{
    struct pack_options o = {.tree_fd = tree,
                             .sub = "",
                             .prefix = "",
                             .overlay = true,
                             .files = 1 << 24,
                             .entries = 1000};
    struct stream s = {.bytes = NULL};
    const struct pack_sink sink = {.data = &s, .bytes = gather};
    struct unpack_result unpacked;
    struct pack_result packed;
    char entry[PATH_ROOM];
    struct err err = ERR_NONE;
    int again;

    must(tree_pack(&o, &sink, &packed, entry, &err) == 0, err.msg);
    again = make_dir(tree, ".again");
    if (unpack_into(again, s.bytes, s.len, true, false, &unpacked) == 0)
        must(unpacked.entries + packed.devices == packed.entries, "as many entries");
    free(s.bytes);
    (void)close(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct unpack_result result = {.files = 0};
    int tree;

    if (outer_fd < 0)
        set_up();
    if (size == 0)
        return 0;
    tree = make_dir(outer_fd, "tree");
    /* The first byte says what it is. */
    if (unpack_into(tree, data + 1, size - 1, (data[0] & 1) != 0, (data[0] & 2) != 0, &result) == 0)
        pack_again(tree);
    check_outside();
    (void)close(tree);
    must(rmtree_at(outer_fd, "tree", RMTREE_CHMOD) == 0, "remove it");
    return 0;
}
