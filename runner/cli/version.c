/* rind version: prints one line, for people and for bug reports. */

#include "cli/cli.h"

static int version_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct globals args = *g;
    struct opt_rest rest;
    int status;

    if (verb_begin(v, &args, argv, &rest, &status) == VERB_DONE)
        return status;
    if (rest.operands[0] != NULL)
        return cli_failf("%.64s: version takes no operand", rest.operands[0]);
    (void)printf("rind %s\n", RIND_VERSION);
    return cli_flush(0);
}

const struct verb verb_version = {
    .name = "version",
    .operands = "",
    .summary = "Show the version",
    .main = version_main,
};
