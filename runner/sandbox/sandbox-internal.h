#pragma once

/* What the modules of a sandbox share, and its parts (sandbox-parts.h) see of it. */

#include <uv.h>

#include "launch/request.h"
#include "policy/net-setup.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/sandbox.h"
#include "sandbox/services.h"

enum { SANDBOX_ID_BYTES = 8, SANDBOX_ID_LEN = SANDBOX_ID_BYTES * 2 };

enum { EXEC_TIMEOUT_SPARE_MS = 500 /* init has for an exec's end before we see to it */ };

/* A request that waits for something to happen to a sandbox. */
struct waiter {
    sandbox_cb cb;
    void *data;
    struct waiter *next;
};

/* A place in a list of the table. */
struct sandbox_link {
    struct sandbox *next, **at; /* at: what points to us */
};

/* A pause that belongs to readers of a sandbox's files and to no client (freeze-ref.h). */
enum hold_phase {
    HOLD_NONE = 0,
    HOLD_KEPT,    /* stored: a later supervisor ends a pause that it finds so */
    HOLD_THAWING, /* the last reader has ended it, and the sandbox does not run yet; stored too */
};

struct sandbox_freeze_for_ref {
    enum hold_phase phase;
    unsigned readers; /* of its files, while it is paused for that */
};

/* What reattach.c finds, from the start of the supervisor to LIST_END. */
struct sandbox_adoption {
    unsigned tries;
    bool frozen;     /* the launcher found its processes paused */
    bool wanted;     /* a client wanted it to run */
    bool stop_again; /* its stop was cut off */
};

/* The client that a sandbox was made for. */
struct sandbox_maker {
    int64_t by;   /* a uid, or STORE_NO_CREATOR */
    bool limited; /* while it is being made: the client is not the owner of the daemon */
    int64_t ms;   /* since the epoch */
};

/* A start: sandbox-start.c. */
struct sandbox_start {
    struct part_walk walk; /* the stage that waits for a part */
    bool refused;          /* it failed before the main process: not tried again */
    int failure;           /* its negative errno, until it is stopped; error says why */
    int fds[2];            /* owned: init's pidfd and control, while the network is set up; -1 */
    int waiting_fd;        /* owned: client_fd while the parts prepare; -1 */
    int client_fd; /* borrowed; the client's connection, while the sandbox is being made; -1 */
};

/* The main process: sandbox-main.c. */
struct sandbox_run {
    struct exec *main;   /* owned reference, or NULL */
    bool wanted;         /* the main process is started once init runs */
    uint16_t rows, cols; /* of its terminal, at its next start; 0 = default */
    int64_t started_ms;
    int64_t began; /* by the monotonic clock; 0: before this supervisor */
};

/* How the last run ended. */
struct sandbox_exit {
    bool has; /* there was one */
    int code;
    bool oom_killed, timed_out;
    int64_t finished_ms;
};

/* Restart policies: restart.c. */
struct sandbox_restart {
    bool due;          /* it waits for `timer`, or is under way */
    bool user_stopped; /* a client asked for the stop: no policy restarts it */
    unsigned stops;    /* that clients have asked for; not those of a restart */
    unsigned count, failures;
    uv_timer_t timer; /* back-off; an init that helps with files may come and go meanwhile */
};

/* The end of a run, and a removal: sandbox-end.c, sandbox-removal.c. */
struct sandbox_end {
    struct pidfd_wait *pidfd_wait; /* owned; waits for init's, or what follows a stop, with a
                            reference of the sandbox */
    unsigned tries;                /* of LAUNCH_STOP that are left */
    unsigned release_tries;
    bool releasing; /* LAUNCH_RELEASE is under way */
};

struct sandbox_net {
    struct net_place place;        /* while an init runs */
    char owner[LAUNCH_ID_MAX + 1]; /* the id that the network was made for: its own, or another's */
    char closed[192];              /* why its link is down; "": it is not (net-failsafe.c) */
};

/* Requests that wait for an event. */
struct sandbox_waiters {
    struct waiter *init;    /* init runs */
    struct waiter *started; /* the main process runs */
    struct waiter *stopped;
    struct waiter *exit;     /* the main process has ended */
    struct waiter *run_over; /* the same, or its start has failed */
    struct waiter *removed;
};

