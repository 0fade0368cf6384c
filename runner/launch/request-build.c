/* The writing half of a request to the launcher (request.h). Pure; runs in the supervisor, and in
 * `rind run` without a daemon. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "launch/request.h"

/* A failed append sets buf.max to 0, so that every later one and launch_end fail too. */
static void request_append(struct buf *b, const void *data, size_t len)
{
    if (buf_append(b, data, len) < 0)
        b->max = 0;
}

void launch_begin(struct buf *b, enum launch_verb verb)
{
    struct launch_wire w = {
        .magic = LAUNCH_MAGIC, .version = LAUNCH_VERSION, .verb = (uint16_t)verb};

    b->max = LAUNCH_SIZE_MAX;
    request_append(b, &w, sizeof(w));
}

void launch_put(struct buf *b, enum launch_tag tag, uint16_t flags, const void *data, size_t len)
{
    static const char zero[8];
    uint16_t tag16 = (uint16_t)tag;
    uint32_t len32 = (uint32_t)len;
    uint32_t count;

    request_append(b, &tag16, 2);
    request_append(b, &flags, 2);
    request_append(b, &len32, 4);
    request_append(b, data, len);
    request_append(b, zero, (8 - len % 8) % 8);
    if (b->max == 0)
        return;
    (void)memcpy(&count, b->data + offsetof(struct launch_wire, record_count), sizeof(count));
    count++;
    (void)memcpy(b->data + offsetof(struct launch_wire, record_count), &count, sizeof(count));
}

void launch_put_string(struct buf *b, enum launch_tag tag, const char *text)
{
    launch_put(b, tag, 0, text, strlen(text) + 1);
}

void launch_put_number(struct buf *b, enum launch_tag tag, uint64_t value)
{
    launch_put(b, tag, 0, &value, sizeof(value));
}

static void put_with_string(struct buf *b, enum launch_tag tag, uint16_t flags, uint64_t number,
                            const char *text)
{
    auto_buf struct buf tmp = BUF_INIT(LAUNCH_SIZE_MAX);

    if (buf_append(&tmp, &number, sizeof(number)) < 0 ||
        buf_append(&tmp, text, strlen(text) + 1) < 0)
        b->max = 0;
    else
        launch_put(b, tag, flags, tmp.data, tmp.len);
}

void launch_put_volume(struct buf *b, const struct launch_volume *v)
{
    const uint16_t flags = (uint16_t)((v->read_only ? LAUNCH_VOLUME_READ_ONLY : 0) |
                                      (v->make ? LAUNCH_VOLUME_MAKE_SOURCE : 0));
    auto_buf struct buf tmp = BUF_INIT(LAUNCH_SIZE_MAX);

    if (v->named) {
        if (buf_append(&tmp, v->source, strlen(v->source) + 1) < 0 ||
            buf_append(&tmp, v->target, strlen(v->target) + 1) < 0)
            b->max = 0;
        else
            launch_put(b, TAG_NAMED_VOLUME, v->read_only ? 1 : 0, tmp.data, tmp.len);
        return;
    }
    if (buf_append(&tmp, &v->uid, sizeof(v->uid)) < 0 ||
        buf_append(&tmp, &v->gid, sizeof(v->gid)) < 0 ||
        buf_append(&tmp, v->source, strlen(v->source) + 1) < 0 ||
        buf_append(&tmp, v->target, strlen(v->target) + 1) < 0)
        b->max = 0;
    else
        launch_put(b, TAG_VOLUME, flags, tmp.data, tmp.len);
}

void launch_put_tmpfs(struct buf *b, const struct launch_tmpfs *t)
{
    const uint16_t flags = (uint16_t)((t->read_only ? LAUNCH_TMPFS_READ_ONLY : 0) |
                                      (t->no_exec ? LAUNCH_TMPFS_NO_EXEC : 0));

    put_with_string(b, TAG_TMPFS, flags, t->bytes, t->target);
    if (t->has_root)
        launch_put(b, TAG_TMPFS_ROOT, 0, &t->root, sizeof(t->root));
}

void launch_put_io(struct buf *b, const struct launch_io *io)
{
    auto_buf struct buf tmp = BUF_INIT(sizeof(io->rates) + LAUNCH_IO_PATH_MAX + 1);

    if (buf_append(&tmp, io->rates, sizeof(io->rates)) < 0 ||
        buf_append(&tmp, io->path, strlen(io->path) + 1) < 0)
        b->max = 0;
    else
        launch_put(b, TAG_IO, 0, tmp.data, tmp.len);
}

void launch_put_rlimit(struct buf *b, const struct launch_rlimit *r)
{
    launch_put(b, TAG_RLIMIT, 0, r, sizeof(*r));
}

void launch_put_host(struct buf *b, const struct launch_host *h)
{
    auto_buf struct buf tmp = BUF_INIT(sizeof(*h));

    if (buf_append(&tmp, &h->addr, sizeof(h->addr)) < 0 ||
        buf_append(&tmp, h->name, strlen(h->name) + 1) < 0)
        b->max = 0;
    else
        launch_put(b, TAG_NET_HOST, 0, tmp.data, tmp.len);
}

void launch_put_net(struct buf *b, const struct launch_net *n)
{
    auto_buf struct buf tmp = BUF_INIT(LAUNCH_SIZE_MAX);

    if (buf_append(&tmp, n->name, strlen(n->name) + 1) < 0 ||
        buf_append(&tmp, n->aliases, strlen(n->aliases) + 1) < 0)
        b->max = 0;
    else
        launch_put(b, TAG_NET_MORE, 0, tmp.data, tmp.len);
}

void launch_put_counter(struct buf *b, const struct launch_counter *c)
{
    put_with_string(b, TAG_COUNTER, 0, c->limit, c->name);
}

void launch_put_bind(struct buf *b, const struct address *a, bool udp)
{
    struct launch_bind bind = {.family = (uint16_t)a->family, .port = a->port, .udp = udp};

    (void)memcpy(bind.bytes, a->bytes, sizeof(bind.bytes));
    launch_put(b, TAG_BIND, 0, &bind, sizeof(bind));
}

int launch_end(struct buf *b)
{
    uint32_t size = (uint32_t)b->len;

    if (b->max == 0)
        return -E2BIG;
    (void)memcpy(b->data + offsetof(struct launch_wire, size), &size, sizeof(size));
    return 0;
}
