#pragma once

/*
 * The parts of a sandbox: its ports, volumes, egress rules, health checks, console. The code of the
 * sandbox itself knows them as a table alone, which the supervisor gives it (parts.c). The order of
 * the table is the order of a start; an end, and the undoing of a start that failed, go backwards.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;
struct exec;
struct sandbox;
struct caller;
struct spec;
struct supervisor;

/* Where a start waits for each part in turn. */
enum part_stage {
    STAGE_NONE = 0,
    STAGE_PREPARE, /* a new sandbox, before anything of it is started */
    STAGE_NETWORK, /* its net namespace is there, and only init is in it */
    STAGE_INIT,    /* init answers, and nothing else runs */
    STAGE_MAIN,    /* the main process is about to be started */
    STAGE_REOPEN,  /* init of an earlier supervisor's sandbox has told what runs */
    STAGE_MAX
};

/* What a part is told. */
enum part_news {
    PART_LOADED,     /* state.json and spec.json were read */
    PART_TAKEN_UP,   /* it is known which execs an earlier supervisor has left */
    PART_MAIN_ENDED, /* the main process has exited */
    PART_NO_RUN,     /* no main process runs, and none is about to */
    PART_CANCEL,     /* a removal: STAGE_PREPARE ends now where it can */
    PART_CLOSE,      /* the run ends, or its start has failed: whatever leads in or out closes */
    PART_LET_GO,     /* the supervisor stops, and the sandbox runs on */
    PART_REMOVED,    /* its files are gone */
    PART_FORGOTTEN,  /* it has left the table: references of it are given back */
    PART_FREED,
    PART_NEWS_MAX
};

/* 1: there is nothing to wait for. 0: sandbox_part_done follows once, from the loop. Negative
 * errno: the part could not begin. */
typedef int part_step(struct sandbox *s, struct err *err);
typedef void part_told(struct sandbox *s);

struct sandbox_part {
    const char *name; /* NULL ends the table */
    /* Whether this client may have what the spec says of the part. */
    int (*check_spec)(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                      struct err *err);
    /* Fills in what the spec leaves open, when all parts have agreed. */
    int (*complete_spec)(struct spec *spec, struct err *err);
    part_step *steps[STAGE_MAX];
    part_told *told[PART_NEWS_MAX];
    /* adopted: it was started by an earlier supervisor. */
    void (*main_runs)(struct sandbox *s, struct exec *main, bool adopted);
    /* "NAME=value" of every process, ended by NULL; or NULL. */
    const char *const *(*env)(const struct sandbox *s);
};

/* A stage under way; a sandbox has one at a time. */
struct part_walk {
    enum part_stage stage; /* STAGE_NONE: none */
    unsigned next;         /* of the table */
    void (*done)(struct sandbox *s, int r, const struct err *err);
};

/*
 * Takes all parts through a stage, one after the other. 1: that is done. 0: done follows once, from
 * the loop; r < 0: a part has failed, or -ECANCELED: the sandbox ends. Negative errno: failed at
 * once, and done does not follow. The caller undoes what earlier parts have done (PART_CLOSE).
 */
int sandbox_parts_walk(struct sandbox *s, enum part_stage stage,
                       void (*done)(struct sandbox *s, int r, const struct err *err),
                       struct err *err);
/* A part has done its step, or has failed. */
void sandbox_part_done(struct sandbox *s, int r, const struct err *err);

void sandbox_parts_tell(struct sandbox *s, enum part_news news);
void sandbox_parts_main_runs(struct sandbox *s, struct exec *main, bool adopted);
/* Copies the variables of all parts to ret (NULL = counts them alone); how many they are. */
size_t sandbox_parts_env(const struct sandbox *s, const char **ret);
int sandbox_parts_check_spec(struct supervisor *sup, struct spec *spec,
                             const struct caller *creator, struct err *err);
int sandbox_parts_complete_spec(struct supervisor *sup, struct spec *spec, struct err *err);
