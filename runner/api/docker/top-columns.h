#pragma once

/* The columns of `docker top`: which ones ps_args asks for, and what stands in them. Pure. */

#include <stdint.h>

struct err;
struct launch_process;

enum { TOP_COLUMNS_MAX = 24, TOP_CELL_MAX = 40 };

struct top_column;

struct top_format {
    const struct top_column *columns[TOP_COLUMNS_MAX];
    unsigned count;
};

/* Parses arguments of ps(1): "-ef", "aux", "-o pid,comm" and the like; "" is "-ef". -EINVAL: as in
 * Docker the column of the process ids is needed; -EOPNOTSUPP: what else is asked for. */
int top_parse(const char *args, struct top_format *ret, struct err *err);

const char *top_title(const struct top_column *c);
/* What the cells are computed from, beside the process. */
struct top_host {
    int64_t now_ms;  /* since the epoch */
    uint64_t memory; /* bytes of the host; 0 = unknown */
};
void top_cell(const struct top_column *c, const struct launch_process *p,
              const struct top_host *host, char ret[TOP_CELL_MAX]);
