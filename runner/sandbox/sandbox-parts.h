#pragma once

/*
 * The parts of a sandbox: its ports, volumes, egress rules, health checks, console. The sandbox's
 * own code knows them only as a table, which the supervisor provides (daemon/parts.c). A start goes
 * through the table in its order. An end, and the undoing of a failed start, go backwards.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct exec;
struct sandbox;
struct caller;
struct member_scope;
struct member_usage;
struct spec;
struct supervisor;

/* Stages of a start. Each waits for one part after the other. */
enum part_stage {
    STAGE_NONE = 0,
    STAGE_PREPARE, /* a new sandbox, before the launcher makes it */
    STAGE_NETWORK, /* the net namespace exists, and only init is in it */
    STAGE_INIT,    /* init answers, and nothing else runs */
    STAGE_MAIN,    /* the main process is about to be started */
    STAGE_REOPEN,  /* after a reattach, when init has listed what runs */
    STAGE_MAX
};

/* Notifications to a part. */
enum part_news {
    PART_LOADED,     /* state.json and spec.json were read */
    PART_TAKEN_UP,   /* the execs of an earlier supervisor are known */
    PART_MAIN_ENDED, /* the main process has exited */
    PART_NO_RUN,     /* no main process runs or will be started */
    PART_CANCEL,     /* the sandbox is being removed: STAGE_PREPARE ends now if it can */
    PART_CLOSE,      /* the run ends, or its start has failed: connections in and out are closed */
    PART_LET_GO,     /* the supervisor stops, but the sandbox runs on */
    PART_REMOVED,    /* its files have been deleted */
    PART_FORGOTTEN,  /* it has left the registry: drop references to it */
    PART_FREED,
    PART_NEWS_MAX
};

/*
 * A step of a part. Returns 1 if there is nothing to wait for. Returns 0 if sandbox_part_done is
 * called later, once, from the loop. Negative errno: the step has failed at once.
 */
typedef int part_step(struct sandbox *s, struct err *err);
typedef void part_told(struct sandbox *s);

struct sandbox_part {
    const char *name; /* NULL ends the table */
    /* Checks that this client may have what the spec requests of the part. */
    int (*check_spec)(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                      struct err *err);
    /* Fills in values that the spec leaves open, after all parts have agreed. */
    int (*complete_spec)(struct spec *spec, struct err *err);
    part_step *steps[STAGE_MAX];
    part_told *told[PART_NEWS_MAX];
    /* Called when the main process runs. adopted: an earlier supervisor has started it. */
    void (*main_runs)(struct sandbox *s, struct exec *main, bool adopted);
    /* Adds what members have of this part's objects (member-usage.h). */
    void (*usage)(const struct supervisor *sup, const struct member_scope *scope,
                  struct member_usage *add);
    /* Variables ("NAME=value") for every process, NULL-terminated; or NULL. */
    const char *const *(*env)(const struct sandbox *s);
};

/* A stage in progress; a sandbox has one at a time. */
struct part_walk {
    enum part_stage stage; /* STAGE_NONE: none */
    unsigned next;         /* index into the table */
    void (*done)(struct sandbox *s, int r, const struct err *err);
};

/*
 * Takes all parts through a stage, one after the other. Returns 1 if that is complete. Returns 0 if
 * `done` is called later, once, from the loop. Its r < 0 means that a part has failed, or
 * -ECANCELED that the sandbox ends. Negative errno: a part has failed at once; `done` is not
 * called. The caller undoes what earlier parts have done (PART_CLOSE).
 */
int sandbox_parts_walk(struct sandbox *s, enum part_stage stage,
                       void (*done)(struct sandbox *s, int r, const struct err *err),
                       struct err *err);
/* Called by a part when its step is complete, or has failed (r < 0). */
void sandbox_part_done(struct sandbox *s, int r, const struct err *err);

void sandbox_parts_tell(struct sandbox *s, enum part_news news);
void sandbox_parts_main_runs(struct sandbox *s, struct exec *main, bool adopted);
/* Copies the variables of all parts to ret (NULL: only counts them). Returns their number. */
size_t sandbox_parts_env(const struct sandbox *s, const char **ret);
int sandbox_parts_check_spec(struct supervisor *sup, struct spec *spec,
                             const struct caller *creator, struct err *err);
int sandbox_parts_complete_spec(struct supervisor *sup, struct spec *spec, struct err *err);
void sandbox_parts_usage(const struct supervisor *sup, const struct member_scope *scope,
                         struct member_usage *add);
