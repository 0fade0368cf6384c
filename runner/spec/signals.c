/* Names of signals; see spec/signals.h. Pure. */

#include "spec/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/strtab.h"
#include "spec/parse.h"

/* The first name of a number is used for output. */
/* clang-format off */
static const struct strtab names[] = {
    {"HUP", SIGHUP},       {"INT", SIGINT},       {"QUIT", SIGQUIT},   {"ILL", SIGILL},
    {"TRAP", SIGTRAP},     {"ABRT", SIGABRT},     {"BUS", SIGBUS},     {"FPE", SIGFPE},
    {"KILL", SIGKILL},     {"USR1", SIGUSR1},     {"SEGV", SIGSEGV},   {"USR2", SIGUSR2},
    {"PIPE", SIGPIPE},     {"ALRM", SIGALRM},     {"TERM", SIGTERM},   {"STKFLT", SIGSTKFLT},
    {"CHLD", SIGCHLD},     {"CONT", SIGCONT},     {"STOP", SIGSTOP},   {"TSTP", SIGTSTP},
    {"TTIN", SIGTTIN},     {"TTOU", SIGTTOU},     {"URG", SIGURG},     {"XCPU", SIGXCPU},
    {"XFSZ", SIGXFSZ},     {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF},   {"WINCH", SIGWINCH},
    {"IO", SIGIO},         {"PWR", SIGPWR},       {"SYS", SIGSYS},
    {"IOT", SIGIOT},       {"CLD", SIGCHLD},      {"POLL", SIGPOLL},
    {0},
};
/* clang-format on */

/*
 * Parses "RTMIN", "RTMIN+3", "RTMAX-1" by the C library's SIGRTMIN, which excludes two signals of
 * its own. -ENOENT.
 */
static int real_time(const char *text)
{
    int base, sign;

    if (strncasecmp(text, "RTMIN", 5) == 0) {
        base = SIGRTMIN;
        sign = 1;
    } else if (strncasecmp(text, "RTMAX", 5) == 0) {
        base = SIGRTMAX;
        sign = -1;
    } else {
        return -ENOENT;
    }
    text += 5;
    if (*text != '\0') {
        int64_t n = 0;

        if (*text != (sign > 0 ? '+' : '-') ||
            parse_number("", text + 1, 0, SIGRTMAX - SIGRTMIN, &n, NULL) < 0)
            return -ENOENT;
        base += sign * (int)n;
    }
    return base;
}

static int by_name(const char *text)
{
    if (strncasecmp(text, "SIG", 3) == 0)
        text += 3;
    for (const struct strtab *t = names; t->name != NULL; t++)
        if (strcasecmp(t->name, text) == 0)
            return t->value;
    return real_time(text);
}

int signal_parse(const char *what, const char *text, int *ret, struct err *err)
{
    int64_t number = 0;
    int signo;

    if (parse_number(what, text, 1, SIGRTMAX, &number, NULL) == 0)
        signo = (int)number;
    else
        signo = by_name(text);
    if (signo < 1)
        return err_set(err, -EINVAL,
                       "%s \"%.*s\": must be a signal's name, as SIGTERM or TERM, or its number "
                       "from 1 to %d",
                       what, QUOTE_MAX, text, SIGRTMAX);
    *ret = signo;
    return 0;
}

void signal_format(int signo, char text[SIGNAL_TEXT_MAX])
{
    const char *name = strtab_name(names, signo);

    if (name != NULL)
        (void)snprintf(text, SIGNAL_TEXT_MAX, "SIG%s", name);
    else if (signo == SIGRTMIN)
        (void)snprintf(text, SIGNAL_TEXT_MAX, "SIGRTMIN");
    else if (signo > SIGRTMIN && signo <= SIGRTMAX)
        (void)snprintf(text, SIGNAL_TEXT_MAX, "SIGRTMIN+%d", signo - SIGRTMIN);
    else
        (void)snprintf(text, SIGNAL_TEXT_MAX, "%d", signo);
}
