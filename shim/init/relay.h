#pragma once

/*
 * The streams of a sandbox's processes. init holds the only outer end of each pipe, and the master
 * of each terminal, and moves the bytes between these and a destination: a stream socket whose
 * other end the supervisor (or `rind run`) has, a log, or nothing.
 *
 * Why no other process of rind may touch them: a process can sleep with the lock of its own pipe
 * held, for example in a splice(2) from a silent socket into its stdout. A read, a write, an
 * FIONREAD or the last close of the other end then waits for that lock, whatever O_NONBLOCK says,
 * and no signal ends the wait. A terminal's size has a lock with the same property. So this init
 * may sleep, and with it all streams of this sandbox; its launcher ends it by killing its cgroup,
 * which frees the lock.
 *
 * Why sockets, and not pipes: a splice between two pipes holds the locks of both, so the supervisor
 * would wait for the sandbox again. A splice between a pipe and a socket takes the pipe's lock
 * first, and the socket's only while it copies. A page that a socket holds is never read from its
 * file again, as one in a pipe may be.
 *
 * An output ends when its process has ended: what is in the pipe then is moved, the socket is
 * closed, and what other processes write later is read and dropped (a sink).
 */

#include <stdbool.h>
#include <stdint.h>

struct log;
struct slot;
struct table;

enum {
    RELAY_STREAMS = 3, /* stdin, stdout, stderr; a terminal is [0] alone */
    /* Outputs of ended processes that are read and dropped, because processes that they have left
     * behind may still write. The oldest makes room, and its writers then get SIGPIPE. */
    SINKS_MAX = 128,
};

enum relay_kind {
    RELAY_NONE = 0,
    RELAY_OUTPUT,   /* from a pipe to a socket */
    RELAY_INPUT,    /* from a socket to a pipe */
    RELAY_TERMINAL, /* both ways */
    RELAY_LOG,      /* from a pipe to a log */
};

struct stdio_relay {
    enum relay_kind kind; /* RELAY_NONE: not open */
    int inner;            /* owned; the outer end of the process's pipe, or the terminal's master */
    int outer;            /* owned; the socket; -1 with a log */
    struct log *log;      /* borrowed; has `inner` as its pipe */
    int inner_watched;    /* events in the epoll set; -1 = not in it */
    int outer_watched;
    bool input;                   /* the reader may still send some */
    bool out_blocked, in_blocked; /* the destination is full */
    bool ended;                   /* the process has ended: `left` bytes are still to be moved */
    uint64_t left;
};

/* What an event of the epoll set is about. */
enum about {
    ABOUT_CONTROL = 1,
    ABOUT_SIGNAL,
    ABOUT_LISTEN,
    ABOUT_GUARD,
    ABOUT_SINK,   /* and its descriptor */
    ABOUT_STATUS, /* and the slot */
    ABOUT_INNER,  /* and the slot and the stream */
    ABOUT_OUTER,
};

/* Sets what is waited for at fd: *watched is what was before. events: -1 = nothing, not even its
 * hang-up. */
void watch_set(const struct table *t, int fd, int *watched, int events, uint64_t data);
/* The data of a slot's events. */
uint64_t watch_slot(const struct table *t, const struct slot *s, unsigned stream, enum about about);

/* Opens a relay of a slot: takes inner (or the log's pipe) and outer. 0, or -errno and nothing is
 * taken. */
int relay_open(struct table *t, struct slot *s, unsigned stream, enum relay_kind kind, int inner,
               int outer, struct log *log);
/* An event of it: moves what can be moved. */
void relay_event(struct table *t, struct slot *s, unsigned stream, bool outer, uint32_t events);
/*
 * Its process has ended: moves what the process has written, as far as there is room, and closes
 * the relay. It stays open only while `left` bytes wait for room; a log stays open for processes
 * that are left behind.
 */
void relay_finish(struct table *t, struct slot *s, unsigned stream);
/* Closes it; what was not moved is lost. */
void relay_close(struct table *t, struct stdio_relay *r);
/* The terminal gets this size. */
void relay_resize(struct stdio_relay *r, uint16_t rows, uint16_t cols);

/* Reads and drops what there is now, bounded; closes it at its end. */
void sink_drain(struct table *t, int fd);
