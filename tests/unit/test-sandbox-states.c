/*
 * The table of a sandbox's states, every cell of it, without a daemon.
 *
 * test-sandbox-states --print writes the table as docs/states-table.md has it.
 */
#include <errno.h>

#include "sandbox/sandbox-states.h"
#include "tap.h"

#define DOCS "docs/states-table.md"

enum { FIRST = SANDBOX_CREATING, TABLE_MAX = 16384 };

/* ---- printing ---- */

static const char *state_title(int state)
{
    return state == SANDBOX_GONE ? "gone" : sandbox_state_name((enum sandbox_state)state);
}

static const char *cell_text(int state, int event)
{
    int next = sandbox_next_state((enum sandbox_state)state, (enum sandbox_event)event);

    return next == -EBUSY    ? "409"
           : next == -ENOENT ? "404"
           : next == 0       ? "–"
           : next == state   ? "stays"
                             : state_title(next);
}

/* Appends to text, which has TABLE_MAX bytes. */
static void put(char *text, const char *more)
{
    size_t len = strlen(text);

    if (len + strlen(more) + 1 > TABLE_MAX)
        abort();
    (void)strcpy(text + len, more);
}

static void print_row(char *text, int event)
{
    put(text, "| ");
    put(text, sandbox_event_name((enum sandbox_event)event));
    for (int state = FIRST; state < SANDBOX_STATE_MAX; state++) {
        put(text, " | ");
        put(text, cell_text(state, event));
    }
    put(text, " |\n");
}

static void print_head(char *text, const char *first)
{
    put(text, "| ");
    put(text, first);
    for (int state = FIRST; state < SANDBOX_STATE_MAX; state++) {
        put(text, " | ");
        put(text, state_title(state));
    }
    put(text, " |\n|");
    for (int state = FIRST; state <= SANDBOX_STATE_MAX; state++)
        put(text, "---|");
    put(text, "\n");
}

static void print_table(char *text)
{
    text[0] = '\0';
    print_head(text, "request");
    for (int event = REQ_START; event <= REQ_LAST; event++)
        print_row(text, event);
    put(text, "\n");
    print_head(text, "event");
    for (int event = REQ_LAST + 1; event < EV_MAX; event++)
        print_row(text, event);
    put(text, "\n| init | may become |\n|---|---|\n");
    for (int from = INIT_NONE; from < INIT_PHASE_MAX; from++) {
        const char *comma = "";

        put(text, "| ");
        put(text, init_phase_name((enum init_phase)from));
        put(text, " | ");
        for (int to = INIT_NONE; to < INIT_PHASE_MAX; to++) {
            if (!init_phase_may_follow((enum init_phase)from, (enum init_phase)to))
                continue;
            put(text, comma);
            put(text, init_phase_name((enum init_phase)to));
            comma = ", ";
        }
        put(text, " |\n");
    }
}

TEST(the_documentation_has_this_table)
{
    static char table[TABLE_MAX], docs[4 * TABLE_MAX];
    FILE *f = fopen(DOCS, "r");

    CHECK(f != NULL);
    if (f == NULL)
        return;
    docs[fread(docs, 1, sizeof(docs) - 1, f)] = '\0';
    (void)fclose(f);
    print_table(table);
    if (strstr(docs, table) == NULL)
        tap_fail("%s differs: put the output of test-sandbox-states --print into it", DOCS);
}

/* ---- every cell ---- */

TEST(every_cell_has_an_answer_that_fits_its_event)
{
    unsigned cells = 0;

    for (int event = EV_INVALID + 1; event < EV_MAX; event++) {
        bool request = sandbox_event_is_request((enum sandbox_event)event), possible = false;

        for (int state = FIRST; state < SANDBOX_STATE_MAX; state++) {
            int next = sandbox_next_state((enum sandbox_state)state, (enum sandbox_event)event);

            cells++;
            possible |= next > 0;
            /* A client may ask at any time; what happens inside is never refused. */
            if (request ? next == 0 : next < 0)
                tap_fail("'%s' in '%s' is %d", sandbox_event_name((enum sandbox_event)event),
                         state_title(state), next);
            CHECK(next == -EBUSY || next == -ENOENT || (next >= 0 && next < SANDBOX_STATE_MAX));
            CHECK(next != SANDBOX_CREATING || state == SANDBOX_CREATING);
        }
        if (!possible)
            tap_fail("'%s' is possible in no state", sandbox_event_name((enum sandbox_event)event));
    }
    CHECK_INT(cells, (EV_MAX - 1) * (SANDBOX_STATE_MAX - 1));
}

