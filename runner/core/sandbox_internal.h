#pragma once

/* The parts of a sandbox that its modules share: sandbox.c (states), exec.c, process.c, adopt.c. */

#include <uv.h>

#include "core/channel.h"
#include "core/console.h"
#include "core/death.h"
#include "core/exec.h"
#include "core/launcher-client.h"
#include "core/process.h"
#include "core/sandbox.h"
#include "core/supervisor.h"
#include "launch/request.h"
#include "policy/net-box.h"

enum { SANDBOX_ID_BYTES = 8, SANDBOX_ID_LEN = SANDBOX_ID_BYTES * 2 };

enum { EXEC_TIMEOUT_SPARE_MS = 500 /* init has for an exec's end before we see to it */ };

/* Somebody who waits for something to happen to a sandbox. */
struct waiter {
    sandbox_cb cb;
    void *data;
    struct waiter *next;
};

/* A place in a list of the table. */
struct sandbox_link {
    struct sandbox *next, **at; /* at: what points to us */
};

struct sandbox {
    struct supervisor *sup; /* borrowed */
    struct sandbox_link all, by_id, by_name;
    struct sandbox_link sharing; /* of those whose spec names another, whose network they share */
    char id[SANDBOX_ID_LEN + 1];
    struct spec *spec; /* owned; its name is set */
    enum sandbox_state state;
    unsigned refs;     /* the table's, each exec's, each request's under way */
    bool gone;         /* no longer in the table */
    unsigned holders;  /* who read its files while it is paused for that (hold.h) */
    bool held;         /* its pause is theirs, and no client's; stored */
    bool hold_thawing; /* the last of them has let it go on, and it is not yet running */

    struct channel *channel; /* owned; NULL while no init runs */
    bool launching;          /* LAUNCH_START or LAUNCH_ADOPT is under way */
    bool ending;             /* LAUNCH_END or LAUNCH_KILL, the death, LAUNCH_STOP are under way */
    struct death *death;     /* owned; waits for init's, or what follows a stop, with a reference of
                                the sandbox */
    /* While it is taken up (adopt.c), from the start of the supervisor to LIST_END: */
    bool adopting;
    bool frozen;     /* the launcher found its processes paused */
    bool wanted;     /* a client wanted it to run */
    bool stop_again; /* its stop was cut off */
    unsigned adopt_tries;
    struct exec *execs; /* each holds a reference of the sandbox */
    struct exec *main;  /* owned reference, or NULL */
    unsigned exec_count;
    uint64_t last_exec_id;
    struct process *processes; /* owned */
    unsigned process_count;
    struct process *main_log; /* owned: the main process as one whose log can be read, or NULL */
    uint16_t rows, cols;      /* of the main process's terminal, at its next start; 0 = default */

    struct health *health;         /* owned; NULL: no check has ever begun (health.c) */
    struct console *console;       /* owned (console.c); NULL = not needed so far */
    struct exposure *exposures;    /* owned, by port (exposure.c) */
    struct sandbox_egress *egress; /* owned; NULL = what it sends is not looked at (egress.c) */
    struct egress_change *egress_change; /* one that waits for the launcher (egress-change.c) */
    unsigned opening;                    /* handlers and name servers (egress-socket.c) */
    struct published_ports *published;   /* owned; NULL = never opened (publish.c) */
    struct door *door;                   /* owned; NULL: there is none (door.c) */
    struct net_sockets *net_sockets;     /* owned; NULL = never asked for (net-socket.c) */
    unsigned port_links;                 /* connections to its ports (port.c) */
    bool port_full;                      /* more were refused, and that was logged */

    unsigned file_ops;          /* that run (files.c) */
    struct file_op *file_queue; /* that wait for their turn; each holds a reference */
    unsigned file_waiting;

    struct waiter *on_init;    /* for init to run */
    struct waiter *on_started; /* for the main process to run */
    struct waiter *on_stopped;
    struct waiter *on_exit;     /* for the main process to end */
    struct waiter *on_run_over; /* the same, or for the start of it to have failed */
    struct waiter *on_removed;

    unsigned end_tries;     /* that are left */
    unsigned release_tries; /* of the launcher, by a removal */
    bool releasing;         /* one is under way */
    uv_timer_t timer; /* another try of an end, stop deadline, hard timeout, idle helper: one at a
                         time, by state */
    uv_timer_t idle;  /* inactivity */
    uv_timer_t again; /* back-off of a restart; an init that helps with files may come and go
                         meanwhile */
    bool timers_open;
    unsigned handles;

