#pragma once

/*
 * The supervisor's end of the launcher's socket. Requests and replies keep their order. No call
 * blocks.
 */

#include <uv.h>

struct buf;
struct err;
struct launch_reply;
struct launcher_client;

/*
 * Called exactly once for each request. r: 0, the launcher's negative errno, or -EPIPE if the
 * launcher has exited. -EMFILE may also mean that the launcher has done the work, and this process
 * had no room for its fds. err explains r. fds: LAUNCH_REPLY_FDS_MAX fds of the reply, -1 for
 * absent ones. The callee takes an fd by putting -1 in its place; the rest is closed.
 */
typedef void (*launch_cb)(void *data, int r, const struct launch_reply *reply, int *fds,
                          const struct err *err);

/*
 * Creates a client; takes sock. on_gone is called when the launcher has closed its end. Then every
 * pending request fails with -EPIPE, unless on_gone exits the process. max_pending
 * (maxLauncherQueue) bounds the pending requests.
 */
int launcher_client_new(uv_loop_t *loop, int sock, unsigned max_pending,
                        void (*on_gone)(void *data), void *data, struct launcher_client **ret);
/*
 * Fails pending requests with -ECANCELED and closes the socket. The loop frees the client after the
 * close callbacks.
 */
void launcher_client_close(struct launcher_client *c);

/*
 * Sends a request built by launch_begin … launch_end, or queues its memfd until the socket has
 * room. -EAGAIN: maxLauncherQueue requests are pending. cb is not called if this call fails.
 */
int launcher_client_send(struct launcher_client *c, const struct buf *request, launch_cb cb,
                         void *data, struct err *err);
/*
 * As launcher_client_send, for requests of the daemon itself, such as the end of a sandbox. The
 * number of sandboxes bounds them, so the queue is never full for them.
 */
int launcher_client_send_due(struct launcher_client *c, const struct buf *request, launch_cb cb,
                             void *data, struct err *err);
/*
 * As launcher_client_send, with the connection of the client that requests this (borrowed, or -1).
 */
int launcher_client_send_for(struct launcher_client *c, const struct buf *request, int client_fd,
                             launch_cb cb, void *data, struct err *err);
