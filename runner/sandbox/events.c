#include "sandbox/events.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"

struct events {
    struct event ring[EVENTS_MAX];
    uint64_t first, next; /* the first id of this supervisor, and the next id */
    struct events_reader *readers;
};

/*
 * Returns the first id: the time in microseconds. A new supervisor must not use ids again, or a
 * reader that resumes would miss events. No supervisor emits events faster than one in a
 * microsecond.
 */
static uint64_t first_id(void)
{
    return (uint64_t)clock_wall_us();
}

const char *const event_types[] = {
    "create",
    "adopt",
    "start",
    "restart",
    "exec",
    "exec_exit",
    "process_start",
    "process_exit",
    "pause",
    "resume",
    "timeout",
    "inactive",
    "oom",
    "exit",
    "stop",
    "destroy",
    "update",
    "rename",
    "egress",
    "health",
    "snapshot",
    "image_load",
    "image_tag",
    "image_untag",
    "image_remove",
    "network_limit",
    "disk_hold",
    "disk_go_on",
    "network_closed",
    "network_open",
    "volume_create",
    "volume_mount",
    "volume_unmount",
    "volume_remove",
    "network_create",
    "network_destroy",
    "network_connect",
    "network_disconnect",
    "attach",
    NULL,
};

bool event_type_known(const char *type)
{
    for (size_t i = 0; event_types[i] != NULL; i++)
        if (strcmp(event_types[i], type) == 0)
            return true;
    return false;
}

struct events *events_new(void)
{
    struct events *e = calloc(1, sizeof(*e));

    if (e != NULL)
        e->first = e->next = first_id();
    return e;
}

void events_free(struct events *e)
{
    free(e);
}

void events_emit(struct events *e, const char *type, const char *sandbox, const char *name,
                 int64_t maker, const char *detail)
{
    struct event *ev = &e->ring[e->next % EVENTS_MAX];
    struct events_reader *r, *next;

    assert(event_type_known(type)); /* a filter for a type that is not in the table is refused */
    *ev = (struct event){.id = e->next++, .time_ms = clock_wall_ms(), .maker = maker};
    (void)snprintf(ev->type, sizeof(ev->type), "%s", type);
    (void)snprintf(ev->sandbox, sizeof(ev->sandbox), "%s", sandbox);
    (void)snprintf(ev->name, sizeof(ev->name), "%s", name);
    if (detail != NULL && strlen(detail) < sizeof(ev->detail))
        (void)snprintf(ev->detail, sizeof(ev->detail), "%s", detail);
    else
        (void)snprintf(ev->detail, sizeof(ev->detail), "{}");
    for (r = e->readers; r != NULL; r = next) {
        next = r->next; /* the reader may unsubscribe in the callback */
        r->on_event(r, ev);
    }
}

bool events_subscribe(struct events *e, struct events_reader *r, uint64_t since)
{
    uint64_t oldest = e->next - e->first > EVENTS_MAX ? e->next - EVENTS_MAX : e->first;

    list_add(&e->readers, r);
    if (since == 0)
        return false;
    /*
     * A larger id is from an earlier supervisor, before the clock was set back. The events since
     * then are not known.
     */
    if (since >= e->next)
        since = 0;
    for (uint64_t id = since + 1 < oldest ? oldest : since + 1; id < e->next; id++)
        r->on_event(r, &e->ring[id % EVENTS_MAX]);
    return since + 1 < oldest;
}

void events_unsubscribe(struct events_reader *r)
{
    if (r->link != NULL)
        list_remove(r);
}
