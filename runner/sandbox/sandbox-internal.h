#pragma once

/* Shared by the modules of a sandbox, and visible to its parts (sandbox-parts.h). */

#include <uv.h>

#include "base/list.h"
#include "launch/request.h"
#include "policy/net-setup.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

enum { SANDBOX_ID_BYTES = 8, SANDBOX_ID_LEN = SANDBOX_ID_BYTES * 2 };

enum { EXEC_TIMEOUT_SPARE_MS = 500 /* time for init to end an exec before the supervisor acts */ };

/* A callback that waits for an event of a sandbox. */
struct waiter {
    sandbox_cb cb;
    void *data;
    struct waiter *next;
};

/* A sandbox's link in a list or index of the registry. */
struct sandbox_link {
    struct sandbox *next, **at; /* at: the pointer that points to this sandbox */
};

/*
 * The state of a pause for readers of a sandbox's files (freeze-ref.h). A client's pause is
 * FREEZE_REF_NONE.
 */
enum freeze_ref_phase {
    FREEZE_REF_NONE = 0,
    FREEZE_REF_KEPT,    /* on disk: a later supervisor ends such a pause */
    FREEZE_REF_THAWING, /* the last reader is thawing the sandbox; on disk, too */
};

struct sandbox_freeze {
    enum freeze_ref_phase phase;
    unsigned readers; /* number of readers of its files that keep it frozen */
};

/* What the watch of the host's disk knows of it (disk-watch.c). */
struct sandbox_disk_hold {
    uint64_t base; /* bytes written when it was first looked at */
    bool sampled;  /* base is valid */
    bool asking;   /* the launcher is being asked, or the sandbox is being frozen or thawed */
    bool held;     /* frozen by the watch */
    bool counted;  /* the watch is one of freeze_ref's readers */
};

/* Findings of a reattach, from the start of the supervisor to LIST_END. */
struct sandbox_adoption {
    unsigned tries;
    bool frozen;     /* the launcher found its processes paused */
    bool wanted;     /* clients wanted the sandbox to run */
    bool stop_again; /* a stop was cut off and is repeated */
};

/* The client that created the sandbox. */
struct sandbox_maker {
    int64_t by;   /* a uid, or STORE_NO_CREATOR */
    bool limited; /* during the creation: the client is not the owner of the daemon */
    int64_t ms;   /* creation time, since the epoch */
};

/* A start: sandbox-start.c. */
struct sandbox_start {
    struct part_walk walk; /* the stage that waits for a part */
    bool refused;          /* the start failed before the main process: no restart */
    int failure; /* negative errno of a failed start, until the sandbox is stopped; error has the
                    text */
    int64_t until_ms; /* CLOCK_MONOTONIC; the launcher is asked again until then; 0: not yet */
    int fds[2];       /* owned: init's pidfd and control, while the network is set up; -1 */
    int waiting_fd;   /* owned: client_fd while the parts prepare; -1 */
    int client_fd;    /* borrowed; the client's connection, during the creation; -1 */
};

/* The main process: sandbox-main.c. */
struct sandbox_run {
    struct exec *main;   /* owned reference, or NULL */
    bool wanted;         /* the main process is started once init runs */
    uint16_t rows, cols; /* size of its terminal at the next start; 0 = default */
    int64_t started_ms;
    int64_t began; /* CLOCK_MONOTONIC ms; 0: before this supervisor */
};

/* How the last run ended. */
struct sandbox_exit {
    bool has; /* there was a run, and it has ended */
    int code;
    bool oom_killed, timed_out;
    int64_t finished_ms;
};

/* Restart policies: restart.c. */
struct sandbox_restart {
    bool due;          /* a restart waits for `timer`, or is in progress */
    bool user_stopped; /* a client has stopped the sandbox: no policy restarts it */
    unsigned stops;    /* number of stops by clients; a restart's stop does not count */
    unsigned count, failures;
    uv_timer_t timer; /* the backoff; a helper init may come and go meanwhile */
};

