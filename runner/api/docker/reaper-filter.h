#pragma once

/* What a client tells Ryuk, testcontainers' reaper: one filter a line, "label=K=V&label=K", in the
 * form of a URL's query. Pure. */

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"

struct err;

enum {
    REAPER_LINE_MAX = 8 << 10, /* bytes of a line */
    REAPER_LABELS_MAX = 32,    /* labels of a filter */
    REAPER_SECRET_MIN = 8,     /* bytes of a session's id */
};

struct reaper_filter {
    char *labels[REAPER_LABELS_MAX + 1]; /* owned: "K=V" or "K"; NULL-terminated */
};

/* Parses a line without its end. -EINVAL: another key than "label", no label at all, bad escapes.
 * A filter without labels would match everything. The caller frees *ret. */
int reaper_filter_parse(const char *line, size_t len, struct reaper_filter **ret, struct err *err);
void reaper_filter_free(struct reaper_filter *f);
DEFINE_AUTO(struct reaper_filter, reaper_filter_free);
/* True if these "K=V" strings (may be NULL) contain every label of the filter. */
bool reaper_filter_match(const struct reaper_filter *f, char *const *labels);
bool reaper_filter_equal(const struct reaper_filter *a, const struct reaper_filter *b);
/* True if a label of the filter has the id of the reaper's session as its value: the value of one
 * of the reaper's own labels with "session" in its key, or the end of its name. Values of fewer
 * than REAPER_SECRET_MIN bytes do not count. */
bool reaper_filter_knows_session(const struct reaper_filter *f, const char *name,
                                 char *const *labels);
