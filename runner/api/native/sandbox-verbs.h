#pragma once

/* Handlers of the routes below /v1/sandboxes/{id} (sandboxes.c has the table). */

#include "api/route.h"

http_handler_fn verb_start, verb_stop, verb_restart, verb_pause, verb_resume, verb_signal,
    verb_wait, verb_stats;