/* The end of a run, and a removal: sandbox-end.c, sandbox-removal.c. */
struct sandbox_end {
    struct pidfd_wait *pidfd_wait; /* owned; waits for the exit of init, or for the sync after a
                                      stop; has a reference of the sandbox */
    unsigned tries;                /* remaining tries of LAUNCH_STOP */
    unsigned release_tries;
    bool releasing;   /* LAUNCH_RELEASE is pending */
    bool syncing;     /* nothing runs any more, the launcher's job syncs the files */
    bool lingers;     /* it has not ended in time (linger.c); error says why */
    bool asking;      /* the launcher has been asked why it has not ended */
    bool died;        /* meanwhile it has */
    unsigned poll_ms; /* linger.c: the wait between two questions after a reattach */
};

struct sandbox_net {
    struct net_place place;        /* valid while an init runs */
    char owner[LAUNCH_ID_MAX + 1]; /* id that the network was made for, perhaps another's */
    char closed[192]; /* reason why its link is down; "": the link is up (net-failsafe.c) */
};

/* Waiters, by the event that they wait for. */
struct sandbox_waiters {
    struct waiter *init;    /* init runs */
    struct waiter *started; /* the main process runs */
    struct waiter *stopped;
    struct waiter *exit;     /* the main process has ended */
    struct waiter *run_over; /* the main process has ended, or its start has failed */
    struct waiter *removed;
};

struct sandbox_execs {
    struct exec *first; /* each exec holds a reference of the sandbox */
    unsigned count;     /* execs, without helpers */
    uint64_t last_id;
};

/* Data of its parts; only the part itself uses its own. */
struct sandbox_part_data {
    struct health *health;             /* owned; NULL: no check has ever begun */
    struct console *console;           /* owned; NULL = not needed so far */
    struct exposure *exposures;        /* owned, by port */
    struct published_ports *published; /* owned; NULL = never opened (publish.c) */
    struct fwd *fwd;                   /* owned; NULL = never opened */
    struct net_sockets *net_sockets;   /* owned; NULL = none requested yet */
    struct name_server *names;         /* owned; NULL = it has no name server (names.c) */
    struct network_change *net_change; /* a change that waits for the launcher; NULL: none */
    struct {
        struct sandbox_egress *open;  /* owned; NULL = outgoing traffic is not controlled */
        struct egress_change *change; /* a change that waits for the launcher */
        unsigned opening;             /* number of sockets being opened (egress-socket.c) */
    } egress;
    struct {
        unsigned links; /* number of connections to its ports (port.c) */
        bool full;      /* further ones were refused, and that was logged */
    } ports;
    struct {
        unsigned running;
        QUEUE(struct file_op) queue; /* operations that wait; each holds a reference */
        unsigned waiting;
    } files;
    struct {
        struct process *first; /* owned */
        unsigned count;
        struct process *main_log; /* owned: the main process, for its log; or NULL */
    } processes;
};

struct sandbox {
    struct supervisor *sup; /* borrowed */
    struct sandbox_link all, by_id, by_name;
    struct sandbox_link sharing; /* list of sandboxes whose spec joins another's network */
    char id[SANDBOX_ID_LEN + 1];
    struct spec *spec; /* owned; has a name */
    unsigned refs;     /* held by the registry, each exec and each pending request */
    struct sandbox_maker made;

    enum sandbox_state state;
    enum init_phase init;
    struct channel *channel; /* owned; NULL while no init runs */
    struct sandbox_adoption adoption;
    struct sandbox_start start;
    struct sandbox_run run;
    struct sandbox_exit exit;
    struct sandbox_restart restart;
    struct sandbox_end end;
    struct sandbox_freeze freeze_ref;
    struct sandbox_disk_hold disk_hold;
    struct sandbox_net net;
    struct sandbox_execs execs;
    struct sandbox_waiters waiters;
    struct sandbox_part_data parts;

    uv_timer_t timer; /* for a repeated end, stop deadline, hard timeout or idle helper: one at a
                         time, by state */
    uv_timer_t idle;  /* the inactivity timeout */
    unsigned handles; /* number of open timers */
    char error[512];
};

/* Returns a new exec id. Ids are unique in a sandbox, across supervisors, too. */
uint64_t sandbox_next_exec_id(struct sandbox *s);
/*
 * Returns the environment of a process: the sandbox's, in which `extra` replaces variables of the
 * same name, and a name alone takes one away. The caller frees the list and its strings. NULL on
 * OOM.
 */
