#pragma once

/*
 * The states of a sandbox and the events that move it from one to another: one table, complete, and
 * pure, so that it can be tested without a daemon. docs/states-table.md shows it.
 */

#include <stdbool.h>

/* What clients see. The names are in the API and in state.json. */
enum sandbox_state {
    SANDBOX_INVALID = 0,
    SANDBOX_CREATING,
    SANDBOX_CREATED, /* init runs, no main process yet */
    SANDBOX_STARTING,
    SANDBOX_RUNNING,
    SANDBOX_PAUSED,
    SANDBOX_STOPPING,
    SANDBOX_STOPPED, /* nothing runs; files and ids are kept */
    SANDBOX_REMOVING,
    SANDBOX_BROKEN, /* its files cannot be read: only removing works */
    SANDBOX_GONE,   /* no longer in the table of sandboxes; clients see it as "removing" */
    SANDBOX_STATE_MAX
};

enum sandbox_event {
    EV_INVALID = 0,
    /* Requests of clients. The table refuses those that do not fit the state. */
    REQ_START,
    REQ_STOP,
    REQ_PAUSE,
    REQ_RESUME,
    REQ_SIGNAL,
    REQ_INIT, /* a request that needs init: exec, files, processes */
    REQ_REMOVE,
    REQ_REMOVE_FORCE,
    REQ_UPDATE,
    REQ_LAST = REQ_UPDATE,
    /* A start. */
    EV_MADE,        /* the init of a new sandbox runs */
    EV_MAIN_BEGINS, /* the main process is about to be started */
    EV_NO_COMMAND,  /* there is no main process to start: init alone runs again */
    EV_MAIN_RUNS,
    EV_MAIN_FAILED,       /* execve, or a step before it in init */
    EV_START_FAILED,      /* before the main process; nothing of the sandbox runs */
    EV_START_FAILED_LATE, /* the same, and the end of init is under way */
    /* The freezer. */
    EV_FROZEN,
    EV_THAWED,
    /* An end. */
    EV_MAIN_EXITED,
    EV_INIT_ENDS, /* init is gone, or is being killed with all that runs */
    EV_ENDED,     /* nothing runs any more, and its files are synced */
    /* A removal. */
    EV_RELEASE_FAILED,   /* the launcher could not remove its files, or not all of them */
    EV_RELEASE_NOT_SENT, /* the launcher was not even asked */
    EV_FORGOTTEN,        /* the sandbox leaves the table */
    /* What a new supervisor finds, after the state that state.json says. */
    EV_FOUND_CREATED,
    EV_FOUND_STARTING,
    EV_FOUND_RUNNING,
    EV_FOUND_PAUSED,
    EV_FOUND_STOPPED,
    EV_FOUND_ENDING, /* init died before it told what runs */
    EV_FOUND_BROKEN,
    EV_MAX
};

/*
 * The state after this event: positive. Negative errno: a request that the state does not allow
 * (-EBUSY, -ENOENT for a sandbox that is gone). 0 (SANDBOX_INVALID): the event cannot happen in
 * this state.
 */
int sandbox_next_state(enum sandbox_state state, enum sandbox_event event);

/* As clients see it; "invalid" for what is none. */
const char *sandbox_state_name(enum sandbox_state state);
const char *sandbox_event_name(enum sandbox_event event);
bool sandbox_event_is_request(enum sandbox_event event);

/* How far the init of a sandbox is: one of these at a time, beside the state. */
enum init_phase {
    INIT_NONE = 0,  /* nothing runs */
    INIT_UNKNOWN,   /* processes of an earlier run may be left: the launcher kills them first */
    INIT_PREPARING, /* before the first start: ports are opened, volumes made */
    INIT_LAUNCHING, /* LAUNCH_START is under way, or its network is being set up */
    INIT_ADOPTING,  /* LAUNCH_REATTACH is under way */
    INIT_RETRYING,  /* LAUNCH_REATTACH is sent again soon */
    INIT_LISTING,   /* init has been asked what runs (LIST) */
    INIT_RUNNING,
    INIT_ENDING, /* LAUNCH_END or LAUNCH_KILL, the death, LAUNCH_STOP are under way */
    INIT_PHASE_MAX
};

bool init_phase_may_follow(enum init_phase from, enum init_phase to);
const char *init_phase_name(enum init_phase phase);
/* Whether a request to the launcher, or what follows it, decides how it goes on. */
bool init_phase_is_busy(enum init_phase phase);
/* Whether an earlier supervisor's init is being taken up. */
bool init_phase_is_adoption(enum init_phase phase);