    bool volumes_ready;   /* what it has of named volumes is made and filled */
    bool limited_creator; /* while it is being made: its creator is not the owner of the daemon */
    bool want_running;    /* start the main process once init runs */
    bool user_stopped;    /* a client asked: restart policies leave it alone */
    unsigned stops;       /* that somebody has asked for; not those of a restart */
    bool unknown;         /* broken: its init, if there is one, was never taken up */
    bool restart_due;     /* by a policy: it waits for `again`, or is under way */
    unsigned restarts, failures_in_row;
    bool start_refused;   /* the start failed before the main process: not tried again */
    bool remains;         /* processes of its last run had not gone when that was waited for */
    int start_failure;    /* negative errno of a start, until it is stopped; error says why */
    struct net_place net; /* while an init runs */
    char net_owner[LAUNCH_ID_MAX + 1]; /* whose network that is in: its own id, or another's */
    char net_closed[192];              /* why its link is down; "": it is not (closed.c) */
    bool has_exit;
    int exit_code;
    bool oom_killed, timed_out;
    int64_t created_ms, started_ms, finished_ms;
    int64_t began;    /* the run, by the monotonic clock; 0: before this supervisor */
    int64_t creator;  /* a uid, or STORE_NO_CREATOR */
    int start_fds[2]; /* owned: init's, while egress is being opened; -1 */
    int waiting_fd;   /* owned: client_fd while ports are being opened or volumes made; -1 */
    int client_fd;    /* borrowed; its connection, while the sandbox is being made; -1 */
    char error[512];
};

/* Exec ids are never used twice in a sandbox, also not by a later supervisor. */
uint64_t sandbox_next_exec_id(struct sandbox *s);
/* The environment of a process: the sandbox's, with `extra` replacing same names. Caller frees the
 * list and its strings. NULL on OOM. */
char **sandbox_env(const struct sandbox *s, char *const *extra, bool tty);

/* waiters.c */
int waiters_add(struct waiter **list, sandbox_cb cb, void *data, struct err *err);
/* The list is emptied first: who is answered may ask again. */
void waiters_answer(struct waiter **list, int r, const struct err *err);
/* Takes those with this data off; returns whether there was one. */
bool waiters_forget(struct waiter **list, const void *data);
/* Answers from the loop, for what is true already. */
int sandbox_answer_soon(struct sandbox *s, int r, sandbox_cb cb, void *data, struct err *err);