char **sandbox_env(const struct sandbox *s, char *const *extra, bool tty);

/* waiters.c */
int waiters_add(struct waiter **list, sandbox_cb cb, void *data, struct err *err);
/* Calls and frees every waiter. The list is emptied first, as a callback may add to it. */
void waiters_answer(struct waiter **list, int r, const struct err *err);
/* Removes the waiters with this data without a call; returns whether there was one. */
bool waiters_forget(struct waiter **list, const void *data);
/* Calls cb from the loop, for a condition that is true already. */
int sandbox_answer_soon(struct sandbox *s, int r, sandbox_cb cb, void *data, struct err *err);

/* sandbox-life.c */
/* Checks that the table of states allows this request: 0, -EBUSY or -ENOENT. */
int sandbox_check(const struct sandbox *s, enum sandbox_event request, struct err *err);
/*
 * Changes to the state that the table gives for this event; returns whether the state is another
 * one. An event that cannot happen is logged as an error and changes nothing; in a build with a
 * sanitizer it aborts.
 */
bool sandbox_set_state(struct sandbox *s, enum sandbox_event event);
/* Sets the phase of init; the phase must be a possible successor. */
void sandbox_set_init(struct sandbox *s, enum init_phase phase);
void sandbox_emit(struct sandbox *s, const char *type, const char *detail);
/* An event of this type for each named volume of the spec. */
void sandbox_emit_volumes(struct sandbox *s, const char *type);
void sandbox_save_state(struct sandbox *s);
/* Saves the sandbox with a state that it is about to enter once the file is written. */
int sandbox_save_as(struct sandbox *s, enum sandbox_state as, struct err *err);
/*
 * Sends a request to the launcher about this sandbox. cb's data is the sandbox, with a reference
 * that cb drops.
 */
int sandbox_send_verb(struct sandbox *s, enum launch_verb verb, launch_cb cb, struct err *err);

