/* Parses and writes the frames of an exec's stream form. Pure. */
#include <errno.h>
#include <string.h>

#include "api/native/exec-forms.h"
#include "base/err.h"
#include "spec/signals.h"

void exec_frame_head(unsigned char head[EXEC_FRAME_HEAD], enum exec_frame type, size_t len)
{
    (void)memset(head, 0, EXEC_FRAME_HEAD);
    head[0] = (unsigned char)type;
    for (int i = 0; i < 4; i++)
        head[4 + i] = (unsigned char)(len >> (24 - 8 * i));
}

static int frame_check_head(struct exec_frames *f, struct err *err)
{
    static const struct {
        uint32_t min, max;
        bool known;
    } sizes[] = {[EXEC_FRAME_STDIN] = {0, EXEC_FRAME_MAX, true},
                 [EXEC_FRAME_STDIN_CLOSE] = {0, 0, true},
                 [EXEC_FRAME_RESIZE] = {4, 4, true},
                 [EXEC_FRAME_SIGNAL] = {1, EXEC_FRAME_SMALL, true},
                 [EXEC_FRAME_DETACH] = {0, 0, true},
                 [EXEC_FRAME_OUTPUT_CLOSE] = {1, 1, true}};
    const unsigned char *h = f->head;

    f->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
    f->small_len = 0;
    if (h[0] >= sizeof(sizes) / sizeof(sizes[0]) || !sizes[h[0]].known)
        return err_set(err, -EPROTO, "frame: type %u is none that a client sends", h[0]);
    if (h[1] != 0 || h[2] != 0 || h[3] != 0)
        return err_set(err, -EPROTO, "frame: the three bytes behind the type must be zero");
    if (f->left < sizes[h[0]].min || f->left > sizes[h[0]].max)
        return err_set(err, -EPROTO, "frame: %u bytes of type %u, not %u to %u", f->left, h[0],
                       sizes[h[0]].min, sizes[h[0]].max);
    return 0;
}

/* Handles a frame whose payload is complete. */
static int frame_complete(struct exec_frames *f, const struct exec_frame_ops *ops, void *data,
                          struct err *err)
{
    const unsigned char *p = f->small;
    int signo, r;

    f->head_len = 0;
    switch (f->head[0]) {
    case EXEC_FRAME_STDIN_CLOSE:
        ops->input_end(data);
        break;
    case EXEC_FRAME_RESIZE:
        ops->resize(data, (uint16_t)(p[0] << 8 | p[1]), (uint16_t)(p[2] << 8 | p[3]));
        break;
    case EXEC_FRAME_SIGNAL:
        f->small[f->small_len] = '\0';
        r = memchr(p, '\0', f->small_len) != NULL
                ? err_set(err, -EINVAL, "signal: holds a NUL byte")
                : signal_parse("signal", (const char *)p, &signo, err);
        if (r < 0)
            return r;
        ops->signal(data, signo);
        break;
    case EXEC_FRAME_DETACH:
        ops->detach(data);
        break;
    case EXEC_FRAME_OUTPUT_CLOSE:
        if (p[0] != 1 && p[0] != 2)
            return err_set(err, -EPROTO, "frame: stream %u has no output", p[0]);
        ops->output_close(data, p[0]);
        break;
    default:
        break; /* stdin was passed on piece by piece */
    }
    return 0;
}

static size_t frame_take_payload(struct exec_frames *f, const char *bytes, size_t len,
                                 const struct exec_frame_ops *ops, void *data)
{
    size_t n = f->left < len ? f->left : len;

    if (f->head[0] == EXEC_FRAME_STDIN) {
        if (n > 0)
            ops->input(data, bytes, n);
    } else {
        (void)memcpy(f->small + f->small_len, bytes, n);
        f->small_len += n;
    }
    f->left -= (uint32_t)n;
    return n;
}

int exec_frames_feed(struct exec_frames *f, const char *bytes, size_t len,
                     const struct exec_frame_ops *ops, void *data, struct err *err)
{
    while (len > 0) {
        size_t n = EXEC_FRAME_HEAD - f->head_len;
        int r = 0;

        if (n > 0) {
            n = n < len ? n : len;
            (void)memcpy(f->head + f->head_len, bytes, n);
            f->head_len += n;
            if (f->head_len == EXEC_FRAME_HEAD)
                r = frame_check_head(f, err);
        } else {
            n = frame_take_payload(f, bytes, len, ops, data);
        }
        if (r == 0 && f->head_len == EXEC_FRAME_HEAD && f->left == 0)
            r = frame_complete(f, ops, data, err);
        if (r < 0)
            return r;
        bytes += n;
        len -= n;
    }
    return 0;
}
