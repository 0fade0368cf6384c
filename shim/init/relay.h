#pragma once

/*
 * The relays of a sandbox's streams. init holds the only outer end of each pipe, and the master of
 * each terminal. It moves bytes between these and a destination: a stream socket to the supervisor
 * (or `rind run`), a log, or nothing.
 *
 * Why no other process of rind may touch them: a process can sleep while it holds the lock of its
 * own pipe. An example is a splice(2) from a silent socket into its stdout. A read, a write,
 * FIONREAD or the last close of the other end then waits for that lock, even with O_NONBLOCK. No
 * signal ends the wait. The lock of a terminal's size behaves the same way. So init may sleep, and
 * with it all streams of this sandbox. The launcher ends that by killing the cgroup, which frees
 * the lock.
 *
 * Why sockets and not pipes: a splice between two pipes holds the locks of both, so the supervisor
 * would wait for the sandbox again. A splice between a pipe and a socket takes the pipe's lock
 * first, and the socket's only while it copies. A page in a socket is never read from its file
 * again; a page in a pipe may be.
 *
 * An output ends with its process. init moves the bytes that are in the pipe then, and closes the
 * socket. Bytes that other processes write later are read and dropped (a sink).
 */

#include <stdbool.h>
#include <stdint.h>

struct log;
struct slot;
struct table;

enum {
    RELAY_STREAMS = 3, /* stdin, stdout, stderr; a terminal is [0] alone */
    /*
     * Outputs of ended processes that are read and dropped, because processes that they have left
     * behind may still write. When the table is full the oldest is closed, and its writers get
     * SIGPIPE.
     */
    SINKS_MAX = 128,
};

enum relay_kind {
    RELAY_NONE = 0,
    RELAY_OUTPUT,   /* moves from a pipe to a socket */
    RELAY_INPUT,    /* moves from a socket to a pipe */
    RELAY_TERMINAL, /* moves both ways */
    RELAY_LOG,      /* moves from a pipe to a log */
};

struct stdio_relay {
    enum relay_kind kind; /* RELAY_NONE: not open */
    int inner;            /* owned; the outer end of the process's pipe, or the terminal's master */
    int outer;            /* owned; the socket; -1 with a log */
    struct log *log;      /* borrowed; reads from `inner` */
    int inner_watched;    /* events in the epoll set; -1 = not in it */
    int outer_watched;
    bool input;                   /* the reader may still send input */
    bool out_blocked, in_blocked; /* the destination is full */
    bool ended;                   /* the process has ended: `left` bytes are still to be moved */
    uint64_t left;
};

/* The object of an event of the epoll set. */
enum about {
    ABOUT_CONTROL = 1,
    ABOUT_SIGNAL,
    ABOUT_LISTEN,
    ABOUT_GUARD,
    ABOUT_SINK,   /* the event's data also has the descriptor */
    ABOUT_STATUS, /* the event's data also has the slot */
    ABOUT_INNER,  /* the event's data also has the slot and the stream */
    ABOUT_OUTER,
};

/*
 * Sets the events to wait for at fd; *watched has the previous ones. events: -1 = none, not even a
 * hang-up.
 */
void watch_set(const struct table *t, int fd, int *watched, int events, uint64_t data);
/* Returns the data of a slot's events. */
uint64_t watch_slot(const struct table *t, const struct slot *s, unsigned stream, enum about about);

/*
 * Opens a relay of a slot; takes inner (or the log's pipe) and outer. Returns 0, or -errno and
 * takes nothing.
 */
int relay_open(struct table *t, struct slot *s, unsigned stream, enum relay_kind kind, int inner,
               int outer, struct log *log);
/* Handles an event of the relay: moves as much as it can. */
void relay_event(struct table *t, struct slot *s, unsigned stream, bool outer, uint32_t events);
/*
 * Called when the process has ended: moves the remaining output as far as there is room, and closes
 * the relay. The relay stays open only while `left` bytes wait for room. A log stays open for
 * processes that are left behind.
 */
void relay_finish(struct table *t, struct slot *s, unsigned stream);
/* Closes the relay; bytes that were not moved are lost. */
void relay_close(struct table *t, struct stdio_relay *r);
/* Sets the terminal's size. */
void relay_resize(struct stdio_relay *r, uint16_t rows, uint16_t cols);

/* Reads and drops a bounded amount; closes the sink at its end. */
void sink_drain(struct table *t, int fd);
