#pragma once

/* The answer of a token server (distribution's token and OAuth forms). Hostile JSON.
 * Pure. */

#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

struct err;

enum {
    TOKEN_ANSWER_MAX = 1 << 20, /* bytes of the JSON */
    TOKEN_MAX = 64 << 10,       /* bytes of a token: it has to fit into a header */
    TOKEN_LIFETIME = 60,        /* seconds, if the answer names none or a shorter one */
    TOKEN_LIFETIME_MAX = 24 * 3600,
};

struct token {
    char *text;       /* owned; printable ASCII */
    char *refresh;    /* owned; NULL = none */
    int64_t lifetime; /* seconds from `now` on */
};

/* Parses an answer. now: seconds since the epoch. -EINVAL, -EFBIG; the message quotes nothing. */
int token_parse(const char *text, size_t len, int64_t now, struct token **ret, struct err *err);
void token_free(struct token *t);
DEFINE_AUTO(struct token, token_free);
