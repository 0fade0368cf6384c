#pragma once

/* Our own terminal, while a sandbox's terminal does the line editing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

struct terminal {
    struct termios before;
    int fd; /* borrowed; -1: no terminal was changed */
};

/* Hands keys on as they are (typed: stdin is passed on), or only leaves line ends alone. What is no
 * terminal stays as it is. */
void terminal_begin(struct terminal *t, bool typed);
/* Puts back what was. Idempotent. */
void terminal_end(struct terminal *t);
/* Of stdout's terminal, else of stdin's; 24 x 80 where there is none. */
void terminal_size(uint16_t *ret_rows, uint16_t *ret_cols);
/* Whether our terminal is gone (its window closed, its connection lost). */
bool terminal_has_hung_up(void);

/*
 * Keys that detach: a sequence that is looked for in what is typed. What may be its beginning is
 * held back until the next key shows that it is not.
 */
enum { KEYS_MAX = 8 };
struct keys {
    unsigned char keys[KEYS_MAX];
    unsigned count;   /* 0: nothing detaches */
    unsigned matched; /* of them, held back */
};

/* "ctrl-p,ctrl-q", "ctrl-]", "q", "" (none). -EINVAL. */
int keys_parse(const char *text, struct keys *ret);
/* Copies len bytes to out (room for len + KEYS_MAX), less what is held back. *ret_len: how many.
 * Returns whether the sequence is complete: then what follows it is dropped. */
bool keys_filter(struct keys *k, const char *bytes, size_t len, char *out, size_t *ret_len);
