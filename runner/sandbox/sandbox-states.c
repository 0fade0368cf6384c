#include "sandbox/sandbox-states.h"

#include <errno.h>
#include <stddef.h>

/* A cell of the table: the name of the next state, or one of these. */
enum cell {
    CELL_never = 0, /* the event cannot happen in this state */
    CELL_stay = SANDBOX_STATE_MAX,
    CELL_busy, /* refused: the state does not allow this request */
    CELL_gone, /* refused: the sandbox no longer exists */
    CELL_CREATED = SANDBOX_CREATED,
    CELL_STARTING = SANDBOX_STARTING,
    CELL_RUNNING = SANDBOX_RUNNING,
    CELL_PAUSED = SANDBOX_PAUSED,
    CELL_STOPPING = SANDBOX_STOPPING,
    CELL_STOPPED = SANDBOX_STOPPED,
    CELL_REMOVING = SANDBOX_REMOVING,
    CELL_BROKEN = SANDBOX_BROKEN,
    CELL_GONE = SANDBOX_GONE,
};

static const char *const event_names[EV_MAX] = {
    [REQ_START] = "start",
    [REQ_STOP] = "stop",
    [REQ_PAUSE] = "pause",
    [REQ_RESUME] = "resume",
    [REQ_SIGNAL] = "signal",
    [REQ_INIT] = "exec or files",
    [REQ_REMOVE] = "remove",
    [REQ_REMOVE_FORCE] = "remove with force",
    [REQ_UPDATE] = "update",
    [EV_MADE] = "made",
    [EV_MAIN_BEGINS] = "main begins",
    [EV_NO_COMMAND] = "no command",
    [EV_MAIN_RUNS] = "main runs",
    [EV_MAIN_FAILED] = "main failed",
    [EV_START_FAILED] = "start failed",
    [EV_START_FAILED_LATE] = "start failed late",
    [EV_FROZEN] = "frozen",
    [EV_THAWED] = "thawed",
    [EV_MAIN_EXITED] = "main exited",
    [EV_INIT_ENDS] = "init ends",
    [EV_ENDED] = "ended",
    [EV_RELEASE_FAILED] = "removal failed",
    [EV_RELEASE_NOT_SENT] = "removal not sent",
    [EV_FORGOTTEN] = "forgotten",
    [EV_FOUND_CREATED] = "found created",
    [EV_FOUND_STARTING] = "found starting",
    [EV_FOUND_RUNNING] = "found running",
    [EV_FOUND_PAUSED] = "found paused",
    [EV_FOUND_STOPPED] = "found stopped",
    [EV_FOUND_ENDING] = "found ending",
    [EV_FOUND_BROKEN] = "found broken",
};

