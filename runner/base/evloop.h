#pragma once

/* Watches many sockets in a libuv loop, edge-triggered, by an epoll of its own. A socket is
 * registered once for all events and its owner remembers what it was told, so changing interest
 * costs no system call. Unlike a libuv handle a watch can be removed and freed at once, in any
 * callback.
 *
 * Deadlines: objects use one of few durations and renew it with each activity. Setting one moves
 * it to the end of its duration's list; a single timer serves all lists.
 *
 * Runs in the loop's thread; nothing blocks. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct evloop;
struct fd_watch;
struct deadline;

enum { DEADLINE_KINDS_MAX = 32 /* distinct durations in one poller */ };

/* events: as of epoll(7); 0: the call that watch_again asked for. */
typedef void watch_fn(struct fd_watch *w, unsigned events);

/* All zero: watches nothing. */
struct fd_watch {
    struct evloop *evloop; /* NULL = not added */
    watch_fn *on_event;
    int fd; /* borrowed */
    bool again;
    struct fd_watch *next, **link; /* in the poller's queue for watch_again */
};

/* Watches fd for input, urgent data and output; readiness that already exists is reported soon,
 * from the loop. 0 or a negative errno. */
int watch_add(struct evloop *p, struct fd_watch *w, int fd, watch_fn *on_event);
/* Like watch_add, but EPOLLOUT is reported only after watch_output: an owner that writes until
 * EAGAIN is not woken each time its peer reads. */
int watch_add_input(struct evloop *p, struct fd_watch *w, int fd, watch_fn *on_event);
/* Enables EPOLLOUT for an added watch; reported at once if the socket is writable. */
int watch_output(struct fd_watch *w);
/* Stops all calls; fd may be closed only afterwards. May be called twice. */
void watch_remove(struct fd_watch *w);
/* Requests one call with events 0, from the loop, after other watches were served. */
void watch_again(struct fd_watch *w);
/* For use within a watch's call: true if other watches wait to be served. */
bool evloop_crowded(const struct evloop *p);

typedef void deadline_fn(struct deadline *d);

/* All zero: not set. */
struct deadline {
    struct deadline *next, **link; /* in its list; link NULL = not set */
    struct deadline_list *list;
    uint64_t due; /* ms of uv_now */
    deadline_fn *on_due;
};

/* Calls on_due once after ms, unless the deadline is set again or cleared. */
void deadline_set(struct evloop *p, struct deadline *d, unsigned ms, deadline_fn *on_due);
void deadline_clear(struct deadline *d);

int evloop_new(uv_loop_t *loop, struct evloop **ret, struct err *err);
/* All watches and deadlines are removed before. Memory is freed when the loop has run the close
 * callbacks. NULL is allowed. */
void evloop_close(struct evloop *p);
uv_loop_t *evloop_uv(struct evloop *p);