struct sandbox_execs {
    struct exec *first; /* each holds a reference of the sandbox */
    unsigned count;     /* without helpers */
    uint64_t last_id;
};

/* What its parts keep; each is used by its part alone. */
struct sandbox_part_data {
    struct health *health;             /* owned; NULL: no check has ever begun */
    struct console *console;           /* owned; NULL = not needed so far */
    struct exposure *exposures;        /* owned, by port */
    struct published_ports *published; /* owned; NULL = never opened (publish.c) */
    struct fwd *fwd;                   /* owned; NULL: there is none */
    struct net_sockets *net_sockets;   /* owned; NULL = never asked for */
    struct {
        struct sandbox_egress *open;  /* owned; NULL = what it sends is not looked at */
        struct egress_change *change; /* one that waits for the launcher */
        unsigned opening;             /* handlers and name servers (egress-socket.c) */
    } egress;
    struct {
        unsigned links; /* connections to its ports (port.c) */
        bool full;      /* more were refused, and that was logged */
    } ports;
    struct {
        unsigned running;
        struct file_op *queue; /* that wait for their turn; each holds a reference */
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
    struct sandbox_link sharing; /* of sandboxes in the network of another, by their specs */
    char id[SANDBOX_ID_LEN + 1];
    struct spec *spec; /* owned; its name is set */
    unsigned refs;     /* the table's, each exec's, each request's under way */
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
    struct sandbox_freeze_for_ref freeze_ref;
    struct sandbox_net net;
    struct sandbox_execs execs;
    struct sandbox_waiters waiters;
    struct sandbox_part_data parts;

