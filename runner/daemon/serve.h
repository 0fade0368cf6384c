#pragma once

/* `rind serve`: runs as the launcher, and forks the supervisor, which serves the API. Called by
 * main's `serve`. */

#include <stdbool.h>

struct err;

struct serve_config {
    const char *state_dir, *runtime_dir; /* absolute; created if missing */
    const char *socket;                  /* absolute path of the API's socket */
    const char *config_file;             /* JSON file, or NULL */
    const char *gateway; /* address:port for preview URLs; NULL = from the configuration */
    bool stop_sandboxes; /* on a clean stop sandboxes are stopped, too */
    bool debug;
};

/* Blocks until SIGTERM or SIGINT (returns 0), or until one of the two processes has died
 * (-ECHILD). Earlier errors leave nothing behind. With LISTEN_FDS that socket is served and none
 * is made; with NOTIFY_SOCKET readiness is reported. */
int serve_run(const struct serve_config *config, struct err *err);
