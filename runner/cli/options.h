#pragma once

/*
 * Command line options by table. A table of rows is the one source of what is accepted, of
 * `--help`, and of the manual page. Accepted spellings: `--name VALUE`, `--name=VALUE`, `-n VALUE`,
 * `-nVALUE`, `-n=VALUE`, bundles of flags (`-it`). `--` or the first operand ends the options.
 * Every refusal is one line that names the option as it was written.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct opt;

/*
 * Puts one option into the caller's struct. `text` is the value (borrowed from argv), NULL for a
 * flag. A negative errno refuses it; the message is put behind the option's name.
 */
typedef int opt_handler(void *target, const struct opt *o, const char *text, struct err *err);

enum opt_flags {
    OPT_REPEAT = 1 << 0, /* may be given more than once; else the last one wins */
    OPT_STOP = 1 << 1,   /* ends parsing right there (--help): nothing behind it is looked at */
    OPT_HIDDEN = 1 << 2, /* works, but is not in help, manual, or suggestions */
};

struct opt {
    const char *name; /* long form, without dashes; NULL ends a table */
    char letter;      /* short form, or 0 */
    const char *arg;  /* what the value is called in help; NULL = a flag */
    const char *help; /* no full stop; may hold several sentences */
    opt_handler *set;
    size_t off; /* of the member that `set` fills */
    unsigned flags;
};

struct opt_group {
    const char *title;      /* heading in help */
    const struct opt *rows; /* NULL ends a list of groups */
};

struct opt_rest {
    char **operands;        /* borrowed from argv, NULL-terminated */
    bool dashes;            /* `--` stood before the operands */
    const struct opt *stop; /* the OPT_STOP row that ended parsing, or NULL */
};

/* Parses argv (NULL-terminated, without the program's name). *ret is set on success only. */
int opts_parse(const struct opt_group *groups, void *target, char **argv, struct opt_rest *ret,
               struct err *err);
/* The same where options may also stand between and behind the operands (`rind rm NAME -f`): argv
 * is put in order, operands last. What stands behind `--` is an operand. */
int opts_parse_anywhere(const struct opt_group *groups, void *target, char **argv,
                        struct opt_rest *ret, struct err *err);

/* Handlers for common members of the target: bool = true; const char * = text (borrowed). */
opt_handler opt_flag, opt_text;

/* The name that is nearest to `text` by edit distance, or NULL when none is near. For verbs. */
struct nearest {
    const char *name; /* of the best candidate so far, or NULL */
    size_t distance;
};
void nearest_offer(struct nearest *n, const char *text, const char *candidate);
