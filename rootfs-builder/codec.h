#pragma once

/* Compression of whole streams. Runs in the process that does nothing else (A of worker.c). */

#include <stdint.h>

#include "image/worker-proto.h"

struct err;

/* Counters in shared memory that the processes of a worker update. */
struct shown {
    volatile uint64_t packed;  /* bytes of the archive, read or written */
    volatile uint64_t entries; /* entries of the archive */
};

/* Decompresses `in` to `out` until EOF: gzip (any number of members, and zeros after them), zstd
 * (any number of frames, windows up to WORKER_WINDOW_LOG_MAX), or plain, detected by the first
 * bytes. -EBADMSG for a broken or truncated stream; else an errno of in or out. */
int codec_unpack(int in, int out, struct shown *shown, enum worker_compression *ret,
                 struct err *err);

/* Compresses `in` to `out`. The same input always gives the same output. */
int codec_pack(enum worker_compression kind, int in, int out, struct shown *shown, struct err *err);
