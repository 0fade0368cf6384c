#pragma once

/*
 * The states of a sandbox and the events that lead from one to another. The table is complete and
 * pure, so it can be tested without a daemon. docs/states-table.md shows the table.
 */

#include <stdbool.h>

/* States as clients see them. The names are in the API and in state.json. */
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
    SANDBOX_BROKEN, /* the files cannot be read; only removal is possible */
    SANDBOX_GONE,   /* no longer in the sandbox registry; clients see it as "removing" */
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
    EV_MAIN_FAILED,       /* execve has failed, or a step before it in init */
    EV_START_FAILED,      /* failed before the main process; nothing of the sandbox runs */
    EV_START_FAILED_LATE, /* as EV_START_FAILED, while init is being ended */
    /* The freezer. */
    EV_FROZEN,
    EV_THAWED,
    /* An end. */
    EV_MAIN_EXITED,
    EV_INIT_ENDS, /* init is gone, or is being killed with all that runs */
    EV_ENDED,     /* nothing runs any more, and its files are synced */
    /* A removal. */
    EV_RELEASE_FAILED,   /* the launcher could not remove all of its files */
    EV_RELEASE_NOT_SENT, /* the request could not be sent to the launcher */
    EV_FORGOTTEN,        /* the sandbox leaves the registry */
    /* Findings of a new supervisor, after it has loaded the state from state.json. */
    EV_FOUND_CREATED,
    EV_FOUND_STARTING,
    EV_FOUND_RUNNING,
    EV_FOUND_PAUSED,
    EV_FOUND_STOPPED,
    EV_FOUND_ENDING, /* init exited before it had listed what runs */
    EV_FOUND_BROKEN,
    EV_MAX
};

/*
 * Returns the state after this event, which is positive. Returns -EBUSY for a request that the
 * state does not allow, and -ENOENT if the sandbox is gone. Returns 0 (SANDBOX_INVALID) for an
 * event that cannot happen in this state.
 */
int sandbox_next_state(enum sandbox_state state, enum sandbox_event event);

/* The name that clients see; "invalid" for other values. */
const char *sandbox_state_name(enum sandbox_state state);
const char *sandbox_event_name(enum sandbox_event event);
bool sandbox_event_is_request(enum sandbox_event event);

/* The phase of a sandbox's init. A sandbox is in one phase at a time, beside its state. */
enum init_phase {
    INIT_NONE = 0,  /* nothing runs */
    INIT_UNKNOWN,   /* processes of an earlier run may be left: the launcher kills them first */
    INIT_PREPARING, /* before the first start: ports are opened, volumes created */
    INIT_LAUNCHING, /* LAUNCH_START is pending, or the network is being set up */
    INIT_WAITING,   /* LAUNCH_START will be sent again: others are leaving its network */
    INIT_ADOPTING,  /* LAUNCH_REATTACH is pending */
    INIT_RETRYING,  /* LAUNCH_REATTACH will be sent again */
    INIT_LISTING,   /* LIST has been sent to init */
    INIT_RUNNING,
    INIT_ENDING, /* LAUNCH_END or LAUNCH_KILL, the exit of init, or LAUNCH_STOP is pending */
    INIT_PHASE_MAX
};

bool init_phase_may_follow(enum init_phase from, enum init_phase to);
const char *init_phase_name(enum init_phase phase);
/*
 * True if a pending request to the launcher, the step after it, or a timer that repeats it decides
 * how the sandbox continues.
 */
bool init_phase_is_busy(enum init_phase phase);
/* True while the supervisor reattaches to an init of an earlier supervisor. */
bool init_phase_is_adoption(enum init_phase phase);
