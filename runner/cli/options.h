#pragma once

/*
 * Command line options by table. A table of rows is the only source of accepted options, of
 * `--help` and of the manual page. Accepted spellings: `--name VALUE`, `--name=VALUE`, `-n VALUE`,
 * `-nVALUE`, `-n=VALUE`, groups of flags (`-it`), `--flag=true`, and `--flag=false` for nothing.
 * `--` or the first operand ends the options. Errors are one line with the option as written.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct opt;

/*
 * Stores one option in the caller's struct. `text` is the value (borrowed from argv), NULL for a
 * flag. A negative errno refuses the option; the message is appended to the option's name.
 */
typedef int opt_handler(void *target, const struct opt *o, const char *text, struct err *err);

enum opt_flags {
    OPT_REPEAT = 1 << 0, /* may be repeated; without it the last one wins */
    OPT_STOP = 1 << 1,   /* ends parsing at once (--help); following words are ignored */
    OPT_HIDDEN = 1 << 2, /* accepted, but not shown in help, manual, or suggestions */
    /*
     * An option of another program. It is refused, with or without a value, and `help` is the
     * message: what stands in its place here. Implies OPT_HIDDEN; needs no `set`.
     */
    OPT_FOREIGN = 1 << 3,
    /* The letter alone, or before another option, is that of a later row. Needs `arg`. */
    OPT_SHARED_LETTER = 1 << 4,
};

struct opt {
    const char *name; /* long form, without dashes; NULL ends a table */
    char letter;      /* short form, or 0 */
    const char *arg;  /* name of the value in help; NULL = a flag */
    const char *help; /* no full stop; may hold several sentences */
    opt_handler *set;
    size_t off; /* offset of the member that `set` fills */
    unsigned flags;
};

struct opt_group {
    const char *title;      /* heading in help; NULL: not shown in help and manual */
    const struct opt *rows; /* NULL ends a list of groups */
};

struct opt_rest {
    char **operands;        /* borrowed from argv, NULL-terminated */
    bool dashes;            /* `--` stood before the operands */
    const struct opt *stop; /* the OPT_STOP row that has ended parsing, or NULL */
};

/* Parses argv (NULL-terminated, without the program's name). *ret is set on success only. */
int opts_parse(const struct opt_group *groups, void *target, char **argv, struct opt_rest *ret,
               struct err *err);
/*
 * As opts_parse, but options may also follow operands (`rind rm NAME -f`). Reorders argv, operands
 * last. Words after `--` are operands.
 */
int opts_parse_anywhere(const struct opt_group *groups, void *target, char **argv,
                        struct opt_rest *ret, struct err *err);

/* False for rows that help, manual, completion and suggestions leave out. */
static inline bool opt_is_shown(const struct opt *o)
{
    return (o->flags & (OPT_HIDDEN | OPT_FOREIGN)) == 0;
}

/* Handlers for common members: opt_flag sets a bool, opt_text a const char * (borrowed). */
opt_handler opt_flag, opt_text;

/*
 * Finds the candidate closest to a mistyped word by edit distance. name is NULL if none is close.
 */
struct nearest {
    const char *name; /* best candidate so far, or NULL */
    size_t distance;
};
void nearest_offer(struct nearest *n, const char *text, const char *candidate);
