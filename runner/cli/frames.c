/* The decoder behind frames.h. */

#include "cli/frames.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static bool is_end_frame(int type)
{
    return type == EXEC_FRAME_EXIT || type == EXEC_FRAME_ERROR;
}

static int check_head(struct frames *f, struct err *err)
{
    const unsigned char *h = f->head;

    f->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
    if (h[1] != 0 || h[2] != 0 || h[3] != 0 ||
        (h[0] != EXEC_FRAME_STDOUT && h[0] != EXEC_FRAME_STDERR && !is_end_frame(h[0])))
        return err_set(err, -EPROTO, "the daemon sent a frame of type %u, which is none", h[0]);
    if (f->left > (is_end_frame(h[0]) ? (uint32_t)FRAME_END_MAX : (uint32_t)EXEC_FRAME_MAX))
        return err_set(err, -EPROTO, "the daemon sent a frame of %u bytes", f->left);
    if (is_end_frame(h[0])) {
        f->end = malloc((size_t)f->left + 1);
        if (f->end == NULL)
            return err_errno(err, -ENOMEM, "a frame");
        f->end[0] = '\0';
    }
    return 0;
}

/* Consumes bytes of the payload; returns their number. */
static size_t take_payload(struct frames *f, const char *bytes, size_t len, frames_output *output,
                           void *data)
{
    size_t n = f->left < len ? f->left : len;

    if (n == 0)
        return 0;
    if (is_end_frame(f->head[0])) {
        (void)memcpy(f->end + f->end_len, bytes, n);
        f->end_len += n;
        f->end[f->end_len] = '\0';
    } else {
        n = output(data, f->head[0] == EXEC_FRAME_STDERR ? 2 : 1, bytes, n);
    }
    f->left -= (uint32_t)n;
    return n;
}

int frames_feed(struct frames *f, const char *bytes, size_t len, frames_output *output, void *data,
                size_t *ret_used, struct err *err)
{
    size_t used = 0;
    int r = 0;

    while (r == 0 && used < len && f->end_type == 0) {
        size_t n = EXEC_FRAME_HEAD - f->head_len;

        if (n > 0) {
            n = n < len - used ? n : len - used;
            (void)memcpy(f->head + f->head_len, bytes + used, n);
            f->head_len += n;
            if (f->head_len == EXEC_FRAME_HEAD)
                r = check_head(f, err);
        } else {
            n = take_payload(f, bytes + used, len - used, output, data);
            if (n == 0)
                break; /* output wants no more for now */
        }
        used += n;
        if (r == 0 && f->head_len == EXEC_FRAME_HEAD && f->left == 0) {
            f->end_type = is_end_frame(f->head[0]) ? f->head[0] : 0;
            f->head_len = 0;
        }
    }
    *ret_used = used;
    return r;
}

void frames_done(struct frames *f)
{
    free(f->end);
    f->end = NULL;
    f->end_len = 0;
}
