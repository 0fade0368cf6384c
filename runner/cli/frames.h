#pragma once

/*
 * Decodes the frames that the daemon sends over an upgraded connection. api/native/exec-forms.h has
 * the layout and the opposite direction. Pure.
 */

#include <stddef.h>
#include <stdint.h>

#include "api/native/exec-forms.h"

struct err;

enum { FRAME_END_MAX = 64 << 10 /* bytes of the last frame's JSON */ };

/* State of the decoder; zeroed before the first byte, released by frames_done. */
struct frames {
    unsigned char head[EXEC_FRAME_HEAD];
    size_t head_len;
    uint32_t left; /* remaining bytes of the payload */
    char *end;     /* owned; payload of the last frame, NUL-terminated */
    size_t end_len;
    int end_type; /* EXEC_FRAME_EXIT or EXEC_FRAME_ERROR; 0: not received yet */
};

/*
 * Receives a piece of output; stream 1 or 2. Returns the number of bytes consumed; with fewer than
 * len, frames_feed returns early.
 */
typedef size_t frames_output(void *data, int stream, const char *bytes, size_t len);

/*
 * Decodes bytes; consumes *ret_used of them, and none after the last frame. -EPROTO: invalid frame;
 * -ENOMEM.
 */
int frames_feed(struct frames *f, const char *bytes, size_t len, frames_output *output, void *data,
                size_t *ret_used, struct err *err);
void frames_done(struct frames *f);
