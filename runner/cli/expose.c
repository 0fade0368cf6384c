/* rind expose: makes preview URLs for ports of sandboxes. */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/number.h"
#include "cli/remote.h"
#include "json/parse.h"

struct expose_args {
    struct remote remote; /* first */
    const char *hostname, *token;
};

static const struct opt expose_options[] = {
    {.name = "hostname",
     .arg = "HOST[:PORT]",
     .set = opt_text,
     .off = offsetof(struct expose_args, hostname),
     .help = "Make the URL below this host name, whose subdomains lead to the gateway (default "
             "localhost)"},
    {.name = "token",
     .arg = "TOKEN",
     .set = opt_text,
     .off = offsetof(struct expose_args, token),
     .help =
         "Put this into the URL instead of 16 random characters: 16 of a-z, 0-9 and _; fewer for "
         "names below localhost, or where the configuration says so (gateway.minToken)"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = expose_options}, REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Prints a URL that leads to the port, 1024 to 65535, through the gateway of the daemon: `rind "
    "serve --gateway 127.0.0.1:8080`. The sandbox need not run, nor anything listen. Who knows the "
    "URL may use it, until `rind unexpose`.",
    "Exposing a port again changes what is said, and keeps the rest, the token too. A token that "
    "is said replaces the one before, whose URL leads nowhere from then on.",
    NULL,
};

static const struct example examples[] = {
    {"rind expose web 3000", "http://3000-web-k3_x0c9q2m4tz7ab.localhost:8080/"},
    {"rind expose --hostname preview.example.com web 3000",
     "https://3000-web-k3_x0c9q2m4tz7ab.preview.example.com/"},
    {"rind expose --token demo web 3000", "http://3000-web-demo.localhost:8080/"},
    {0},
};

static int make_body(const struct expose_args *args, const char *port, json_t **ret,
                     struct err *err)
{
    int64_t number = number_whole(port, NUMBER_DIGITS_MAX);

    if (number < 0)
        return err_set(err, -EINVAL, "port '%.64s': must be a number", port);
    *ret = json_pack("{s:I, s:s*, s:s*}", "port", (json_int_t)number, "hostname", args->hostname,
                     "token", args->token);
    return *ret != NULL ? 0 : err_set(err, -EINVAL, "expose: an option is not UTF-8");
}

static int expose_port(const struct expose_args *args, char **operands, json_t **ret,
                       struct err *err)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *body = NULL;
    int r = make_body(args, operands[1], &body, err);

    if (r == 0)
        r = remote_open(&args->remote, &c, err);
    return r < 0 ? r : remote_post(c, operands[0], "exposures", take(body), ret, err);
}

static int expose_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct expose_args args = {.remote.globals = *g};
    auto_ptr(json_decref) json_t *root = NULL;
    struct err err = ERR_NONE;
    char **operands;
    int status;

    if (remote_begin(v, &args, argv, 2, 2, "sandbox and port", &operands, &status) == VERB_DONE)
        return status;
    if (expose_port(&args, operands, &root, &err) < 0)
        return cli_fail(&err);
    if (json_is_false(json_object_get(root, "served")))
        (void)fprintf(stderr, "rind: the daemon has no gateway, without which the URL leads "
                              "nowhere; rind serve --gateway 127.0.0.1:8080 starts one that has\n");
    if (args.remote.json)
        print_json_line(take(root));
    else
        (void)printf("%s\n", member(root, "url"));
    return cli_flush(0);
}

const struct verb verb_expose = {
    .name = "expose",
    .operands = "NAME PORT",
    .summary = "Make a preview URL for a port of a sandbox",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = expose_main,
};
