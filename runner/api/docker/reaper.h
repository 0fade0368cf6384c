#pragma once

/* The built-in reaper: a container of the image testcontainers/ryuk without that image, and without
 * the engine's socket. Its process only says "Started!" and sleeps; this module serves the clients
 * of its published port:
 *
 *   client   label=K=V&label=K=V \n     what is to be removed
 *   reaper   ACK \n
 *
 * RYUK_RECONNECTION_TIMEOUT (10s) after the last client has left, it removes the containers,
 * networks, volumes and images that match one of the filters, and stops. It does the same
 * RYUK_CONNECTION_TIMEOUT (60s) after its start if no client has come.
 *
 * It removes only what the user has made that made the reaper. Any user of the host can connect to
 * a loopback port, so a connection counts only once it has named the reaper's session
 * (reaper_filter_knows_session).
 *
 * Runs in the supervisor's loop thread. */

#include <jansson.h>
#include <stdbool.h>

struct create_body;
struct docker;
struct err;
struct event;
struct native;
struct reapers;
struct sandbox;

enum { REAPER_PORT = 8080 /* inside; RYUK_PORT is not read */ };

/* True if an image's name denotes the reaper, with any tag or digest. configured: the full name of
 * the built-in image; NULL = testcontainers/ryuk of any registry. */
bool docker_reaper_image(const char *configured, const char *image);
/* For a create body (borrowed) of the reaper's image: takes out what gives a real Ryuk the engine's
 * socket, which is not needed here. True if it is one. */
bool docker_reaper_prepare(const char *configured, json_t *body);
/* Turns the decoded body into that of a reaper. -ENOMEM. */
int docker_reaper_take(struct create_body *b, struct err *err);

/* NULL: out of memory. native is borrowed. */
struct reapers *docker_reapers_new(struct native *native);
void docker_reapers_free(struct reapers *all);
/* Follows a reaper's start and end. */
void docker_reapers_event(struct reapers *all, const struct event *e);
/* Takes up the reapers that run since an earlier supervisor. Their clients have lost their
 * connections, and what they had asked for. */
void docker_reapers_resume(struct reapers *all);
