#pragma once

/*
 * Detach keys: a sequence searched for in typed input. A possible prefix is held back until the
 * next byte decides.
 */

#include <stdbool.h>
#include <stddef.h>

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