    uv_timer_t timer; /* another try of an end, stop deadline, hard timeout, idle helper: one at a
                         time, by state */
    uv_timer_t idle;  /* inactivity */
    unsigned handles; /* timers that are open */
    char error[512];
};

/* Exec ids are never used twice in a sandbox, also not by a later supervisor. */
uint64_t sandbox_next_exec_id(struct sandbox *s);
/* The environment of a process: the sandbox's, with `extra` replacing same names. Caller frees the
 * list and its strings. NULL on OOM. */
char **sandbox_env(const struct sandbox *s, char *const *extra, bool tty);

/* waiters.c */
int waiters_add(struct waiter **list, sandbox_cb cb, void *data, struct err *err);
/* The list is emptied first: a callback may add to it. */
void waiters_answer(struct waiter **list, int r, const struct err *err);
/* Takes those with this data off; returns whether there was one. */
bool waiters_forget(struct waiter **list, const void *data);
/* Answers from the loop, for what is true already. */
int sandbox_answer_soon(struct sandbox *s, int r, sandbox_cb cb, void *data, struct err *err);

/* sandbox-life.c */
/* Whether the table of states allows this request: 0, -EBUSY, -ENOENT. */
int sandbox_check(const struct sandbox *s, enum sandbox_event request, struct err *err);
/* Moves it to the state that the table gives for this event; true: that is another one. An event
 * that cannot happen is logged as an error and changes nothing; with a sanitizer it aborts. */
bool sandbox_set_state(struct sandbox *s, enum sandbox_event event);
/* The same for init: the phase has to be one that may follow. */
void sandbox_set_init(struct sandbox *s, enum init_phase phase);
void sandbox_emit(struct sandbox *s, const char *type, const char *detail);
void sandbox_save_state(struct sandbox *s);
/* Saves it with a state that it is about to have, and that counts when it is on disk. */
int sandbox_save_as(struct sandbox *s, enum sandbox_state as, struct err *err);
/* A request to the launcher about this sandbox; cb's data is the sandbox, with a reference that it
 * lets go. */
int sandbox_send_verb(struct sandbox *s, enum launch_verb verb, launch_cb cb, struct err *err);

/* sandbox-verbs.c */
/* As sandbox_pause and sandbox_resume, for readers of its files (freeze-ref.h) and not for a
 * client. */
int sandbox_freeze_for_ref(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
int sandbox_let_go(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* A pause, if there is one, does not belong to readers any more. */
void sandbox_unheld(struct sandbox *s);

/* sandbox-start.c */
/* Starts init; 0 also when that is under way. */
int sandbox_launch(struct sandbox *s, struct err *err);
/* Starts init of a new one. */
int sandbox_with_init_new(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Takes the launcher's answer: pidfd, control. */
int sandbox_open_channel(struct sandbox *s, int fds[2]);
/* There is no main process, and why; what follows a restart of its own is restart.c's. */
void sandbox_start_failed(struct sandbox *s, int r, const struct err *err);
/* Begins anew the time after which the init of a stopped sandbox is idle. */
void sandbox_helper_used(struct sandbox *s);

/* sandbox-main.c */
/* Starts the main process in a sandbox whose init runs. */
void sandbox_start_main(struct sandbox *s);
/* A process has ended: the last one after the main one lets the sandbox stop. */
void sandbox_exec_ended(struct sandbox *s);
/* It has been taken up with an init that lives: timers, and what was cut off. */
void sandbox_goes_on(struct sandbox *s);
/* The owner of a main process; reattach.c gives it to the one of an earlier supervisor. */
struct exec_events;
extern const struct exec_events sandbox_main_events;

/* sandbox-end.c */
/* Ends init and with it all that runs. */
void sandbox_end_init(struct sandbox *s);
/* Ends an init that the launcher knows, without its pidfd here: INIT_ENDING, also where there was
 * none. */
int sandbox_send_kill(struct sandbox *s, struct err *err);
/* Answers requests that wait for a start that has failed, and whose end is not over yet. */
void sandbox_answer_failed(struct sandbox *s);

/* sandbox-removal.c */
/* Goes on with the removal of one in SANDBOX_REMOVING. */
void sandbox_begin_removal(struct sandbox *s);

/* restart.c */
/* Whether a restart is due now that it has stopped (also after it was taken up stopped). */
void sandbox_maybe_restart(struct sandbox *s);
/* It is not due any more: a client has asked for something else. */
void sandbox_no_restart(struct sandbox *s);

/* table.c */
void sandbox_forget(struct sandbox *s);
/* By the whole id or name alone. */
struct sandbox *sandbox_by_id(struct supervisor *sup, const char *id);
struct sandbox *sandbox_by_name(struct supervisor *sup, const char *name);
struct sandbox *sandbox_alloc(struct supervisor *sup, const char *id, struct spec *spec);

/* netns-sharing.c: sandboxes in the network of another. */
struct network_join;
const char *sandbox_hostname(const struct sandbox *s);
/* The sandbox whose network it shares, if it does; ret stays as it is otherwise. -ENOENT, -EBUSY.
 */
struct network_join;
int sandbox_find_join(const struct sandbox *s, struct network_join *ret, struct err *err);
/* -EBUSY while one runs. */
int sandbox_check_dependents(struct sandbox *s, struct err *err);
/* Ends live sandboxes in its network; true: there are some, and the removal of s goes on with their
 * end. */
bool sandbox_end_dependents(struct sandbox *s);
/* As sandbox_end_dependents where only the id of the sandbox is left. */
bool sandbox_end_dependents_of(struct supervisor *sup, const char *id);
/* Takes the place and the owner of its network from the launcher's answer. */
void sandbox_take_net(struct sandbox *s, const struct launch_reply *reply);
/* s runs, has stopped, or is gone: a removal may have waited for that. */
void sandbox_dependent_settled(struct sandbox *s);

/* reattach.c: SLOT and LIST_END */
struct imsg;
void sandbox_on_list(struct sandbox *s, const struct imsg *msg);
/* Init is gone before LIST_END: its messages so far and the files on disk are all there is. */
void sandbox_adoption_cut_off(struct sandbox *s);

/* exec.c */
void exec_forget_all(struct sandbox *s);
bool exec_any_alive(const struct sandbox *s);
/* Makes the sandbox itself a listener of its main process, beside an attached client: it is told
 * first. */
void exec_own(struct exec *e, const struct exec_events *events, void *data);
/* Tells the sandbox that it has ended, if it has, once. */
void exec_tell_owner(struct exec *e);
/* Whether an exec runs that counts as activity: not the main process, nor one started as idle. */
bool exec_any_counts(const struct sandbox *s);
/* Makes an exec that an earlier supervisor started and that init still knows. NULL on OOM, and for
 * an ended exec that is not kept. */
struct exec *exec_reattach(struct sandbox *s, uint64_t id, uint32_t flags, int value, bool ended);
/* Init is gone: everything that ran has been killed. */
void exec_all_lost(struct sandbox *s);
/* A background process's, not the main one's. */
bool exec_is_logged(const struct exec *e);
