#pragma once

/*
 * The user's side of a command in a sandbox: the terminal, whose line editing the sandbox's
 * terminal does; the signals that are passed on to the command; and writes to stdout and stderr.
 * Shared by `rind run` without a daemon and the clients of one.
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

enum {
    TERMINAL_HANGUP_MS = 1000, /* between SIGHUP and SIGKILL for the command after a hang-up */
    TERMINAL_WRITE_MAX = 4096, /* PIPE_BUF: what a writable terminal or pipe takes at once */
};

struct terminal {
    struct termios before;
    int fd; /* borrowed; -1: the terminal was not changed */
};

/*
 * Sets raw mode (typed: stdin is passed on), or only turns off output processing. Does nothing
 * without a terminal.
 */
void terminal_begin(struct terminal *t, bool typed);
/* Restores the settings. Idempotent. */
void terminal_end(struct terminal *t);
/* Size of the terminal at stdout, else at stdin, else 24 x 80. */
void terminal_size(uint16_t *ret_rows, uint16_t *ret_cols);
/* True if the terminal has hung up (window closed, connection lost). */
bool terminal_has_hung_up(void);

/*
 * Blocks the signals that are passed on to the command, and SIGTSTP if `stop`. SIGPIPE is ignored
 * from then on. *ret_before: the previous mask, or NULL. Returns a non-blocking signalfd for the
 * signals, owned by the caller, or a negative errno.
 */
int terminal_take_signals(bool stop, sigset_t *ret_before);

/*
 * Writes as much as fits without blocking. Other processes may share the descriptor, so it stays in
 * blocking mode, and each write is small. is_file: a regular file, whose writes never block.
 * Returns the number of bytes written, -EAGAIN (wait for POLLOUT), or another negative errno.
 */
ssize_t terminal_write(int fd, bool is_file, const void *data, size_t len);
