/* Any bytes into the shim's archive reader: every entry keeps its contract, every refusal says why,
 * and what is read can be written and read again. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
    const uint8_t *data;
    size_t len, pos;
};

static void must(int condition)
{
    if (!condition)
        abort();
}

static ssize_t read_memory(void *data, void *buf, size_t len)
{
    struct memory *m = data;

    if (len > m->len - m->pos)
        len = m->len - m->pos;
    memcpy(buf, m->data + m->pos, len);
    m->pos += len;
    return (ssize_t)len;
}

static void check_clean(const char *name)
{
    char clean[FILE_PATH_MAX + 1];

    if (tar_clean_name(name, clean) < 0)
        return;
    must(clean[0] != '/' && strlen(clean) <= strlen(name));
    for (const char *at = clean; *at != '\0';) {
        size_t len = strcspn(at, "/");

        must(len > 0 && !(len == 1 && at[0] == '.') && !(len == 2 && at[0] == '.' && at[1] == '.'));
        at += len;
        if (*at == '/') {
            at++;
            must(*at != '\0');
        }
    }
}

static void check_again(const struct tar_item *item)
{
    static uint8_t out[TAR_HEAD_MAX];
    static struct tar_in in;
    static struct tar_item again;
    ssize_t n = tar_put_item(out, item);
    struct memory m = {.data = out, .len = n > 0 ? (size_t)n : 0};

    if (n < 0)
        return;
    memset(&in, 0, offsetof(struct tar_in, pax));
    in.read = read_memory;
    in.data = &m;
    must(tar_read(&in, &again) == 1);
    must(again.size == item->size && again.mode == item->mode && again.mtime == item->mtime);
    must(again.xattr_count == item->xattr_count);
}

static void check_item(const struct tar_item *item)
{
    must(item->kind >= TAR_REGULAR && item->kind <= TAR_PIPE);
    must(strlen(item->name) <= FILE_PATH_MAX && strlen(item->link) <= FILE_PATH_MAX);
    must(item->mode <= 07777 && item->uid <= TAR_ID_MAX && item->gid <= TAR_ID_MAX);
    must(item->mtime_ns < 1000000000 && item->xattr_count <= TAR_XATTRS_MAX);
    must(item->kind == TAR_REGULAR || item->size == 0);
    for (size_t i = 0; i < item->xattr_count; i++)
        must(strlen(item->xattrs[i].name) < TAR_PAX_MAX && item->xattrs[i].len < TAR_PAX_MAX);
    check_clean(item->name);
    check_clean(item->link);
    if (!item->sparse)
        check_again(item);
}

static void check_map(const struct tar_in *in, const struct tar_item *item)
{
    uint64_t at = 0, sum = 0;

    must(item->kind == TAR_REGULAR && in->map_count <= TAR_SPARSE_MAX);
    for (size_t i = 0; i < in->map_count; i++) {
        must(in->map[i].offset >= at && in->map[i].len <= item->real_size);
        at = in->map[i].offset + in->map[i].len;
        must(at <= item->real_size);
        sum += in->map[i].len;
    }
    must(sum == item->size);
}

static void read_archive(const uint8_t *data, size_t size, struct tar_piece *map)
{
    static struct tar_in in;
    static struct tar_item item;
    struct memory m = {.data = data, .len = size};
    char buf[700];
    int r;

    memset(&in, 0, offsetof(struct tar_in, pax));
    in.read = read_memory;
    in.data = &m;
    in.map = map;
    while ((r = tar_read(&in, &item)) > 0) {
        ssize_t n;

        must(map != NULL || !item.sparse);
        check_item(&item);
        if (item.sparse)
            check_map(&in, &item);
        n = tar_read_data(&in, buf, sizeof(buf));
        must(n <= (ssize_t)sizeof(buf) && (uint64_t)(n > 0 ? n : 0) <= item.size);
    }
    must(r == 0 || in.why != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tar_piece map[TAR_SPARSE_MAX];

    read_archive(data, size, NULL);
    read_archive(data, size, map);
    return 0;
}
