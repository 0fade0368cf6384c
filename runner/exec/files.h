#pragma once

/*
 * File operations in a sandbox. Each is one short process of sandbox-shim inside of it, started
 * from a descriptor, as root or a user of the sandbox: the paths mean what they mean there, and no
 * path of the host's is ever built. They work in every state that init can run in (created,
 * running, paused, stopped).
 *
 * What comes back was written by a process that the sandbox can reach: frames are decoded strictly,
 * bytes of files are passed on and never looked at.
 *
 * At most maxFileOperations run in a sandbox at a time, maxFileQueue wait for their turn.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"

struct err;
struct file_op;
struct sandbox;

enum {
    FILES_INPUT_PAUSE = 256 << 10, /* bytes that wait for stdin: file_op_write says "pause" */
    FILES_PROMPT_MS = 60 * 1000, /* an operation that takes no time by itself (stat, mkdir) is ended
                                    after this: a process inside may have stopped it */
};

struct file_request {
    const char *const *argv; /* command and arguments, ended by NULL; copied */
    const char *user;        /* NULL = root */
    enum frame_stream stream;
    uint32_t max_frame; /* bytes of one data frame */
    bool raw;           /* stdout carries bytes of files; the frames come on stderr */
    bool input;         /* stdin is fed by file_op_write */
    bool pieces;        /* in pieces with a length in front (file-msg.h) */
    bool watch;         /* stays for long and does nothing: not one of maxFileOperations */
    int64_t timeout_ms; /* LIMIT_UNSET = none */
};

/*
 * All are called from the loop, never from within a call of this module; on_frame and on_bytes may
 * call everything but must not expect *f to live on. on_frame: data frames and a first success;
 * errors and the last success are on_done's. on_bytes: true = no more until file_op_resume.
 * on_drain: after file_op_write said "pause". on_done: exactly once, unless cancelled before; the
 * operation is gone afterwards. r: 0, or the negative errno that the sandbox's kernel or the way
 * there said.
 */
struct file_events {
    void (*on_frame)(void *data, const struct frame *f);
    bool (*on_bytes)(void *data, const void *bytes, size_t len);
    void (*on_drain)(void *data);
    void (*on_done)(void *data, int r, const struct err *err);
};

/* -EAGAIN: too many wait; -ENOMEM. Otherwise on_done follows. */
int file_op_start(struct sandbox *s, const struct file_request *request,
                  const struct file_events *events, void *data, struct file_op **ret,
                  struct err *err);
/* Cancels the operation: its process is killed, no callback follows. */
void file_op_cancel(struct file_op *op);

/* Takes all of it; true = write no more until on_drain. What the process does not want any more is
 * dropped: its answer is on the way. */
bool file_op_write(struct file_op *op, const void *data, size_t len);
/* The end of the input; with `pieces`, the empty piece that says that all of it was there. */
void file_op_write_end(struct file_op *op);

/* No on_bytes and no on_frame until resumed. */
void file_op_pause(struct file_op *op);
void file_op_resume(struct file_op *op);
