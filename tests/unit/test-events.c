/* The ring of events: resuming by id, also over a supervisor's death and a clock that was set back.
 */
#include "sandbox/events.h"
#include "tap.h"

struct seen {
    struct events_reader reader; /* first */
    unsigned count;
    uint64_t last;
};

static void on_event(struct events_reader *r, const struct event *ev)
{
    struct seen *s = (struct seen *)(void *)r;

    s->count++;
    s->last = ev->id;
}

static bool subscribe(struct events *e, struct seen *s, uint64_t since)
{
    bool gap;

    *s = (struct seen){.reader = {.on_event = on_event}};
    gap = events_subscribe(e, &s->reader, since);
    events_unsubscribe(&s->reader);
    return gap;
}

TEST(a_reader_resumes_after_the_last_it_saw)
{
    struct events *e = events_new();
    struct seen s;
    uint64_t last;

    for (int i = 0; i < 5; i++)
        events_emit(e, "create", "id", "name", -1, NULL);
    CHECK(subscribe(e, &s, 1)); /* an id of long ago */
    CHECK_INT(s.count, 5);
    last = s.last;
    CHECK(!subscribe(e, &s, last));
    CHECK_INT(s.count, 0);
    CHECK(!subscribe(e, &s, last - 2));
    CHECK_INT(s.count, 2);
    CHECK(!subscribe(e, &s, 0)); /* only what comes */
    CHECK_INT(s.count, 0);
    for (int i = 0; i < EVENTS_MAX; i++)
        events_emit(e, "create", "id", "name", -1, NULL);
    CHECK(subscribe(e, &s, last - 2)); /* some of it is gone */
    CHECK_INT(s.count, EVENTS_MAX);
    events_free(e);
}

/* Ids begin at the time: one from before the clock was set back is ahead of all that there is. What
 * was missed is told, and that there is a gap. */
TEST(an_id_of_the_future)
{
    struct events *e = events_new();
    struct seen s;

    events_emit(e, "create", "id", "name", -1, NULL);
    events_emit(e, "start", "id", "name", -1, NULL);
    CHECK(subscribe(e, &s, UINT64_MAX));
    CHECK_INT(s.count, 2);
    CHECK(subscribe(e, &s, s.last + 1));
    CHECK_INT(s.count, 2);
    events_free(e);
}

TAP_MAIN
