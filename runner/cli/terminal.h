#pragma once

/* The user's own terminal, while a sandbox's terminal does the line editing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

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
 * Detach keys: a sequence searched for in typed input. A possible prefix is held back until the
 * next byte decides.
 */
enum { KEYS_MAX = 8 };
struct keys {
    unsigned char keys[KEYS_MAX];
    unsigned count;   /* 0: no detach keys */
    unsigned matched; /* number of matched keys held back */
};

/* Parses "ctrl-p,ctrl-q", "ctrl-]", "q", "" (none). -EINVAL. */
int keys_parse(const char *text, struct keys *ret);
/*
 * Copies len bytes to out (room for len + KEYS_MAX), except the bytes held back. *ret_len: bytes in
 * out. Returns true if the sequence is complete; the bytes after it are then dropped.
 */
bool keys_filter(struct keys *k, const char *bytes, size_t len, char *out, size_t *ret_len);
