#pragma once

/* What the verbs that ask the daemon share: where it is, how answers are printed. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"
#include "cli/client.h"

struct buf;

/* Begins the arguments of each verb that asks the daemon. */
struct remote {
    struct globals globals; /* first: cli.h */
    const char *socket;     /* --socket, or NULL */
    bool json;              /* --json */
};

/* The groups of options for them: with --socket alone, and with --json. */
extern const struct opt socket_options[], remote_options[];
#define REMOTE_GROUP                                                                               \
    {                                                                                              \
        .title = "Daemon and output", .rows = remote_options                                       \
    }

enum { REMOTE_PATH_MAX = CLI_PATH_MAX + 16 };
/*
 * Where the daemon's socket is: --socket, else $RIND_SOCKET, else rind.sock in --runtime, else in
 * the default directory of who calls; another user than root who has none there means root's.
 * *ret_named: somebody named it, rather than the defaults.
 */
int remote_socket(const struct remote *r, char ret[REMOTE_PATH_MAX], bool *ret_named,
                  struct err *err);
int remote_open(const struct remote *r, struct client **ret, struct err *err);

/*
 * What a verb with operands begins with: parses into args (a struct that begins with struct
 * remote), and sees that there are min to max operands, called `what` where they are missing.
 */
enum verb_step remote_begin(const struct verb *v, void *args, char **argv, size_t min, size_t max,
                            const char *what, char ***ret_operands, int *ret_status);
enum { REMOTE_ANY = 1 << 20 /* max: as many operands as there are */ };

/* Where a sandbox is in the wrong state for what was asked, adds to err how it leaves that state.
 * name: as it was called. */
void remote_hint(struct err *err, const char *name);

/*
 * Calls fn for each name on one connection. What fails is told, and the others are still done.
 * fn's *ret (may stay NULL) is printed with --json, as one line; else the name. Returns the exit
 * status.
 */
typedef int remote_fn(struct client *c, const char *name, void *args, json_t **ret,
                      struct err *err);
int remote_each(const struct remote *r, char **names, remote_fn *fn, void *args);
/* The same for what takes its time: fn only sends, on a connection for each name, and all (of
 * REMOTE_AT_ONCE) have been asked before an answer is waited for. */
enum { REMOTE_AT_ONCE = 32 };
typedef int remote_send_fn(struct client *c, const char *name, void *args, struct err *err);
int remote_each_at_once(const struct remote *r, char **names, remote_send_fn *fn, void *args);

/* POST /v1/sandboxes/NAME/VERB; body is taken, and may be NULL. remote_post_send only asks. */
int remote_post_send(struct client *c, const char *name, const char *verb, json_t *body,
                     struct err *err);
int remote_post(struct client *c, const char *name, const char *verb, json_t *body, json_t **ret,
                struct err *err);
/* GET of url_make's format and names. */
int remote_get(struct client *c, const char *format, const char *name, json_t **ret,
               struct err *err);

/* One document for programs, on lines of its own, or on one. Takes root. */
void print_json(json_t *root);
void print_json_line(json_t *root);
/* Members of a JSON object; "-", 0 where there is none of this kind. */
const char *member(const json_t *object, const char *key);
