/* Options and messages that exec, attach, start and run share. */

#include "cli/attach-options.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"

int opt_detach_keys(void *target, const struct opt *o, const char *text, struct err *err)
{
    struct keys *keys = (struct keys *)(void *)((char *)target + o->off);

    return keys_parse(text, keys) < 0
               ? err_set(err, -EINVAL, "\"%.64s\": write it as " DETACH_KEYS, text)
               : 0;
}

const char no_terminal[] = "--tty: standard input is no terminal; leave --tty out";

void attached_explain(const struct attached_end *end, const char *name, const char *exec,
                      long long timeout_ms)
{
    if (end->detached)
        (void)fprintf(stderr, "rind: left %s, which goes on; rind attach %s%s%s comes back to it\n",
                      exec != NULL ? exec : name, name, exec != NULL ? " " : "",
                      exec != NULL ? exec : "");
    else if (end->timed_out && timeout_ms > 0)
        (void)fprintf(stderr, "rind: timed out after %lld ms: killed\n", timeout_ms);
    else if (end->timed_out)
        (void)fprintf(stderr, "rind: timed out: killed\n");
    else if (end->oom_killed)
        (void)fprintf(stderr, "rind: out of memory: the kernel killed processes for the sandbox's "
                              "limit (--memory)\n");
    else if (end->sandbox_ended)
        (void)fprintf(stderr, "rind: the sandbox's init was killed, and the command with it\n");
}
