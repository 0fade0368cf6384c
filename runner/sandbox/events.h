#pragma once

/* Events: a bounded ring with ids, and its readers. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct events;

enum { EVENTS_MAX = 4096 }; /* kept; older ones are dropped */

struct event {
    uint64_t id;     /* increasing, also across supervisors */
    int64_t time_ms; /* since the epoch */
    char type[24];   /* one of event_types */
    char sandbox[64], name[256];
    int64_t maker;    /* uid of the client that made the sandbox; negative: unknown */
    char detail[512]; /* text of a JSON object: {"exitCode":1} */
};

struct events_reader {
    void (*on_event)(struct events_reader *r, const struct event *e);
    struct events_reader *next, **link;
};

/* All types of events, NULL-terminated. */
extern const char *const event_types[];
bool event_type_known(const char *type);

struct events *events_new(void);
void events_free(struct events *e);
/* detail: the text of a JSON object, or NULL. */
void events_emit(struct events *e, const char *type, const char *sandbox, const char *name,
                 int64_t maker, const char *detail);
/*
 * Adds a reader, and first calls it for each stored event with a larger id than `since` (0 = none).
 * Returns true if events since then may have been dropped.
 */
bool events_subscribe(struct events *e, struct events_reader *r, uint64_t since);
void events_unsubscribe(struct events_reader *r);
