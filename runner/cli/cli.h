#pragma once

/*
 * The command line. Each verb has a file with one `struct verb`; cli.c has the table and
 * dispatches. `rind run` works without a daemon; other verbs are clients of its API. The process is
 * single-threaded.
 *
 * Every verb's argument struct begins with `struct globals`, so the global options may stand before
 * or after the verb, and share one table (global_options).
 */

#include <stdbool.h>
#include <stdio.h>

#include "cli/options.h"

struct err;

/* Exit statuses of rind itself, as in POSIX shells and docker. All others are the command's own. */
enum {
    EXIT_RIND = 125,      /* rind refused or failed; one line on stderr says why */
    EXIT_NOT_EXEC = 126,  /* the command was found, but cannot be executed */
    EXIT_NOT_FOUND = 127, /* the command was not found */
};

struct globals {
    const char *state, *runtime; /* directories; NULL = the user's default */
    bool debug;
    bool help;
};
extern const struct opt global_options[];

struct example {
    const char *command; /* NULL ends the list */
    const char *what;
};

struct verb {
    const char *name;
    const char *operands;       /* shown after `rind NAME [OPTIONS]` in the usage line; may be "" */
    const char *words;          /* possible first operands, separated by blanks, or NULL */
    const char *summary;        /* one line, no full stop */
    const char *const *details; /* paragraphs for help and manual, NULL-terminated */
    const struct opt_group *groups; /* without global_options; ends with {0} */
    const struct example *examples; /* ends with {0} */
    bool takes_command; /* options end at the first operand; the rest are the command's arguments */
    bool command_exit;  /* exits with a command's exit status, which help explains */
    /* argv: the arguments after the verb, NULL-terminated. Returns the exit status. */
    int (*main)(const struct verb *v, const struct globals *g, char **argv);
};

extern const struct verb verb_run, verb_create, verb_start, verb_exec, verb_attach, verb_ps,
    verb_ls, verb_inspect, verb_logs, verb_cp, verb_diff, verb_stop, verb_restart, verb_kill,
    verb_pause, verb_images, verb_load, verb_snapshot, verb_clone, verb_volume, verb_network,
    verb_resume, verb_update, verb_wait, verb_rm, verb_stats, verb_events, verb_egress, verb_expose,
    verb_unexpose, verb_exposures, verb_rename, verb_port, verb_system, verb_info, verb_serve,
    verb_doctor, verb_docker, verb_docker_env, verb_completion, verb_version, verb_help;
extern const struct verb *const verbs[]; /* NULL-terminated, in the order of help */

/* NULL if there is no such verb. */
const struct verb *verb_find(const char *name);
/* Prints "unknown command" with the closest verb; returns EXIT_RIND. */
int verb_unknown(const char *name);

/*
 * Runs the command line. argv: without the program's name, NULL-terminated. Returns the exit
 * status.
 */
int cli_main(char **argv);

/*
 * First call of every verb. Parses argv by the verb's groups and the global options into args,
 * which begins with a struct globals. VERB_GO: continue. VERB_DONE: help or an error line has been
 * printed; exit with *ret_status.
 */
enum verb_step { VERB_GO = 0, VERB_DONE };
enum verb_step verb_begin(const struct verb *v, void *args, char **argv, struct opt_rest *ret,
                          int *ret_status);

/* Prints one line "rind: <message>" on stderr; returns EXIT_RIND. */
int cli_fail(const struct err *err);
/* Adds to a permission error which users may use the command. */
void cli_hint_root(struct err *err);
/*
 * As cli_fail, for a verb with an image as first operand. Without `--` it may have been meant as a
 * command.
 */
int cli_fail_image(const struct err *err, const struct opt_rest *rest);
int cli_failf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Flushes stdout. Returns status, or EXIT_RIND and one line on stderr if a write failed. */
int cli_flush(int status);

/* State and runtime directory by the global options. */
enum { CLI_PATH_MAX = 4096 };
struct cli_dirs {
    char state[CLI_PATH_MAX], runtime[CLI_PATH_MAX];
};
int cli_dirs(const struct globals *g, struct cli_dirs *ret, struct err *err);

/* help.c: prints help, generated from the tables above. */
void help_top(FILE *f);
void help_verb(FILE *f, const struct verb *v);
/* manual.c: prints the manual page as roff. */
void manual_print(FILE *f);
/* completion.c: prints the bash completion. */
void completion_print(FILE *f);
/*
 * Prints _rind_options, _rind_values and _rind_words, functions of any shell with POSIX syntax, and
 * the lists $_rind_named and $_rind_policies.
 */
void completion_print_tables(FILE *f);
/* True for verbs with a sandbox as operand. */
bool completion_takes_names(const struct verb *v);
/* Exit statuses as text, for the manual and `rind help`. */
struct exit_text {
    const char *status, *what;
};
extern const struct exit_text exit_texts[];
