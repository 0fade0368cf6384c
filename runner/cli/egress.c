/* rind egress: shows or changes the egress rules of a sandbox. */
#include "policy/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "cli/remote.h"
#include "cli/url.h"
#include "json/parse.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Prints the rules for connections that leave the sandbox, as JSON; with FILE (- is standard "
    "input) puts those in their place, for new connections and the next request of open ones.",
    "{\"default\": \"deny\", \"rules\": [{\"to\": \"*.example.com\", \"action\": \"allow\"}, "
    "{\"to\": \"api.internal\", \"protocol\": \"https\", \"handler\": \"/run/handler.sock\"}]}",
    NULL,
};

static const struct example examples[] = {
    {"rind egress box", "the rules that count now"},
    {"rind egress box rules.json", "others from now on"},
    {0},
};

static int read_rules(const char *path, json_t **ret, struct err *err)
{
    auto_close int fd =
        strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    if (fd < 0)
        return err_errno(err, -errno, "%s", path);
    r = file_read_fd(fd, EGRESS_TEXT_MAX, &text, &len, err);
    if (r == 0)
        r = json_parse(text, len, EGRESS_TEXT_MAX, ret, err);
    return r < 0 ? err_wrap(err, r, "%s", path) : 0;
}

static int exchange_rules(const struct remote *args, char **operands, json_t **ret, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    auto_client struct client *c = NULL;
    json_t *rules = NULL;
    int r = operands[1] != NULL ? read_rules(operands[1], &rules, err) : 0;

    if (r == 0 && url_make(&url, "/v1/sandboxes/%s/egress", operands[0]) < 0)
        r = err_errno(err, -ENOMEM, "egress");
    if (r == 0)
        r = remote_open(args, &c, err);
    if (r < 0) {
        json_decref(rules);
        return r;
    }
    r = client_json(c, rules != NULL ? "PUT" : "GET", url.data, rules, ret, err);
    if (r < 0)
        remote_hint(err, operands[0]);
    return r;
}

static int egress_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct remote args = {.globals = *g};
    struct err err = ERR_NONE;
    json_t *root = NULL;
    char **operands;
    int status;

    if (remote_begin(v, &args, argv, 1, 2, "sandbox", &operands, &status) == VERB_DONE)
        return status;
    if (exchange_rules(&args, operands, &root, &err) < 0)
        return cli_fail(&err);
    if (args.json)
        print_json_line(root);
    else
        print_json(root);
    return cli_flush(0);
}

const struct verb verb_egress = {
    .name = "egress",
    .operands = "NAME [FILE]",
    .summary = "Show or change what a sandbox may send where",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = egress_main,
};
