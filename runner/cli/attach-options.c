/* Options and messages that exec, attach, start and run share. */

#include "cli/attach-options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* True for a shell that would read commands, and an interpreter without a program. */
static bool is_shell(char *const *argv)
{
    static const char *const shells[] = {"sh",  "bash", "dash", "ash", "zsh",
                                         "ksh", "fish", "tcsh", NULL};
    static const char *const others[] = {"python", "python3", "node", "irb", "psql", NULL};
    static const char *const harmless[] = {"-i", "-l", "-il", "-li", "--login", NULL};
    const char *slash = strrchr(argv[0], '/'), *name = slash != NULL ? slash + 1 : argv[0];
    size_t i, k;

    for (i = 0; others[i] != NULL; i++)
        if (strcmp(others[i], name) == 0)
            return argv[1] == NULL;
    for (i = 0; shells[i] != NULL && strcmp(shells[i], name) != 0; i++)
        ;
    if (shells[i] == NULL)
        return false;
    for (i = 1; argv[i] != NULL; i++) {
        for (k = 0; harmless[k] != NULL && strcmp(harmless[k], argv[i]) != 0; k++)
            ;
        if (harmless[k] == NULL)
            return false;
    }
    return true;
}

void hint_shell(bool tty, bool input, char *const *argv, const char *how)
{
    if ((tty && input) || argv == NULL || argv[0] == NULL || !isatty(STDIN_FILENO) ||
        !isatty(STDOUT_FILENO) || !is_shell(argv))
        return;
    (void)fprintf(stderr, "rind: without %s %.64s %s; for a shell: %s\n",
                  tty     ? "-i"
                  : input ? "-t"
                          : "-it",
                  argv[0], input ? "has no terminal" : "reads end of file and ends", how);
}