/* sandbox.c */
/* What clients may ask; the table of states is in sandbox.c. */
enum sandbox_request {
    REQ_START,
    REQ_STOP,
    REQ_PAUSE,
    REQ_RESUME,
    REQ_SIGNAL,
    REQ_INIT,
    REQ_REMOVE,
    REQ_REMOVE_FORCE,
    REQ_UPDATE,
    REQ_MAX
};
int sandbox_check(const struct sandbox *s, enum sandbox_request req, struct err *err);
void sandbox_set_state(struct sandbox *s, enum sandbox_state state);
void sandbox_emit(struct sandbox *s, const char *type, const char *detail);
void sandbox_save_state(struct sandbox *s);
/* As sandbox_pause and sandbox_resume, for who reads its files (hold.h) and not for a client. */
int sandbox_hold(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
int sandbox_let_go(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* The pause, if there is still one, is nobody's of them any more. */
void sandbox_unheld(struct sandbox *s);
/* A request to the launcher about this sandbox; cb's data is the sandbox, with a reference that it
 * lets go. */
int sandbox_send_verb(struct sandbox *s, enum launch_verb verb, launch_cb cb, struct err *err);
/* Ends an init that the launcher knows, without its pidfd here; after_death follows (sandbox.c),
 * also where there was none. s->ending is the caller's to set. */
int sandbox_send_kill(struct sandbox *s, struct err *err);
/* Starts init; 0 also when that is under way. */
int sandbox_launch(struct sandbox *s, struct err *err);
/* Starts the main process in a sandbox whose init runs. */
void sandbox_start_main(struct sandbox *s);
/* Ends init and with it all that runs. */
void sandbox_end_init(struct sandbox *s);
/* Answers who waits for a start that has failed, and whose end is not over yet. */
void sandbox_answer_failed(struct sandbox *s);
/* Goes on with the removal of one in SANDBOX_REMOVING. */
void sandbox_begin_removal(struct sandbox *s);
/* A process has ended: the last one after the main one lets the sandbox stop. */
void sandbox_exec_ended(struct sandbox *s);
/* Starts init of a new one. */
int sandbox_with_init_new(struct sandbox *s, sandbox_cb cb, void *data, struct err *err);
/* Takes the launcher's answer: pidfd, control. */
int sandbox_open_channel(struct sandbox *s, int fds[2]);
/* There is no main process, and why; what follows a restart of its own is restart.c's. */
void sandbox_start_failed(struct sandbox *s, int r, const struct err *err);

/* restart.c */
/* Whether a restart is due now that it has stopped (also after it was taken up stopped). */
void sandbox_maybe_restart(struct sandbox *s);
/* It is not due any more: somebody has asked for something else. */
void sandbox_no_restart(struct sandbox *s);

/* table.c */
void sandbox_forget(struct sandbox *s);
/* By the whole id or name alone. */
struct sandbox *sandbox_by_id(struct supervisor *sup, const char *id);
struct sandbox *sandbox_by_name(struct supervisor *sup, const char *name);
struct sandbox *sandbox_alloc(struct supervisor *sup, const char *id, struct spec *spec);

/* dependents.c: sandboxes in the network of another. */
struct network_join;
const char *sandbox_hostname(const struct sandbox *s);
/* Whose network it shares, if it does: ret->id stays as it is otherwise. -ENOENT, -EBUSY. */
struct network_join;
int sandbox_find_join(const struct sandbox *s, struct network_join *ret, struct err *err);
/* -EBUSY while one runs. */
int sandbox_check_dependents(struct sandbox *s, struct err *err);
/* Ends those that run; whether there are any: then the removal of s goes on with their end. */
bool sandbox_end_dependents(struct sandbox *s);
/* The same where only the id of s is left. */
bool sandbox_end_dependents_of(struct supervisor *sup, const char *id);
/* Takes up what the launcher says of where its network is. */
void sandbox_take_net(struct sandbox *s, const struct launch_reply *reply);
/* s runs, has stopped, or is gone: a removal may have waited for that. */
void sandbox_dependent_settled(struct sandbox *s);

/* adopt.c: SLOT and LIST_END */
void sandbox_on_list(struct sandbox *s, const struct imsg *msg);
/* Init is gone before LIST_END: what it has said so far, and what is on disk, is all there is. */
void sandbox_adoption_cut_off(struct sandbox *s);
/* It has been taken up with an init that lives: timers, and what was cut off. */
void sandbox_goes_on(struct sandbox *s);
/* The main process of an earlier supervisor is there again. */
extern const struct exec_events sandbox_main_events;

/* logs.c: the four segments of a process's log, made empty (or as they are). */
int logs_open(struct sandbox *s, const char *name, bool fresh, int fds[4], struct err *err);
void logs_remove(struct sandbox *s, const char *name);
/* Makes what is missing of the main process's. */
int logs_make_main(struct sandbox *s, struct err *err);
/* Opens them for a run that begins, and keeps where that is, over a crash of the supervisor, too.
 * No earlier run may go on writing. */
int logs_begin_main(struct sandbox *s, int fds[4], struct err *err);
/* Where in each stream the last run has begun; 0 where that is not known. */
void logs_main_began(struct sandbox *s, uint64_t ret[2]);
/* As process_read_log and process_log_state, of the two segments of a stream; a negative errno. */
ssize_t logs_read(const int fds[2], uint64_t *offset, void *buf, size_t size, uint64_t *ret_lost);
void logs_state(const int fds[2], struct process_log *ret);

/* exec.c */
void exec_forget_all(struct sandbox *s);
bool exec_any_alive(const struct sandbox *s);
/* Puts the sandbox itself on a main process, beside whoever is attached to it: it is told first. */
void exec_own(struct exec *e, const struct exec_events *events, void *data);
/* Tells the sandbox that it has ended, if it has, once. */
void exec_tell_owner(struct exec *e);
/* Whether one runs that counts as activity: not the main process, nor what said so itself. */
bool exec_any_counts(const struct sandbox *s);
/* Makes an exec that an earlier supervisor started and that init still knows. NULL on OOM, and for
 * one that has ended and is not kept. */
struct exec *exec_adopt(struct sandbox *s, uint64_t id, uint32_t flags, int value, bool ended);
/* Init is gone: everything that ran has been killed. */
void exec_all_lost(struct sandbox *s);
/* A background process's, not the main one's. */
bool exec_is_logged(const struct exec *e);

/* process.c */
/* The main process has ended. */
void process_main_ended(struct sandbox *s);
/* Takes up the records on disk after an adoption; those that init does not know are lost. */
void process_load_all(struct sandbox *s);
void process_free_all(struct sandbox *s);
