#pragma once

/* Compression of whole streams: what happens in the process that does nothing else (A of worker.c).
 */

#include <stdint.h>

#include "image/worker-proto.h"

struct err;

/* What the processes of a worker show each other while they work. */
struct shown {
    volatile uint64_t packed;  /* bytes of the archive read, or written */
    volatile uint64_t entries; /* of the archive */
};

/*
 * From in to out until the end: gzip (any number of members, and zeros behind them), zstd (any
 * number of frames, windows up to WORKER_WINDOW_LOG_MAX), or plain, as the first bytes tell.
 * -EBADMSG for a broken or truncated stream, and what it is; else errno of in or out.
 */
int codec_unpack(int in, int out, struct shown *shown, enum worker_compression *ret,
                 struct err *err);

/* The other way. Always the same bytes for the same bytes. */
int codec_pack(enum worker_compression kind, int in, int out, struct shown *shown, struct err *err);