TEST(what_is_no_state_or_no_event_is_impossible)
{
    CHECK_INT(sandbox_next_state(SANDBOX_INVALID, REQ_STOP), 0);
    CHECK_INT(sandbox_next_state(SANDBOX_STATE_MAX, REQ_STOP), 0);
    CHECK_INT(sandbox_next_state(SANDBOX_RUNNING, EV_INVALID), 0);
    CHECK_INT(sandbox_next_state(SANDBOX_RUNNING, EV_MAX), 0);
    CHECK_STR(sandbox_state_name(SANDBOX_INVALID), "invalid");
    CHECK_STR(sandbox_state_name(SANDBOX_STATE_MAX), "invalid");
    CHECK_STR(sandbox_event_name(EV_INVALID), "invalid");
    CHECK_STR(sandbox_event_name(EV_MAX), "invalid");
}

TEST(names_are_different)
{
    for (int a = EV_INVALID + 1; a < EV_MAX; a++)
        for (int b = a + 1; b < EV_MAX; b++)
            CHECK(strcmp(sandbox_event_name((enum sandbox_event)a),
                         sandbox_event_name((enum sandbox_event)b)) != 0);
    for (int a = FIRST; a < SANDBOX_GONE; a++)
        for (int b = a + 1; b < SANDBOX_GONE; b++)
            CHECK(strcmp(sandbox_state_name((enum sandbox_state)a),
                         sandbox_state_name((enum sandbox_state)b)) != 0);
    CHECK_STR(sandbox_state_name(SANDBOX_GONE), "removing"); /* as clients saw it last */
}

/* What the API promises, stated a second time; other states refuse the request. */
TEST(requests_are_allowed_where_the_api_says)
{
    static const struct {
        enum sandbox_event request;
        const char *allowed; /* the names of the states */
    } rows[] = {
        {REQ_START, "creating created stopped"},
        {REQ_STOP, "created starting running paused stopping stopped"},
        {REQ_PAUSE, "running"},
        {REQ_RESUME, "paused"},
        {REQ_SIGNAL, "running paused stopping"},
        {REQ_INIT, "creating created starting running paused stopped"},
        {REQ_REMOVE, "created stopped broken"},
        {REQ_REMOVE_FORCE, "creating created starting running paused stopping stopped broken"},
        {REQ_UPDATE, "creating created starting running paused stopping stopped"},
    };

    CHECK_INT(sizeof(rows) / sizeof(rows[0]), REQ_LAST);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int state = FIRST; state < SANDBOX_GONE; state++) {
            bool wanted = strstr(rows[i].allowed, state_title(state)) != NULL;
            int next = sandbox_next_state((enum sandbox_state)state, rows[i].request);

            if (wanted ? next <= 0 : next != -EBUSY)
                tap_fail("'%s' in '%s' is %d", sandbox_event_name(rows[i].request),
                         state_title(state), next);
        }
        CHECK_INT(sandbox_next_state(SANDBOX_GONE, rows[i].request), -ENOENT);
    }
}

/* ---- the ways through it ---- */

TEST(lives_go_through_the_states_they_should)
{
    struct step {
        enum sandbox_event event;
        enum sandbox_state next;
    };
    static const struct {
        enum sandbox_state first;
        struct step steps[10];
    } lives[] = {
        /* made, started, ended by itself, removed */
        {SANDBOX_CREATING,
         {{EV_MADE, SANDBOX_CREATED},
          {REQ_START, SANDBOX_CREATED},
          {EV_MAIN_BEGINS, SANDBOX_STARTING},
          {EV_MAIN_RUNS, SANDBOX_RUNNING},
          {EV_MAIN_EXITED, SANDBOX_STOPPING},
          {EV_INIT_ENDS, SANDBOX_STOPPING},
          {EV_ENDED, SANDBOX_STOPPED},
          {REQ_REMOVE, SANDBOX_REMOVING},
          {EV_FORGOTTEN, SANDBOX_GONE}}},
        /* stopped while paused, and started again without a command */
        {SANDBOX_RUNNING,
         {{REQ_PAUSE, SANDBOX_RUNNING},
          {EV_FROZEN, SANDBOX_PAUSED},
          {REQ_STOP, SANDBOX_STOPPING},
          {EV_THAWED, SANDBOX_STOPPING},
          {EV_MAIN_EXITED, SANDBOX_STOPPING},
          {EV_ENDED, SANDBOX_STOPPED},
          {EV_MAIN_BEGINS, SANDBOX_STARTING},
          {EV_NO_COMMAND, SANDBOX_CREATED}}},
        /* its init is killed before it was ever started: a client that waits is answered */
        {SANDBOX_CREATED, {{EV_INIT_ENDS, SANDBOX_STOPPING}, {EV_ENDED, SANDBOX_STOPPED}}},
        /* a first start that comes to nothing */
        {SANDBOX_CREATING, {{EV_START_FAILED, SANDBOX_STOPPED}, {REQ_REMOVE, SANDBOX_REMOVING}}},
        /* execve fails while a client removes it */
        {SANDBOX_STARTING,
         {{REQ_REMOVE_FORCE, SANDBOX_REMOVING},
          {EV_INIT_ENDS, SANDBOX_REMOVING},
          {EV_MAIN_FAILED, SANDBOX_REMOVING},
          {EV_ENDED, SANDBOX_REMOVING},
          {EV_RELEASE_FAILED, SANDBOX_BROKEN},
          {REQ_REMOVE, SANDBOX_REMOVING}}},
        /* taken up by a later supervisor */
        {SANDBOX_STARTING, {{EV_FOUND_RUNNING, SANDBOX_RUNNING}, {REQ_PAUSE, SANDBOX_RUNNING}}},
        {SANDBOX_RUNNING, {{EV_FOUND_ENDING, SANDBOX_STOPPING}, {EV_ENDED, SANDBOX_STOPPED}}},
    };

    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        int state = (int)lives[i].first;

        for (const struct step *s = lives[i].steps; s->event != EV_INVALID; s++) {
            CHECK_INT(sandbox_next_state((enum sandbox_state)state, s->event), s->next);
            state = (int)s->next;
        }
    }
}

