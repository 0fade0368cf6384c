#pragma once

/*
 * Many sockets in a libuv loop, watched edge-triggered by an epoll of our own: a socket is
 * registered once with everything, its owner remembers what it was told, and no change of mind
 * costs a system call. Unlike libuv's handles a watch can be removed and freed at once, also inside
 * of any callback.
 *
 * And deadlines: an object that waits sets one of few durations anew with each sign of life, so
 * setting is moving to the end of a list, and one timer serves them all.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct err;
struct poller;
struct watch;
struct deadline;

enum { DEADLINE_KINDS_MAX = 32 /* different durations in one poller */ };

/* events: of epoll(7). 0: nothing new, watch_again asked for it. */
typedef void watch_fn(struct watch *w, unsigned events);

/* All zero is a watch that watches nothing. */
struct watch {
    struct poller *poller; /* NULL = not added */
    watch_fn *on_event;
    int fd; /* borrowed */
    bool again;
    struct watch *next, **link; /* among those that want to be called again */
};

/* Reports what is ready already, soon and from the loop. Negative errno. */
int watch_add(struct poller *p, struct watch *w, int fd, watch_fn *on_event);
/* As watch_add, but EPOLLOUT is not told of before watch_output: who writes first and asks after an
 * EAGAIN is not woken each time that a reader makes room. */
int watch_add_input(struct poller *p, struct watch *w, int fd, watch_fn *on_event);
/* Of a watch that was added: EPOLLOUT too, from now on, and at once if there is room already. */
int watch_output(struct watch *w);
/* No call comes any more. The fd may be closed after this, not before. Twice is fine. */
void watch_remove(struct watch *w);
/* One call from the loop soon, after other watches had their turn. */
void watch_again(struct watch *w);
/* From within a watch's call: others are known to wait for theirs. */
bool poller_crowded(const struct poller *p);

typedef void deadline_fn(struct deadline *d);

/* All zero is one that is not set. */
struct deadline {
    struct deadline *next, **link; /* in its list; link NULL = not set */
    struct deadline_list *list;
    uint64_t due; /* ms of uv_now */
    deadline_fn *on_due;
};

/* Calls on_due once, ms from now, unless set again or cleared. */
void deadline_set(struct poller *p, struct deadline *d, unsigned ms, deadline_fn *on_due);
void deadline_clear(struct deadline *d);

int poller_new(uv_loop_t *loop, struct poller **ret, struct err *err);
/* Every watch has been removed and every deadline cleared before. Frees when the loop has run the
 * close callbacks. NULL is fine. */
void poller_close(struct poller *p);
uv_loop_t *poller_loop(struct poller *p);
