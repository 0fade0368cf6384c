#pragma once

/* Lists of sandboxes, for ls, ps and stats. */

#include <stdbool.h>

#include "base/buf.h"
#include "cli/remote.h"

struct list_filter {
    struct buf query; /* "?state=…&label=…" */
    bool quiet;       /* ids alone */
};

struct list_args {
    struct remote remote; /* first */
    struct list_filter filter;
    bool all; /* ps --all */
};

/* Only those in this state, with this label (KEY or KEY=VALUE); each may be called repeatedly. */
int list_state(struct list_filter *f, const char *state, struct err *err);
int list_label(struct list_filter *f, const char *label, struct err *err);

/* The array of sandboxes; a new reference. */
int list_get(struct client *c, const struct list_filter *f, json_t **ret, struct err *err);
/* As a table; -ENOMEM. */
int list_print(const json_t *list);
/* All of it: asks and prints. Returns the exit status. */
int list_show(const struct remote *r, const struct list_filter *f);

/* What ls and ps have in common: the options --label and --quiet, and a verb's main around `show`,
 * which gets the name that was given, or NULL. max: operands. Returns the exit status. */
extern const struct opt list_options[];
int list_main(const struct verb *v, const struct globals *g, char **argv, size_t max,
              int (*show)(struct list_args *args, const char *name));
