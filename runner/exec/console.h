#pragma once

/*
 * The console of a sandbox whose spec asks for one (spec->console): what its main process says is
 * kept in a log, line by line with times and in the order of both streams, and sent to any number
 * of attached clients, which may also write its stdin. It is there before the process runs,
 * and after it has ended.
 *
 * A client that does not take its output makes the process wait, as a terminal would; one that
 * leaves does not. Without an attached client everything goes to the log alone. The log is
 * bounded (logBytes, two segments); what is rotated away is gone, and readers go on behind it.
 *
 * The sockets are parked in init, so nothing that the process says is lost with a supervisor, but
 * what that had read and not yet written.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct exec;
struct sandbox;

enum { CONSOLE_RECORD_MAX = 16 << 10 /* bytes of one record; longer lines are several */ };

/* Embedded by its owner; zeroed but for the functions, which are called from the loop. */
struct console_client {
    /* stream: 1 or 2 (a terminal has 1 alone). false: no more before console_resume. */
    bool (*output)(struct console_client *c, int stream, const char *bytes, size_t len);
    /* The process takes input from now on, or again after console_write returned false. */
    void (*writable)(struct console_client *c);
    /* The run is over, or there will be none, and all output has been told: it is detached. */
    void (*ended)(struct console_client *c);
    /* The console's own. */
    struct sandbox *sandbox; /* a reference while it is attached */
    struct console_client *next, **link;
    bool paused;
};

/* -EINVAL: the sandbox has no console. Held until console_detach or `ended`. */
int console_attach(struct sandbox *s, struct console_client *c, struct err *err);
/* Idempotent; from any callback. */
void console_detach(struct console_client *c);
void console_resume(struct console_client *c);

/* Whether the main process runs and takes input. */
bool console_takes_input(const struct sandbox *s);
/* Takes everything; false: `writable` follows, and no more should be given before it. What no
 * process wants is dropped. -> true */
bool console_write(struct sandbox *s, const void *data, size_t len);
void console_end_input(struct sandbox *s);

/* ---- the log ---- */

struct console_record {
    int64_t time_ns; /* since the epoch */
    int stream;
    bool whole;        /* it ends its line; the line end is the last byte */
    const char *bytes; /* valid until the next call of this module */
    size_t len;
};

/* The record at *offset, or the first behind it that is still there, and moves *offset behind it:
 * 1; 0: nothing newer. 0 is the beginning. */
int console_read(struct sandbox *s, uint64_t *offset, struct console_record *ret);

struct console_watcher {
    /* Records were added, or the run ended (console_is_over). It may unwatch itself. */
    void (*on_change)(struct console_watcher *w);
    struct sandbox *sandbox; /* a reference while it watches */
    struct console_watcher *next, **link;
};
int console_watch(struct sandbox *s, struct console_watcher *w, struct err *err);
/* Idempotent. */
void console_unwatch(struct console_watcher *w);
/* No main process runs, and nothing of the last one is to come any more. */
bool console_is_over(const struct sandbox *s);

/* ---- for the sandbox's own modules ---- */

/* The main process runs: from within its owner's `started`. */
void console_begin(struct sandbox *s, struct exec *main);
/* As console_begin, for a process that an earlier supervisor started. */
void console_reattach(struct sandbox *s, struct exec *main);
/* The start failed: tells the attached clients so. Does nothing while a process runs. */
void console_no_run(struct sandbox *s);
/* The supervisor ends: closes everything, without a callback. */
void console_close(struct sandbox *s);
void console_free(struct sandbox *s);
