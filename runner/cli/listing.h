#pragma once

/* Lists: of sandboxes, shared by ls, ps and stats; and the output of any list. */

#include <stdbool.h>

#include "base/buf.h"
#include "cli/list-format.h"
#include "cli/remote.h"

struct list_filter {
    struct buf query; /* "?state=…&label=…" */
    bool quiet;       /* prints ids only */
    bool whole;       /* does not cut commands */
};

struct list_args {
    struct remote remote; /* first */
    struct list_filter filter;
    bool all; /* ps --all */
};

/* Restricts the list to a state; may be called repeatedly. */
int list_state(struct list_filter *f, const char *state, struct err *err);

/* Requests the list: a JSON array, a new reference. */
int list_get(struct client *c, const struct list_filter *f, json_t **ret, struct err *err);
/* Requests and prints the list. Returns the exit status. */
int list_show(const struct remote *r, const struct list_filter *f);

/* How a list is printed. */
struct list_style {
    bool quiet;      /* the member `key` of each element, and nothing else */
    const char *key; /* NULL: there is no --quiet */
    list_row_fn *row;
    int (*print)(const json_t *list); /* prints the table; -ENOMEM */
};
/* Prints a list as --json, --quiet, --format or none of them say. */
int list_output(const struct remote *r, json_t *list, const struct list_style *style,
                struct err *err);

/*
 * Shared by ls and ps: the options --label and --quiet, and a verb's main function. It calls `show`
 * with the operand, or NULL. max: number of operands. Returns the exit status.
 */
extern const struct opt list_options[];
int list_main(const struct verb *v, const struct globals *g, char **argv, size_t max,
              int (*show)(struct list_args *args, const char *name));