/* As bits: the states that can come after `from`, however long after. */
static unsigned reachable_states(unsigned from)
{
    unsigned before;

    do {
        before = from;
        for (int state = FIRST; state < SANDBOX_STATE_MAX; state++)
            for (int event = EV_INVALID + 1; (from & 1U << state) != 0 && event < EV_MAX; event++) {
                int next = sandbox_next_state((enum sandbox_state)state, (enum sandbox_event)event);

                if (next > 0)
                    from |= 1U << next;
            }
    } while (from != before);
    return from;
}

TEST(no_state_is_a_dead_end_and_none_is_out_of_reach)
{
    const unsigned all = (1U << SANDBOX_STATE_MAX) - (1U << FIRST);

    CHECK_INT(reachable_states(1U << SANDBOX_CREATING), all);
    for (int state = FIRST; state < SANDBOX_STATE_MAX; state++)
        CHECK((reachable_states(1U << state) & 1U << SANDBOX_GONE) != 0);
    CHECK_INT(reachable_states(1U << SANDBOX_GONE), 1U << SANDBOX_GONE);
}

/* ---- init ---- */

TEST(phases_of_init_lead_back_to_none)
{
    for (int from = INIT_NONE; from < INIT_PHASE_MAX; from++) {
        unsigned seen = 1U << from, before;

        do {
            before = seen;
            for (int a = INIT_NONE; a < INIT_PHASE_MAX; a++)
                for (int b = INIT_NONE; (seen & 1U << a) != 0 && b < INIT_PHASE_MAX; b++)
                    if (init_phase_may_follow((enum init_phase)a, (enum init_phase)b))
                        seen |= 1U << b;
        } while (seen != before);
        CHECK_INT(seen, (1U << INIT_PHASE_MAX) - 1); /* each from each */
        CHECK(!init_phase_may_follow((enum init_phase)from, (enum init_phase)from));
    }
    CHECK(!init_phase_may_follow(INIT_RUNNING, INIT_NONE)); /* nothing ends without its end */
    CHECK(!init_phase_may_follow(INIT_ENDING, INIT_RUNNING));
    CHECK(!init_phase_may_follow(INIT_NONE, INIT_RUNNING));
    CHECK(!init_phase_may_follow(INIT_PHASE_MAX, INIT_NONE));
    CHECK(!init_phase_may_follow(INIT_NONE, INIT_PHASE_MAX));
    CHECK_STR(init_phase_name(INIT_PHASE_MAX), "invalid");
}

TEST(phases_in_which_the_launcher_decides)
{
    static const bool busy[INIT_PHASE_MAX] = {[INIT_PREPARING] = true,
                                              [INIT_LAUNCHING] = true,
                                              [INIT_WAITING] = true,
                                              [INIT_ADOPTING] = true,
                                              [INIT_ENDING] = true};
    static const bool adoption[INIT_PHASE_MAX] = {
        [INIT_ADOPTING] = true, [INIT_RETRYING] = true, [INIT_LISTING] = true};

    for (int p = INIT_NONE; p < INIT_PHASE_MAX; p++) {
        CHECK_INT(init_phase_is_busy((enum init_phase)p), busy[p]);
        CHECK_INT(init_phase_is_adoption((enum init_phase)p), adoption[p]);
    }
}

int main(int argc, char **argv)
{
    static char table[TABLE_MAX];

    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        print_table(table);
        return fputs(table, stdout) < 0;
    }
    tap_only = argv + (argc > 0);
    return tap_run();
}
