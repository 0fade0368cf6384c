/* Collects records into data frames (cmd.h). */
#include <string.h>

#include "files/cmd.h"

void batch_flush(struct batch *b)
{
    uint8_t head[FRAME_HEADER_SIZE];
    int r;

    if (b->len == 0)
        return;
    frame_put_header(head, FRAME_DATA, (uint32_t)b->len);
    r = shim_write(b->fd, head, sizeof(head));
    if (r == 0)
        r = shim_write(b->fd, b->data, b->len);
    if (r < 0)
        shim_die_errno(r);
    b->len = 0;
}

/* Returns the position for len more bytes. */
static uint8_t *batch_reserve(struct batch *b, size_t len)
{
    if (b->len + len > sizeof(b->data))
        batch_flush(b);
    return b->data + b->len;
}

void batch_add_record(struct batch *b, const struct file_record *r)
{
    b->len += file_put_record(
        batch_reserve(b, (size_t)FILE_RECORD_HEAD + r->name_len + r->target_len), r);
}

void batch_add_event(struct batch *b, const struct file_event *e)
{
    b->len += file_put_event(batch_reserve(b, (size_t)FILE_EVENT_HEAD + e->name_len), e);
}
