#pragma once

/* Events: a bounded ring with ids, and its readers. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct events;

enum { EVENTS_MAX = 4096 }; /* kept; older ones are dropped */

struct event {
    uint64_t id;     /* from 1, in order, for the supervisor's life and beyond (continued from the
                        stored last one) */
    int64_t time_ms; /* since the epoch */
    char type[24];   /* one of event_types */
    char sandbox[64], name[256];
    int64_t maker;    /* uid of the client that made the sandbox; negative: unknown */
    char detail[512]; /* a JSON object's text: {"exitCode":1} */
};

struct events_reader {
    void (*on_event)(struct events_reader *r, const struct event *e);
    struct events_reader *next;
};

/* All types of events, NULL-terminated. */
extern const char *const event_types[];
bool event_type_known(const char *type);

struct events *events_new(void);
void events_free(struct events *e);
/* detail: a JSON object's text or NULL. */
void events_emit(struct events *e, const char *type, const char *sandbox, const char *name,
                 int64_t maker, const char *detail);
/* Adds a reader, after calling it for each event newer than `since` (0 = none) that is still there.
 * Returns whether some may be gone. */
bool events_subscribe(struct events *e, struct events_reader *r, uint64_t since);
void events_unsubscribe(struct events *e, struct events_reader *r);
