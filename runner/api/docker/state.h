#pragma once

/* The façade's own state. */

#include "sandbox/events.h"

struct docker_execs;
struct native;
struct reapers;

struct docker {
    struct events_reader reader; /* first: cast from its address */
    struct native *native;       /* borrowed */
    struct docker_execs *execs;  /* owned */
    struct reapers *reapers;     /* owned */
};
