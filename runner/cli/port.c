/* rind port: prints where published ports of a sandbox are reachable. */

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/number.h"
#include "cli/remote.h"
#include "json/parse.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Prints the host's addresses that lead to ports of a sandbox (rind run -p), or to the port "
    "that "
    "is named. It ends with 125 if nothing leads there now.",
    NULL,
};

static const struct example examples[] = {
    {"rind port web", "all of them"},
    {"rind port web 80", "where port 80 is"},
    {0},
};

/* A port as written by the user; both NULL: any. */
struct wanted_port {
    const char *protocol;
    int64_t number; /* 0: any */
};

static int wanted_parse(char *text, struct wanted_port *ret, struct err *err)
{
    char *slash = text != NULL ? strchr(text, '/') : NULL;
    int64_t number;

    *ret = (struct wanted_port){.protocol = NULL};
    if (text == NULL)
        return 0;
    if (slash != NULL)
        *slash = '\0';
    number = number_whole(text, NUMBER_DIGITS_MAX);
    if (slash != NULL)
        *slash = '/';
    ret->protocol = slash != NULL ? slash + 1 : "tcp";
    if (number < 1 || number > 65535 ||
        (strcmp(ret->protocol, "tcp") != 0 && strcmp(ret->protocol, "udp") != 0))
        return err_set(err, -EINVAL, "\"%.64s\": must be PORT, PORT/tcp or PORT/udp", text);
    ret->number = number;
    return 0;
}

static bool is_wanted(const json_t *port, const struct wanted_port *w)
{
    return json_is_integer(json_object_get(port, "hostPort")) &&
           (w->number == 0 || (json_integer_value(json_object_get(port, "port")) == w->number &&
                               strcmp(member(port, "protocol"), w->protocol) == 0));
}

/* "80/tcp -> 127.0.0.1:8000", or the address alone if the port was named. */
static void print_port(const json_t *port, bool named)
{
    const char *host = member(port, "hostAddress");
    bool six = strchr(host, ':') != NULL;

    if (!named)
        (void)printf("%lld/%s -> ", (long long)json_integer_value(json_object_get(port, "port")),
                     member(port, "protocol"));
    (void)printf("%s%s%s:%lld\n", six ? "[" : "", host, six ? "]" : "",
                 (long long)json_integer_value(json_object_get(port, "hostPort")));
}

static int print_ports(const struct remote *args, const char *name, char *text, struct err *err)
{
    auto_client struct client *c = NULL;
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(json_decref) json_t *found = json_array();
    struct wanted_port wanted;
    json_t *port;
    size_t i;
    int r = wanted_parse(text, &wanted, err);

    if (r == 0)
        r = remote_open(args, &c, err);
    if (r == 0)
        r = remote_get(c, "/v1/sandboxes/%s", name, &root, err);
    if (r < 0)
        return r;
    json_array_foreach(json_object_get(root, "ports"), i, port)
        if (is_wanted(port, &wanted))
            (void)json_array_append(found, port);
    if (text != NULL && json_array_size(found) == 0)
        return err_set(err, -ENOENT,
                       "sandbox '%.64s': no port of the host leads to %.16s now; rind run -p "
                       "publishes one",
                       name, text);
    if (args->json)
        print_json(json_incref(found));
    else
        json_array_foreach(found, i, port)
            print_port(port, text != NULL);
    return 0;
}

static int port_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct remote args = {.globals = *g};
    struct err err = ERR_NONE;
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 1, 2, "sandbox", &names, &status) == VERB_DONE)
        return status;
    return cli_flush(print_ports(&args, names[0], names[1], &err) < 0 ? cli_fail(&err) : 0);
}

const struct verb verb_port = {
    .name = "port",
    .operands = "NAME [PORT[/PROTO]]",
    .summary = "Show which ports of the host lead to a sandbox",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = port_main,
};