/* sandbox-verbs.c */
/* As sandbox_pause and sandbox_resume, but for readers of its files (freeze-ref.h). */
int sandbox_freeze_for_ref(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
int sandbox_let_go(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Marks a pause as no longer belonging to readers. */
void sandbox_freeze_refs_dropped(struct sandbox *s);

/* sandbox-start.c */
/* Starts init. Returns 0 also if a start of init is in progress. */
int sandbox_launch(struct sandbox *s, struct err *err);
/* Starts init of a new sandbox; cb is called when init runs. */
int sandbox_with_init_new(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Opens the channel to init; takes fds (pidfd, control) from the launcher's reply. */
int sandbox_open_channel(struct sandbox *s, int fds[2]);
/*
 * Ends a start that has failed before the main process; err says why. restart.c decides whether a
 * restart is tried again.
 */
void sandbox_start_failed(struct sandbox *s, int r, const struct err *err);
/* Restarts the idle timer of a helper init. */
void sandbox_helper_used(struct sandbox *s);

/* sandbox-main.c */
/* Starts the main process in a sandbox whose init runs. */
void sandbox_start_main(struct sandbox *s);
/* Called when an exec has ended. After the main process the last exec lets the sandbox stop. */
void sandbox_exec_ended(struct sandbox *s);
/*
 * Called after a reattach to a live init: restarts timers, and continues a stop that was cut off.
 */
void sandbox_goes_on(struct sandbox *s);
/* The events of a main process's owner, the sandbox; reattach.c sets them, too. */
struct exec_events;
extern const struct exec_events sandbox_main_events;

/* sandbox-end.c */
/* Nothing of the sandbox runs any more: it becomes stopped, or its removal goes on. */
void sandbox_stopped(struct sandbox *s);
/* Kills init, and with it every process of the sandbox. */
void sandbox_end_init(struct sandbox *s);
/*
 * Has the launcher kill an init whose pidfd is not here. The phase becomes INIT_ENDING, even if
 * there was no init.
 */
int sandbox_send_kill(struct sandbox *s, struct err *err);
/* Answers waiters for a start that has failed, and whose end was awaited. */
void sandbox_answer_failed(struct sandbox *s);

/* linger.c: sandboxes whose processes do not end. */
/*
 * Its end has taken longer than endTimeoutMs. Answers the requests that wait for it with -ETIMEDOUT
 * and the reason; the end goes on.
 */
void sandbox_linger(struct sandbox *s, const char *why);
/* Its end goes on: what it was waiting for has come. */
void sandbox_linger_over(struct sandbox *s);
/* Records the refusal of a request for a sandbox that lingers; returns code. */
int sandbox_linger_refuse(const struct sandbox *s, int code, struct err *err);
/* After a reattach, without an init: asks the launcher until the last process has ended. */
void sandbox_linger_adopted(struct sandbox *s, const char *why);

/* sandbox-removal.c */
/* Begins or continues the removal of a sandbox in SANDBOX_REMOVING. */
void sandbox_begin_removal(struct sandbox *s);

/* restart.c */
/*
 * Restarts a stopped sandbox if its policy says so, perhaps after a backoff. Called after each
 * stop, and after a reattach to a stopped sandbox.
 */
void sandbox_maybe_restart(struct sandbox *s);
/* True if its last run has ended and the restart policy begins another one. */
bool sandbox_wants_restart(const struct sandbox *s);
/* Cancels a restart, because a client has requested something else. */
void sandbox_no_restart(struct sandbox *s);

/* registry.c */
void sandbox_forget(struct sandbox *s);
/* Find a sandbox by its complete id, or by its name. */
/* The first of this name; several owners may have one each. */
struct sandbox *sandbox_by_name(struct supervisor *sup, const char *name);
struct sandbox *sandbox_next_of_name(struct sandbox *s, const char *name);
struct sandbox *sandbox_alloc(struct supervisor *sup, const char *id, struct spec *spec);

/* netns-sharing.c: sandboxes in the network of another. */
struct network_join;
const char *sandbox_hostname(const struct sandbox *s);
/*
 * Finds the sandbox whose network the spec joins, if it does; else *ret is unchanged. -ENOENT: no
 * such sandbox; -EBUSY: it does not run.
 */
struct network_join;
int sandbox_find_join(const struct sandbox *s, struct network_join *ret, struct err *err);
/* Returns -EBUSY while a sandbox in the network of s runs. */
int sandbox_check_dependents(struct sandbox *s, struct err *err);
/*
 * Ends live sandboxes in the network of s. True: there are some, and their end continues the
 * removal of s.
 */
bool sandbox_end_dependents(struct sandbox *s);
/* As sandbox_end_dependents, for a sandbox of which only the id is known. */
bool sandbox_end_dependents_of(struct supervisor *sup, const char *id);
/* Copies the addresses and the owner of its network from the launcher's reply. */
void sandbox_take_net(struct sandbox *s, const struct launch_reply *reply);
/*
 * Called when s runs, has stopped or is gone: the removal of the network's owner may wait for that.
 */
void sandbox_dependent_settled(struct sandbox *s);

/* reattach.c: handles SLOT and LIST_END */
struct imsg;
void sandbox_on_list(struct sandbox *s, const struct imsg *msg);
/*
 * Ends a reattach whose init has exited before LIST_END. Only its messages so far and the files on
 * disk are known.
 */
void sandbox_adoption_cut_off(struct sandbox *s);

/* exec.c */
void exec_forget_all(struct sandbox *s);
bool exec_any_alive(const struct sandbox *s);
/*
 * Registers the sandbox as a second listener of its main process, beside an attached client; it is
 * called first.
 */
void exec_own(struct exec *e, const struct exec_events *events, void *data);
/* Calls the owner's exited event if the exec has ended; at most once. */
void exec_tell_owner(struct exec *e);
/* True if an exec runs that counts as activity: neither the main process nor an idle exec. */
bool exec_any_counts(const struct sandbox *s);
/*
 * Creates the object for an exec of an earlier supervisor that init still knows. NULL on OOM, and
 * for an ended exec that is not kept.
 */
struct exec *exec_reattach(struct sandbox *s, uint64_t id, uint32_t flags, int value, bool ended);
/* Ends every exec, because init has exited and every process was killed. */
void exec_all_lost(struct sandbox *s);
/* True for the exec of a background process, but not for the main process. */
bool exec_is_logged(const struct exec *e);
