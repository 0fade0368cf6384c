#pragma once

/* What the façade itself remembers. */

#include "core/events.h"

struct docker_execs;
struct native;

struct docker {
    struct events_reader reader; /* first: found by its address */
    struct native *native;       /* borrowed */
    struct docker_execs *execs;  /* owned */
};
