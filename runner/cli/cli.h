#pragma once

/*
 * The command line. One file per verb, each with one `struct verb`; cli.c holds their table and
 * dispatches. `rind run` needs no daemon; verbs that come with the daemon are clients of its API
 * and look the same from here.
 *
 * Every verb's argument struct begins with `struct globals`, so that the global options stand
 * before or after the verb, and are one table (global_options).
 */

#include <stdbool.h>
#include <stdio.h>

#include "cli/options.h"

struct err;

/* What rind itself ends with; anything else is the command's own. As POSIX shells and docker. */
enum {
    EXIT_RIND = 125,      /* rind refused or failed; one line on stderr says why */
    EXIT_NOT_EXEC = 126,  /* the command was found, but cannot be executed */
    EXIT_NOT_FOUND = 127, /* the command was not found */
};

struct globals {
    const char *state, *runtime; /* directories; NULL = the default for who calls */
    bool debug;
    bool help;
};
extern const struct opt global_options[];

struct example {
    const char *command; /* NULL ends a list */
    const char *what;
};

struct verb {
    const char *name;
    const char *operands;           /* behind `rind NAME [OPTIONS]` in the usage line; may be "" */
    const char *words;              /* what its first operand is one of, with blanks, or NULL */
    const char *summary;            /* one line, no full stop */
    const char *const *details;     /* paragraphs for help and manual, NULL-terminated */
    const struct opt_group *groups; /* without global_options; ends with {0} */
    const struct example *examples; /* ends with {0} */
    bool takes_command; /* the first operand ends the options: what follows is a command's own */
    bool command_exit;  /* ends with a command's exit status, which help explains */
    /* argv: what follows the verb, NULL-terminated. Returns the exit status. */
    int (*main)(const struct verb *v, const struct globals *g, char **argv);
};

extern const struct verb verb_run, verb_create, verb_start, verb_exec, verb_attach, verb_ps,
    verb_ls, verb_inspect, verb_logs, verb_cp, verb_diff, verb_stop, verb_restart, verb_kill,
    verb_pause, verb_images, verb_load, verb_snapshot, verb_clone, verb_volume, verb_network,
    verb_resume, verb_update, verb_wait, verb_rm, verb_stats, verb_events, verb_egress, verb_expose,
    verb_unexpose, verb_exposures, verb_serve, verb_doctor, verb_docker, verb_docker_env,
    verb_version, verb_help;
extern const struct verb *const verbs[]; /* NULL-terminated, in the order of help */

/* NULL when there is no such verb. */
const struct verb *verb_find(const char *name);
/* Prints "unknown command" with the nearest one; returns EXIT_RIND. */
int verb_unknown(const char *name);

int cli_main(char **argv);

/*
 * What every verb does first: parses argv by the verb's groups and the global options into args
 * (which begins with a struct globals). VERB_GO: go on. Else *ret_status is what to exit with: help
 * has been printed, or one line about what is wrong.
 */
enum verb_step { VERB_GO = 0, VERB_DONE };
enum verb_step verb_begin(const struct verb *v, void *args, char **argv, struct opt_rest *ret,
                          int *ret_status);

/* One line "rind: <message>" on stderr; returns EXIT_RIND. */
int cli_fail(const struct err *err);
/* Where what was refused may be for root alone, adds to err who may. */
void cli_hint_root(struct err *err);
/* As cli_fail, of a verb whose first operand names an image where no `--` stands before it. */
int cli_fail_image(const struct err *err, const struct opt_rest *rest);
int cli_failf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Flushes stdout; a failed write (full disk, closed pipe) is EXIT_RIND and one line. */
int cli_flush(int status);

/* The state and runtime directory that the globals mean, in caller's buffers. */
enum { CLI_PATH_MAX = 4096 };
struct cli_dirs {
    char state[CLI_PATH_MAX], runtime[CLI_PATH_MAX];
};
int cli_dirs(const struct globals *g, struct cli_dirs *ret, struct err *err);

/* help.c: the texts, all from the tables above. */
void help_top(FILE *f);
void help_verb(FILE *f, const struct verb *v);
/* manual.c: the manual page as roff. */
void manual_print(FILE *f);
/* completion.c: the completion for bash. */
void completion_print(FILE *f);
/* Exit statuses as text, for the manual and `rind help`. */
struct exit_text {
    const char *status, *what;
};
extern const struct exit_text exit_texts[];
