#pragma once

/* Shared by the verbs that are clients of the daemon: its socket, requests, output. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/cli.h"
#include "cli/client.h"

struct buf;

/* First member of the arguments of each such verb. */
struct remote {
    struct globals globals; /* first: cli.h */
    const char *socket;     /* --socket, or NULL */
    bool json;              /* --json */
    const char *format;     /* --format of lists (list-format.h), or NULL */
};

/* Option tables: --socket only, and --socket with --json. */
extern const struct opt socket_options[], remote_options[];
#define REMOTE_GROUP                                                                               \
    {                                                                                              \
        .title = "Daemon and output", .rows = remote_options                                       \
    }

enum { REMOTE_PATH_MAX = CLI_PATH_MAX + 16 };
/*
 * Finds the daemon's socket: --socket, else $RIND_SOCKET, else rind.sock in --runtime or the user's
 * default directory. If that does not exist, other users than root get root's socket. *ret_named:
 * the path was given, not a default.
 */
int remote_socket(const struct remote *r, char ret[REMOTE_PATH_MAX], bool *ret_named,
                  struct err *err);
int remote_open(const struct remote *r, struct client **ret, struct err *err);

/*
 * First call of a verb with operands. Parses into args (which begins with struct remote) and checks
 * that there are min to max operands; `what` names them in the error.
 */
enum verb_step remote_begin(const struct verb *v, void *args, char **argv, size_t min, size_t max,
                            const char *what, char ***ret_operands, int *ret_status);
enum { REMOTE_ANY = 1 << 20 /* max: no limit */ };

/*
 * Adds a hint to err if the sandbox is in the wrong state for the request: the command that changes
 * the state. name: as given by the user.
 */
void remote_hint(struct err *err, const char *name);

/*
 * Calls fn for each name on one connection. An error is printed, and the next name follows. With
 * --json fn's *ret (may stay NULL) is printed on one line; else the name. Returns the exit status.
 */
typedef int remote_fn(struct client *c, const char *name, void *args, json_t **ret,
                      struct err *err);
int remote_each(const struct remote *r, char **names, remote_fn *fn, void *args);
/*
 * As remote_each, for slow requests. fn only sends, on a connection for each name; up to
 * REMOTE_AT_ONCE requests are sent before the first reply is read.
 */
enum { REMOTE_AT_ONCE = 32 };
typedef int remote_send_fn(struct client *c, const char *name, void *args, struct err *err);
int remote_each_at_once(const struct remote *r, char **names, remote_send_fn *fn, void *args);

/*
 * POST /v1/sandboxes/NAME/VERB; body is taken, and may be NULL. remote_post_send does not read the
 * reply.
 */
int remote_post_send(struct client *c, const char *name, const char *verb, json_t *body,
                     struct err *err);
int remote_post(struct client *c, const char *name, const char *verb, json_t *body, json_t **ret,
                struct err *err);
/* GET of a target made by url_make. */
int remote_get(struct client *c, const char *format, const char *name, json_t **ret,
               struct err *err);

/* Prints JSON, indented or on one line. Takes root. */
void print_json(json_t *root);
void print_json_line(json_t *root);
/* Returns a string member of a JSON object; "-" if there is none. */
const char *member(const json_t *object, const char *key);
