#pragma once

/*
 * A blocking client of the daemon's API over its unix socket: one connection, which is used again
 * as long as the daemon keeps it. Bodies are read and written piece by piece; nothing of them is
 * kept but what is under way.
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
    CLIENT_JSON_MAX = 16 << 20,  /* bytes of a reply that is read whole */
    CLIENT_PIECE_MAX = 64 << 10, /* bytes of client_read and client_put, at most */
};

/* Connects. The message says what to do: -ENOENT (no daemon), -EACCES (not for this user). */
int client_open(const char *socket, struct client **ret, struct err *err);
/* Of a socket that is connected already (taken, also on failure); it is not opened again. */
int client_adopt(int fd, struct client **ret, struct err *err);
void client_close(struct client *c);
static inline void client_close_auto_(struct client **c)
{
    client_close(*c);
}
#define auto_client __attribute__((cleanup(client_close_auto_)))

/* ---- whole exchanges ---- */

/*
 * Sends `body` (taken; NULL: none) as JSON and reads the answer: *ret (a new reference; NULL for an
 * empty one). What the daemon refuses is its errno with its message, and with the step at which a
 * start failed. ret may be NULL.
 */
int client_json(struct client *c, const char *method, const char *target, json_t *body,
                json_t **ret, struct err *err);
/* Its second half, after client_send: for who asks on several connections before waiting. */
int client_json_answer(struct client *c, json_t **ret, struct err *err);

/* ---- step by step ---- */

enum client_flags {
    CLIENT_UPGRADE = 1 << 0, /* asks for the stream of frames of an exec */
    CLIENT_CHUNKED = 1 << 1, /* a body follows by client_put */
    CLIENT_EVENTS = 1 << 2,  /* asks for server-sent events */
};

struct client_request {
    const char *method, *target;
    json_t *json;        /* taken; NULL: no body, or CLIENT_CHUNKED */
    const char *type;    /* of a chunked body */
    const char *last_id; /* Last-Event-ID, or NULL */
    unsigned flags;
};

/* While an answer is waited for, calls `ready` each time that fd (borrowed; FD_NONE: none any more)
 * can be read; what is negative of it ends the wait with that error, set by it. */
void client_watch(struct client *c, int fd, int (*ready)(void *data, struct err *err), void *data);
/* Sends head and JSON. A connection that the daemon has closed meanwhile is opened again. */
int client_send(struct client *c, const struct client_request *request, struct err *err);
/* A piece of a chunked body. 1: the answer is there already, and no more of it is wanted. */
int client_put(struct client *c, const void *data, size_t len, struct err *err);
int client_put_end(struct client *c, struct err *err);
/*
 * For answers that begin before the body has ended. client_wait waits until something of it is
 * there (true), or there is room for a piece; client_put_on is client_put, whatever is there.
 */
bool client_wait(struct client *c);
int client_put_on(struct client *c, const void *data, size_t len, struct err *err);
/* Reads up to the end of the reply's head: what the daemon refuses is an error as of client_json.
 */
int client_head(struct client *c, struct err *err);
/* A piece of the body, as soon as there is any; 0 at its end. A body that breaks off is an error.
 */
ssize_t client_read(struct client *c, void *buf, size_t size, struct err *err);
/* A header of the reply, or NULL. */
const char *client_header(const struct client *c, const char *name);
/* After an upgrade: the socket (the client's), and what has come on it already. */
int client_upgraded(struct client *c, const char **ret_bytes, size_t *ret_len, struct err *err);

/* What the daemon says the command would have ended with (126, 127), where it refused because of
 * the command; else 0. */
int client_exit_code(const struct client *c);

/* Whether it was the connection that failed: the daemon has gone, and may come back. */
bool client_is_lost(int code);
