#pragma once

/*
 * The input and output of one exec on the loop, by its sockets to init: output is read while its
 * taker wants it, input is written as fast as the process takes it. Nothing is buffered but one
 * piece of input that the process has not taken yet: a taker that does not read makes the process
 * wait, and a writer that is too fast is told so.
 *
 * When the process has exited, init still moves what is in its pipes at that moment, and then the
 * output has ended, whichever process may hold the other ends: a background child that lives on
 * does not keep an exec open.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/exec.h"

struct err;
struct buf;
struct exec_io;
struct sandbox;

enum {
    EXEC_IO_CHUNK = 64 << 10,    /* bytes of one call of output, at most */
    EXEC_IO_BULK = 16 << 10,     /* from so many at a time on they may go by pipe */
    EXEC_IO_INPUT_MAX = 8 << 20, /* bytes of input that wait, at most */
};

/* Callbacks run from the loop, never from within a call of this module. exec_io_close may be called
 * from each. */
struct exec_io_ops {
    void (*started)(void *data);
    /* The exec could not be started (or attached to); only exec_io_close may follow. */
    void (*failed)(void *data, const struct err *err, int exit_code);
    /* stream: 1 or 2 (a terminal has 1 alone). false: no more before exec_io_resume. */
    bool (*output)(void *data, int stream, const char *bytes, size_t len);
    /*
     * Output in bulk, without a copy: takes_pipe is asked before each piece whether it can go by
     * pipe now; then `piped` is called in the place of `output`, unless the piece is small. No
     * other process has that pipe. Bytes of the len that are not taken from within the call are
     * dropped. Both may be NULL.
     */
    bool (*takes_pipe)(void *data);
    bool (*piped)(void *data, int stream, int pipe, size_t len);
    /* All bytes given to exec_io_write have gone to the process. May be NULL. */
    void (*writable)(void *data);
    /* The process has exited, and all output has been delivered. */
    void (*ended)(void *data);
};

/* Starts an exec, or takes up one that was kept; *ret is to be closed. */
int exec_io_start(struct sandbox *s, const struct exec_options *o, const struct exec_io_ops *ops,
                  void *data, struct exec_io **ret, struct err *err);
int exec_io_attach(struct exec *e, const struct exec_io_ops *ops, void *data, struct exec_io **ret,
                   struct err *err);
/*
 * Takes one that runs, that has no listener, and whose sockets were not taken: from within its
 * owner's `started`, so that nothing of a short life is missed. `started` is not called.
 */
int exec_io_take(struct exec *e, const struct exec_io_ops *ops, void *data, struct exec_io **ret,
                 struct err *err);
/* Borrowed; valid until exec_io_close. */
struct exec *exec_io_exec(const struct exec_io *io);
void exec_io_resume(struct exec_io *io);
/* Takes everything. false: `writable` follows, and no more should be given before it. What the
 * process does not want any more is dropped. -> true */
bool exec_io_write(struct exec_io *io, const void *data, size_t len);
/* The process sees the end of its input behind what was written; a terminal gets an end-of-file
 * character. */
void exec_io_end_input(struct exec_io *io);
/* Before it has started: all of its stdin, which is taken, and the end of it. */
void exec_io_give(struct exec_io *io, struct buf *input);
/* Stops reading stdout (1) or stderr (2): the process gets SIGPIPE. A terminal's output is read and
 * dropped. */
void exec_io_close_output(struct exec_io *io, int stream);
/* Its sockets are closed, and it goes on without: a terminal's processes are hung up, if it is not
 * kept. `ended` follows. */
void exec_io_hang_up(struct exec_io *io);
/* Lets go: an exec that is not kept is killed with all of its leaf. No callback comes any more. */
void exec_io_close(struct exec_io *io);
