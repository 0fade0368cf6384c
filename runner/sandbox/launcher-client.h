#pragma once

/* The supervisor's side of the launcher's socket: requests go out in order, answers come back in
 * order, nothing blocks the loop. */

#include <uv.h>

struct buf;
struct err;
struct launch_reply;
struct launcher_client;

/*
 * Called exactly once a request. r: 0, the launcher's negative errno, -EMFILE also when the
 * launcher has done it and its descriptors found no room here, or -EPIPE when it is gone;
 * err explains. fds: LAUNCH_REPLY_FDS_MAX of what came with the answer, -1 where nothing did; the
 * callee takes one by putting -1 in its place, the rest is closed.
 */
typedef void (*launch_cb)(void *data, int r, const struct launch_reply *reply, int *fds,
                          const struct err *err);

/* Takes sock. on_gone: the launcher has closed it. Then every pending request completes with
 * -EPIPE, unless on_gone exits the process. At most max_pending (maxLauncherQueue) wait. */
int launcher_client_new(uv_loop_t *loop, int sock, unsigned max_pending,
                        void (*on_gone)(void *data), void *data, struct launcher_client **ret);
/* Answers what is pending with -ECANCELED, closes, and frees when the loop has run the close
 * callbacks. */
void launcher_client_close(struct launcher_client *c);

/* Sends a request built by launch_begin … launch_end, or keeps it until the socket has room (its
 * memfd with it). -EAGAIN when maxLauncherQueue are pending. cb is not called when this fails. */
int launcher_client_send(struct launcher_client *c, const struct buf *request, launch_cb cb,
                         void *data, struct err *err);
/* As launcher_client_send, for requests of the daemon's own, such as the end of a sandbox: their
 * number is bounded by the sandboxes there are, so the queue is never full for them. */
int launcher_client_send_due(struct launcher_client *c, const struct buf *request, launch_cb cb,
                             void *data, struct err *err);
/* As launcher_client_send with the connection of the client that it is for (borrowed, or -1). */
int launcher_client_send_for(struct launcher_client *c, const struct buf *request, int client_fd,
                             launch_cb cb, void *data, struct err *err);