/* clang-format off */
#define ROW(event, creating, created, starting, running, paused, stopping, stopped, removing, broken, gone) \
    [event] = {[SANDBOX_CREATING] = CELL_##creating, [SANDBOX_CREATED] = CELL_##created, \
               [SANDBOX_STARTING] = CELL_##starting, [SANDBOX_RUNNING] = CELL_##running, \
               [SANDBOX_PAUSED] = CELL_##paused, [SANDBOX_STOPPING] = CELL_##stopping, \
               [SANDBOX_STOPPED] = CELL_##stopped, [SANDBOX_REMOVING] = CELL_##removing, \
               [SANDBOX_BROKEN] = CELL_##broken, [SANDBOX_GONE] = CELL_##gone}

/* A row has a cell for each state: the macro takes neither more nor fewer. */
static const unsigned char transitions[EV_MAX][SANDBOX_STATE_MAX] = {
    /*                        creating  created   starting  running   paused    stopping  stopped   removing  broken    gone */
    ROW(REQ_START,            stay,     stay,     busy,     busy,     busy,     busy,     stay,     busy,     busy,     gone),
    ROW(REQ_STOP,             busy,     STOPPING, STOPPING, STOPPING, STOPPING, stay,     stay,     busy,     busy,     gone),
    ROW(REQ_PAUSE,            busy,     busy,     busy,     stay,     busy,     busy,     busy,     busy,     busy,     gone),
    ROW(REQ_RESUME,           busy,     busy,     busy,     busy,     stay,     busy,     busy,     busy,     busy,     gone),
    ROW(REQ_SIGNAL,           busy,     busy,     busy,     stay,     stay,     stay,     busy,     busy,     busy,     gone),
    ROW(REQ_INIT,             stay,     stay,     stay,     stay,     stay,     busy,     stay,     busy,     busy,     gone),
    ROW(REQ_REMOVE,           busy,     REMOVING, busy,     busy,     busy,     busy,     REMOVING, busy,     REMOVING, gone),
    ROW(REQ_REMOVE_FORCE,     REMOVING, REMOVING, REMOVING, REMOVING, REMOVING, REMOVING, REMOVING, busy,     REMOVING, gone),
    ROW(REQ_UPDATE,           stay,     stay,     stay,     stay,     stay,     stay,     stay,     busy,     busy,     gone),

    ROW(EV_MADE,              CREATED,  never,    never,    never,    never,    never,    never,    never,    never,    never),
    ROW(EV_MAIN_BEGINS,       never,    STARTING, never,    never,    never,    never,    STARTING, never,    never,    never),
    ROW(EV_NO_COMMAND,        never,    never,    CREATED,  never,    never,    never,    never,    never,    never,    never),
    ROW(EV_MAIN_RUNS,         never,    never,    RUNNING,  never,    never,    stay,     never,    stay,     stay,     never),
    ROW(EV_MAIN_FAILED,       never,    never,    STOPPING, never,    never,    stay,     never,    stay,     stay,     never),
    ROW(EV_START_FAILED,      STOPPED,  stay,     STOPPED,  never,    never,    stay,     stay,     stay,     never,    never),
    ROW(EV_START_FAILED_LATE, STOPPED,  never,    STOPPING, never,    never,    stay,     stay,     stay,     never,    never),

    ROW(EV_FROZEN,            never,    stay,     stay,     PAUSED,   stay,     stay,     stay,     stay,     stay,     stay),
    ROW(EV_THAWED,            never,    stay,     stay,     stay,     RUNNING,  stay,     stay,     stay,     stay,     stay),

    ROW(EV_MAIN_EXITED,       never,    never,    STOPPING, STOPPING, STOPPING, stay,     never,    stay,     stay,     never),
    ROW(EV_INIT_ENDS,         stay,     STOPPING, STOPPING, STOPPING, STOPPING, stay,     stay,     stay,     stay,     never),
    ROW(EV_ENDED,             never,    never,    STOPPED,  never,    never,    STOPPED,  stay,     stay,     stay,     never),

    ROW(EV_RELEASE_FAILED,    never,    never,    never,    never,    never,    never,    never,    BROKEN,   never,    never),
    ROW(EV_RELEASE_NOT_SENT,  never,    never,    never,    never,    never,    never,    never,    STOPPED,  never,    never),
    ROW(EV_FORGOTTEN,         GONE,     GONE,     GONE,     GONE,     GONE,     GONE,     GONE,     GONE,     GONE,     never),

    ROW(EV_FOUND_CREATED,     never,    stay,     CREATED,  CREATED,  CREATED,  CREATED,  never,    never,    never,    never),
    ROW(EV_FOUND_STARTING,    never,    STARTING, stay,     STARTING, STARTING, STARTING, STARTING, never,    never,    never),
    ROW(EV_FOUND_RUNNING,     never,    RUNNING,  RUNNING,  stay,     RUNNING,  RUNNING,  RUNNING,  never,    never,    never),
    ROW(EV_FOUND_PAUSED,      never,    PAUSED,   PAUSED,   PAUSED,   stay,     PAUSED,   PAUSED,   never,    never,    never),
    ROW(EV_FOUND_STOPPED,     never,    STOPPED,  STOPPED,  STOPPED,  STOPPED,  STOPPED,  stay,     never,    never,    never),
    ROW(EV_FOUND_ENDING,      never,    STOPPING, STOPPING, STOPPING, STOPPING, stay,     STOPPING, never,    never,    never),
    ROW(EV_FOUND_BROKEN,      never,    BROKEN,   BROKEN,   BROKEN,   BROKEN,   BROKEN,   BROKEN,   never,    stay,     never),
};
#undef ROW
/* clang-format on */

int sandbox_next_state(enum sandbox_state state, enum sandbox_event event)
{
    unsigned cell;

    if (state <= SANDBOX_INVALID || state >= SANDBOX_STATE_MAX || event <= EV_INVALID ||
        event >= EV_MAX)
        return SANDBOX_INVALID;
    cell = transitions[event][state];
    return cell == CELL_stay   ? (int)state
           : cell == CELL_busy ? -EBUSY
           : cell == CELL_gone ? -ENOENT
                               : (int)cell;
}

const char *sandbox_event_name(enum sandbox_event event)
{
    return event > EV_INVALID && event < EV_MAX ? event_names[event] : "invalid";
}

bool sandbox_event_is_request(enum sandbox_event event)
{
    return event > EV_INVALID && event <= REQ_LAST;
}

const char *sandbox_state_name(enum sandbox_state state)
{
    static const char *const names[SANDBOX_STATE_MAX] = {
        [SANDBOX_CREATING] = "creating", [SANDBOX_CREATED] = "created",
        [SANDBOX_STARTING] = "starting", [SANDBOX_RUNNING] = "running",
        [SANDBOX_PAUSED] = "paused",     [SANDBOX_STOPPING] = "stopping",
        [SANDBOX_STOPPED] = "stopped",   [SANDBOX_REMOVING] = "removing",
        [SANDBOX_BROKEN] = "broken",     [SANDBOX_GONE] = "removing",
    };

    return state > SANDBOX_INVALID && state < SANDBOX_STATE_MAX ? names[state] : "invalid";
}

/* ---- init ---- */

#define BIT(phase) (1U << INIT_##phase)
static const struct {
    const char *name;
    unsigned followers; /* the phases that may come next, as bits */
} init_phases[INIT_PHASE_MAX] = {
    [INIT_NONE] = {"none",
                   BIT(PREPARING) | BIT(LAUNCHING) | BIT(ADOPTING) | BIT(ENDING) | BIT(UNKNOWN)},
    [INIT_UNKNOWN] = {"unknown", BIT(ENDING)},
    [INIT_PREPARING] = {"preparing", BIT(NONE)},
    [INIT_LAUNCHING] = {"launching", BIT(NONE) | BIT(WAITING) | BIT(RUNNING) | BIT(ENDING)},
    [INIT_WAITING] = {"waiting", BIT(NONE) | BIT(ENDING)},
    [INIT_ADOPTING] = {"adopting", BIT(NONE) | BIT(RETRYING) | BIT(LISTING) | BIT(UNKNOWN)},
    [INIT_RETRYING] = {"retrying", BIT(ADOPTING) | BIT(UNKNOWN)},
    [INIT_LISTING] = {"listing", BIT(RUNNING)},
    [INIT_RUNNING] = {"running", BIT(ENDING)},
    [INIT_ENDING] = {"ending", BIT(NONE) | BIT(UNKNOWN)},
};

bool init_phase_may_follow(enum init_phase from, enum init_phase to)
{
    return from < INIT_PHASE_MAX && to < INIT_PHASE_MAX &&
           (init_phases[from].followers & 1U << to) != 0;
}

const char *init_phase_name(enum init_phase phase)
{
    return phase < INIT_PHASE_MAX ? init_phases[phase].name : "invalid";
}

bool init_phase_is_busy(enum init_phase phase)
{
    return phase == INIT_PREPARING || phase == INIT_LAUNCHING || phase == INIT_WAITING ||
           phase == INIT_ADOPTING || phase == INIT_ENDING;
}

bool init_phase_is_adoption(enum init_phase phase)
{
    return phase == INIT_ADOPTING || phase == INIT_RETRYING || phase == INIT_LISTING;
}
