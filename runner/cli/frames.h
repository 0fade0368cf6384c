#pragma once

/*
 * The frames that a daemon sends over an upgraded connection (api/native/exec-forms.h has the other
 * direction, and their layout). Pure.
 */

#include <stddef.h>
#include <stdint.h>

#include "api/native/exec-forms.h"

struct err;

enum { FRAME_END_MAX = 64 << 10 /* bytes of the last frame's JSON */ };

/* What has come so far; zeroed before the first byte, and freed by frames_done. */
struct frames {
    unsigned char head[EXEC_FRAME_HEAD];
    size_t head_len;
    uint32_t left; /* of the payload */
    char *end;     /* owned; of the last frame, NUL-terminated */
    size_t end_len;
    int end_type; /* EXEC_FRAME_EXIT or EXEC_FRAME_ERROR; 0: it has not come */
};

/* One piece of output: stream 1 or 2. Returns the bytes that were taken: all, or fewer, and then
 * frames_feed returns early. */
typedef size_t frames_output(void *data, int stream, const char *bytes, size_t len);

/* Takes bytes as they come; *ret_used of them. After the last frame nothing is taken any more.
 * -EPROTO: no frame of a daemon's; -ENOMEM. */
int frames_feed(struct frames *f, const char *bytes, size_t len, frames_output *output, void *data,
                size_t *ret_used, struct err *err);
void frames_done(struct frames *f);
