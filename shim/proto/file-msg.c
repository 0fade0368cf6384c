#include "proto/file-msg.h"

#include <errno.h>
#include <string.h>

static uint8_t *put_le(uint8_t *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(value >> (8 * i));
    return out + size;
}

static uint64_t get_le(const uint8_t **at, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)(*at)[i] << (8 * i);
    *at += size;
    return value;
}

/* Two's complement without relying on an out-of-range conversion. */
static int64_t get_le_signed(const uint8_t **at)
{
    uint64_t v = get_le(at, 8);

    return v <= INT64_MAX ? (int64_t)v : -(int64_t)(~v) - 1;
}

size_t file_put_record(uint8_t *out, const struct file_record *r)
{
    uint8_t *p = out;

    p = put_le(p, r->type, 1);
    p = put_le(p, r->flags, 1);
    p = put_le(p, r->error, 2);
    p = put_le(p, r->mode, 4);
    p = put_le(p, r->uid, 4);
    p = put_le(p, r->gid, 4);
    p = put_le(p, r->nlink, 4);
    p = put_le(p, r->rdev_major, 4);
    p = put_le(p, r->rdev_minor, 4);
    p = put_le(p, r->size, 8);
    p = put_le(p, r->ino, 8);
    p = put_le(p, (uint64_t)r->atime, 8);
    p = put_le(p, (uint64_t)r->mtime, 8);
    p = put_le(p, (uint64_t)r->ctime, 8);
    p = put_le(p, r->atime_ns, 4);
    p = put_le(p, r->mtime_ns, 4);
    p = put_le(p, r->ctime_ns, 4);
    p = put_le(p, r->name_len, 2);
    p = put_le(p, r->target_len, 2);
    if (r->name_len > 0)
        memcpy(p, r->name, r->name_len);
    p += r->name_len;
    if (r->target_len > 0)
        memcpy(p, r->target, r->target_len);
    return (size_t)(p - out) + r->target_len;
}

size_t file_put_event(uint8_t *out, const struct file_event *e)
{
    uint8_t *p = out;

    p = put_le(p, e->kind, 1);
    p = put_le(p, e->directory, 1);
    p = put_le(p, e->name_len, 2);
    p = put_le(p, e->cookie, 4);
    p = put_le(p, 0, 4);
    if (e->name_len > 0)
        memcpy(p, e->name, e->name_len);
    return (size_t)(p - out) + e->name_len;
}

void file_put_chunk(uint8_t out[FILE_CHUNK_HEAD], uint32_t len)
{
    (void)put_le(out, len, FILE_CHUNK_HEAD);
}

uint32_t file_get_chunk(const uint8_t in[FILE_CHUNK_HEAD])
{
    return (uint32_t)get_le(&in, FILE_CHUNK_HEAD);
}

/* Takes len bytes of text without NUL at *at; advances *at. */
static bool get_text(const uint8_t **at, const uint8_t *end, size_t len, const char **ret)
{
    if (len > FILE_PATH_MAX || (size_t)(end - *at) < len || memchr(*at, '\0', len) != NULL)
        return false;
    *ret = (const char *)*at;
    *at += len;
    return true;
}

int file_next_record(const uint8_t **at, const uint8_t *end, struct file_record *ret)
{
    const uint32_t second = 1000000000;
    struct file_record r = {.flags = 0};
    const uint8_t *p = *at;
    unsigned type;

    if (p == end)
        return 0;
    if (end - p < FILE_RECORD_HEAD)
        return -EPROTO;
    type = (unsigned)get_le(&p, 1);
    r.flags = (uint8_t)get_le(&p, 1);
    r.error = (uint16_t)get_le(&p, 2);
    r.mode = (uint32_t)get_le(&p, 4);
    r.uid = (uint32_t)get_le(&p, 4);
    r.gid = (uint32_t)get_le(&p, 4);
    r.nlink = (uint32_t)get_le(&p, 4);
    r.rdev_major = (uint32_t)get_le(&p, 4);
    r.rdev_minor = (uint32_t)get_le(&p, 4);
    r.size = get_le(&p, 8);
    r.ino = get_le(&p, 8);
    r.atime = get_le_signed(&p);
    r.mtime = get_le_signed(&p);
    r.ctime = get_le_signed(&p);
    r.atime_ns = (uint32_t)get_le(&p, 4);
    r.mtime_ns = (uint32_t)get_le(&p, 4);
    r.ctime_ns = (uint32_t)get_le(&p, 4);
    r.name_len = (uint16_t)get_le(&p, 2);
    r.target_len = (uint16_t)get_le(&p, 2);
    if (type > FRAME_TYPE_SOCKET || r.atime_ns >= second || r.mtime_ns >= second ||
        r.ctime_ns >= second || ((r.flags & FILE_FAILED) != 0) != (r.error != 0) ||
        r.error > FILE_PATH_MAX)
        return -EPROTO;
    r.type = (enum frame_type)type;
    if (!get_text(&p, end, r.name_len, &r.name) || !get_text(&p, end, r.target_len, &r.target))
        return -EPROTO;
    *ret = r;
    *at = p;
    return 1;
}

int file_next_event(const uint8_t **at, const uint8_t *end, struct file_event *ret)
{
    struct file_event e = {.kind = FILE_EVENT_INVALID};
    const uint8_t *p = *at;
    unsigned kind, directory;

    if (p == end)
        return 0;
    if (end - p < FILE_EVENT_HEAD)
        return -EPROTO;
    kind = (unsigned)get_le(&p, 1);
    directory = (unsigned)get_le(&p, 1);
    e.name_len = (uint16_t)get_le(&p, 2);
    e.cookie = (uint32_t)get_le(&p, 4);
    if (get_le(&p, 4) != 0 || kind == FILE_EVENT_INVALID || kind >= FILE_EVENT_MAX || directory > 1)
        return -EPROTO;
    e.kind = (enum file_event_kind)kind;
    e.directory = directory == 1;
    if (!get_text(&p, end, e.name_len, &e.name))
        return -EPROTO;
    *ret = e;
    *at = p;
    return 1;
}
