#pragma once

/*
 * A blocking client of the daemon's API over its unix socket. It keeps one connection as long as
 * the daemon does. Bodies are streamed piece by piece.
 *
 *     r = client_open(path, &c, err);
 *     r = client_json(c, "GET", "/v1/sandboxes", NULL, &root, err);      a whole exchange
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct client;
struct err;

enum {
    CLIENT_JSON_MAX = 16 << 20,  /* bytes of a reply that is read as a whole */
    CLIENT_PIECE_MAX = 64 << 10, /* largest piece for client_read and client_put, in bytes */
};

/* Connects. err says what to do: -ENOENT (no daemon), -EACCES (no permission). */
int client_open(const char *socket, struct client **ret, struct err *err);
/* Makes a client of a connected socket (taken, also on failure). It cannot reconnect. */
int client_adopt(int fd, struct client **ret, struct err *err);
void client_close(struct client *c);
static inline void client_close_auto_(struct client **c)
{
    client_close(*c);
}
#define auto_client __attribute__((cleanup(client_close_auto_)))

/* ---- whole exchanges ---- */

/*
 * Sends `body` (taken; NULL: none) as JSON and reads the reply: *ret, a new reference, or NULL for
 * an empty one. An error reply is returned as the daemon's errno and message, with the step at
 * which a start failed. ret may be NULL.
 */
int client_json(struct client *c, const char *method, const char *target, json_t *body,
                json_t **ret, struct err *err);
/*
 * The second half of client_json, after client_send; for requests on several connections at once.
 */
int client_json_answer(struct client *c, json_t **ret, struct err *err);

/* ---- step by step ---- */

enum client_flags {
    CLIENT_UPGRADE = 1 << 0, /* requests an upgrade to the frame stream of an exec */
    CLIENT_CHUNKED = 1 << 1, /* the body follows by client_put */
    CLIENT_EVENTS = 1 << 2,  /* requests server-sent events */
};

struct client_request {
    const char *method, *target;
    json_t *json;        /* taken; NULL: no body, or CLIENT_CHUNKED */
    const char *type;    /* Content-Type of a chunked body */
    const char *last_id; /* Last-Event-ID, or NULL */
    unsigned flags;
};

/*
 * While waiting for a reply, calls `ready` whenever fd (borrowed; FD_NONE: none) is readable. A
 * negative result ends the wait with that error; `ready` sets err.
 */
void client_watch(struct client *c, int fd, int (*ready)(void *data, struct err *err), void *data);
/* Sends head and JSON body. Reconnects if the daemon has closed the idle connection. */
int client_send(struct client *c, const struct client_request *request, struct err *err);
/* Sends a piece of a chunked body. 1: the reply has begun, and no more body is wanted. */
int client_put(struct client *c, const void *data, size_t len, struct err *err);
int client_put_end(struct client *c, struct err *err);
/*
 * For replies that begin before the body has ended. client_wait waits until a part of the reply has
 * arrived (true), or a piece can be sent. client_put_on sends a piece even if a reply has arrived.
 */
bool client_wait(struct client *c);
int client_put_on(struct client *c, const void *data, size_t len, struct err *err);
/* Reads up to the end of the reply's head. An error reply is returned as by client_json. */
int client_head(struct client *c, struct err *err);
/*
 * Reads a piece of the body; blocks until there is one; 0 at its end. A truncated body is an error.
 */
ssize_t client_read(struct client *c, void *buf, size_t size, struct err *err);
/* Returns a header of the reply, or NULL. */
const char *client_header(const struct client *c, const char *name);
/*
 * Call after an upgrade. Returns the socket, still owned by the client, and bytes already received
 * on it.
 */
int client_upgraded(struct client *c, const char **ret_bytes, size_t *ret_len, struct err *err);

/* Exit status (126, 127) if the daemon refused the request because of the command; else 0. */
int client_exit_code(const struct client *c);

/* True if the code means a lost connection: the daemon has gone, and may come back. */
bool client_is_lost(int code);
