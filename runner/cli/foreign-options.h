#pragma once

/*
 * Options of docker, podman and bwrap that rind does not have. Each is refused with what stands in
 * its place here, or why there is nothing. A verb lists such a table as its last group, so a row
 * never hides an option of rind.
 */

#include "cli/options.h"

/* Of `docker run`, `podman run` and bwrap: for run and create. */
extern const struct opt foreign_run_options[];
/* Of `docker exec`. */
extern const struct opt foreign_exec_options[];
/* Of `docker ps` and `docker ls`. */
extern const struct opt foreign_list_options[];
/* Of `docker inspect` and `docker logs`. */
extern const struct opt foreign_inspect_options[], foreign_logs_options[];
/* Of `docker images`. */
extern const struct opt foreign_image_options[];
/* In front of the command: `docker --host`. */
extern const struct opt foreign_top_options[];

#define FOREIGN_GROUP(table)                                                                       \
    {                                                                                              \
        .rows = (table)                                                                            \
    }
