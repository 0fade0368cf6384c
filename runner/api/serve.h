#pragma once

/* `rind serve`: the launcher and, as its child, the supervisor with the API. */

#include <stdbool.h>

struct err;

struct serve_config {
    const char *state_dir, *runtime_dir; /* absolute; made when missing */
    const char *socket;                  /* absolute path of the API's socket */
    const char *config_file;             /* JSON, or NULL */
    const char *gateway; /* address:port of preview URLs; NULL = the configuration's */
    bool stop_sandboxes; /* on a clean stop sandboxes are stopped, too */
    bool debug;
};

/*
 * Runs until SIGTERM or SIGINT (0), or until one of the two processes has died (-ECHILD). Errors
 * before that leave nothing. With LISTEN_FDS of a service manager that socket is served instead of
 * one that is made; with NOTIFY_SOCKET readiness is told.
 */
int serve_run(const struct serve_config *config, struct err *err);
