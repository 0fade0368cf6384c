/* rind unexpose: revokes preview URLs. */

#include <errno.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/number.h"
#include "cli/remote.h"
#include "cli/url.h"

static const struct opt_group groups[] = {REMOTE_GROUP, {0}};

static const char *const details[] = {
    "Revokes the preview URL of each port; what is open through it goes on to its end. The next "
    "one of the same port has another token.",
    NULL,
};

static const struct example examples[] = {
    {"rind unexpose web 3000", "its URL leads nowhere any more"},
    {0},
};

/* data: the sandbox's name. */
static int unexpose_one(struct client *c, const char *port, void *data, json_t **ret,
                        struct err *err)
{
    const char *name = data;
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, "/v1/sandboxes/%s/exposures/%s", name, port);

    if (r < 0)
        return err_errno(err, r, "sandbox '%.64s'", name);
    r = client_json(c, "DELETE", url.data, NULL, ret, err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:I}", "sandbox", name, "port", (json_int_t)number_whole(port, 5));
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "unexpose");
}

static int unexpose_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct remote args = {.globals = *g};
    char **operands;
    int status;

    if (remote_begin(v, &args, argv, 2, REMOTE_ANY, "sandbox and port", &operands, &status) ==
        VERB_DONE)
        return status;
    return remote_each(&args, operands + 1, unexpose_one, operands[0]);
}

const struct verb verb_unexpose = {
    .name = "unexpose",
    .operands = "NAME PORT...",
    .summary = "Revoke preview URLs",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = unexpose_main,
};
