#pragma once

#include "sandbox/sandbox-parts.h"

/* The parts that a daemon's sandboxes have, in the order of a start. */
extern const struct sandbox_part sandbox_parts[];
