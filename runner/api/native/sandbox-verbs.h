#pragma once

/* Handlers of the routes below /v1/sandboxes/{id} (sandboxes.c has the table). */

#include "http/route.h"

http_handler_fn sandbox_post_start, sandbox_post_stop, sandbox_post_restart, sandbox_post_pause,
    sandbox_post_resume, sandbox_post_signal, sandbox_post_rename, sandbox_get_wait,
    sandbox_get_stats;
