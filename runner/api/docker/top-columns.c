/* Owns nothing. Runs in the supervisor's loop thread; called by top.c. */
#include "api/docker/top-columns.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "launch/launcher.h"

enum { SECOND = 1000, DAY_MS = 24 * 60 * 60 * SECOND, KIB = 1024 };

typedef void cell_fn(const struct launch_process *p, const struct top_host *host,
                     char ret[TOP_CELL_MAX]);

struct top_column {
    const char *names; /* of -o, separated by spaces */
    const char *title;
    cell_fn *cell;
};

/* ---- cells ---- */

static void cell_uid(const struct launch_process *p, const struct top_host *host,
                     char ret[TOP_CELL_MAX])
{
    (void)host;
    (void)snprintf(ret, TOP_CELL_MAX, "%" PRIu32, p->uid);
}

static void cell_pid(const struct launch_process *p, const struct top_host *host,
                     char ret[TOP_CELL_MAX])
{
    (void)host;
    (void)snprintf(ret, TOP_CELL_MAX, "%" PRId32, p->pid);
}

static void cell_parent(const struct launch_process *p, const struct top_host *host,
                        char ret[TOP_CELL_MAX])
{
    (void)host;
    (void)snprintf(ret, TOP_CELL_MAX, "%" PRId32, p->parent);
}

/* Tenths of a per cent of the processor time since its start. */
static int64_t cpu_share(const struct launch_process *p, const struct top_host *host)
{
    const int64_t age = host->now_ms - p->started_ms;

    return age > 0 ? p->cpu_ms * 1000 / age : 0;
}

static void cell_whole_cpu(const struct launch_process *p, const struct top_host *host,
                           char ret[TOP_CELL_MAX])
{
    (void)snprintf(ret, TOP_CELL_MAX, "%" PRId64, cpu_share(p, host) / 10);
}

static void cell_cpu(const struct launch_process *p, const struct top_host *host,
                     char ret[TOP_CELL_MAX])
{
    const int64_t share = cpu_share(p, host);

    (void)snprintf(ret, TOP_CELL_MAX, "%" PRId64 ".%d", share / 10, (int)(share % 10));
}

static void cell_memory(const struct launch_process *p, const struct top_host *host,
                        char ret[TOP_CELL_MAX])
{
    const uint64_t all = host->memory / KIB, own = p->rss_bytes / KIB;
    const uint64_t share = all > 0 ? own * 1000 / all : 0;

    (void)snprintf(ret, TOP_CELL_MAX, "%" PRIu64 ".%d", share / 10, (int)(share % 10));
}

static void cell_vsz(const struct launch_process *p, const struct top_host *host,
                     char ret[TOP_CELL_MAX])
{
    (void)host;
    (void)snprintf(ret, TOP_CELL_MAX, "%" PRIu64, p->virtual_bytes / KIB);
}

static void cell_rss(const struct launch_process *p, const struct top_host *host,
                     char ret[TOP_CELL_MAX])
{
    (void)host;
    (void)snprintf(ret, TOP_CELL_MAX, "%" PRIu64, p->rss_bytes / KIB);
}

static void cell_terminal(const struct launch_process *p, const struct top_host *host,
                          char ret[TOP_CELL_MAX])
{
    (void)host;
    if (p->terminal >= 0)
        (void)snprintf(ret, TOP_CELL_MAX, "pts/%" PRId32, p->terminal);
    else
        (void)snprintf(ret, TOP_CELL_MAX, "?");
}

static void cell_state(const struct launch_process *p, const struct top_host *host,
                       char ret[TOP_CELL_MAX])
{
    (void)host;
    (void)snprintf(ret, TOP_CELL_MAX, "%c", p->state >= 'A' && p->state <= 'z' ? p->state : '?');
}

/* "15:04" within the last day, else "Jan02"; UTC. */
static void cell_start(const struct launch_process *p, const struct top_host *host,
                       char ret[TOP_CELL_MAX])
{
    const bool today = host->now_ms - p->started_ms < DAY_MS;
    time_t seconds = (time_t)(p->started_ms / SECOND);
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL || (today ? strftime(ret, TOP_CELL_MAX, "%H:%M", &tm)
                                                  : strftime(ret, TOP_CELL_MAX, "%b%d", &tm)) == 0)
        (void)snprintf(ret, TOP_CELL_MAX, "?");
}

static void cell_whole_start(const struct launch_process *p, const struct top_host *host,
                             char ret[TOP_CELL_MAX])
{
    time_t seconds = (time_t)(p->started_ms / SECOND);
    struct tm tm;

    (void)host;
    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(ret, TOP_CELL_MAX, "%a %b %e %H:%M:%S %Y", &tm) == 0)
        (void)snprintf(ret, TOP_CELL_MAX, "?");
}

/* "[DAYS-]HH:MM:SS" */
static void cell_time(const struct launch_process *p, const struct top_host *host,
                      char ret[TOP_CELL_MAX])
{
    const int64_t s = p->cpu_ms / SECOND;

    (void)host;
    (void)snprintf(ret, TOP_CELL_MAX, "%02" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60),
                   (int)(s % 60));
}

/* "MINUTES:SS" */
static void cell_short_time(const struct launch_process *p, const struct top_host *host,
                            char ret[TOP_CELL_MAX])
{
    const int64_t s = p->cpu_ms / SECOND;

    (void)host;
    (void)snprintf(ret, TOP_CELL_MAX, "%" PRId64 ":%02d", s / 60, (int)(s % 60));
}

static int64_t process_age(const struct launch_process *p, const struct top_host *host)
{
    const int64_t age = (host->now_ms - p->started_ms) / SECOND;

    return age > 0 ? age : 0;
}

static void cell_age(const struct launch_process *p, const struct top_host *host,
                     char ret[TOP_CELL_MAX])
{
    const int64_t s = process_age(p, host), days = s / 86400, hours = s / 3600 % 24;

    if (days > 0)
        (void)snprintf(ret, TOP_CELL_MAX, "%" PRId64 "-%02d:%02d:%02d", days, (int)hours,
                       (int)(s / 60 % 60), (int)(s % 60));
    else if (hours > 0)
        (void)snprintf(ret, TOP_CELL_MAX, "%02d:%02d:%02d", (int)hours, (int)(s / 60 % 60),
                       (int)(s % 60));
    else
        (void)snprintf(ret, TOP_CELL_MAX, "%02d:%02d", (int)(s / 60 % 60), (int)(s % 60));
}

static void cell_age_seconds(const struct launch_process *p, const struct top_host *host,
                             char ret[TOP_CELL_MAX])
{
    (void)snprintf(ret, TOP_CELL_MAX, "%" PRId64, process_age(p, host));
}

static void cell_name(const struct launch_process *p, const struct top_host *host,
                      char ret[TOP_CELL_MAX])
{
    size_t i = 0;

    (void)host;
    for (; p->name[i] != '\0' && i + 1 < TOP_CELL_MAX && i + 1 < sizeof(p->name); i++)
        ret[i] = (char)(p->name[i] >= ' ' && p->name[i] <= '~' ? p->name[i] : '?');
    ret[i] = '\0';
}

/* ---- columns ---- */

/* A process's arguments lie in memory that it can make its reader wait for: its name stands for
 * them. */
enum column {
    COL_UID,
    COL_USER,
    COL_PID,
    COL_PPID,
    COL_C,
    COL_PCPU,
    COL_PMEM,
    COL_VSZ,
    COL_RSS,
    COL_TTY,
    COL_STAT,
    COL_S,
    COL_STIME,
    COL_START,
    COL_LSTART,
    COL_TIME,
    COL_BSDTIME,
    COL_ETIME,
    COL_ETIMES,
    COL_CMD,
    COL_COMMAND,
    COL_COMM,
    COL_MAX
};

/* clang-format off */
static const struct top_column columns[COL_MAX] = {
    [COL_UID]     = {"uid euid ruid suid",        "UID",     cell_uid},
    [COL_USER]    = {"user euser ruser uname",    "USER",    cell_uid},
    [COL_PID]     = {"pid tgid",                  "PID",     cell_pid},
    [COL_PPID]    = {"ppid",                      "PPID",    cell_parent},
    [COL_C]       = {"c",                         "C",       cell_whole_cpu},
    [COL_PCPU]    = {"pcpu %cpu",                 "%CPU",    cell_cpu},
    [COL_PMEM]    = {"pmem %mem",                 "%MEM",    cell_memory},
    [COL_VSZ]     = {"vsz vsize",                 "VSZ",     cell_vsz},
    [COL_RSS]     = {"rss rssize rsz",            "RSS",     cell_rss},
    [COL_TTY]     = {"tty tt tname",              "TTY",     cell_terminal},
    [COL_STAT]    = {"stat",                      "STAT",    cell_state},
    [COL_S]       = {"s state",                   "S",       cell_state},
    [COL_STIME]   = {"stime",                     "STIME",   cell_start},
    [COL_START]   = {"start start_time bsdstart", "START",   cell_start},
    [COL_LSTART]  = {"lstart",                    "STARTED", cell_whole_start},
    [COL_TIME]    = {"time cputime",              "TIME",    cell_time},
    [COL_BSDTIME] = {"bsdtime",                   "TIME",    cell_short_time},
    [COL_ETIME]   = {"etime",                     "ELAPSED", cell_age},
    [COL_ETIMES]  = {"etimes",                    "ELAPSED", cell_age_seconds},
    [COL_CMD]     = {"cmd",                       "CMD",     cell_name},
    [COL_COMMAND] = {"args command",              "COMMAND", cell_name},
    [COL_COMM]    = {"comm ucmd ucomm",           "COMMAND", cell_name},
};
/* clang-format on */

static const enum column format_full[] = {COL_UID,   COL_PID, COL_PPID, COL_C,
                                          COL_STIME, COL_TTY, COL_TIME, COL_CMD};
static const enum column format_user[] = {COL_USER,  COL_PID,     COL_PCPU,   COL_PMEM,
                                          COL_VSZ,   COL_RSS,     COL_TTY,    COL_STAT,
                                          COL_START, COL_BSDTIME, COL_COMMAND};
static const enum column format_plain[] = {COL_PID, COL_TTY, COL_TIME, COL_CMD};
static const enum column format_bsd[] = {COL_PID, COL_TTY, COL_STAT, COL_BSDTIME, COL_COMMAND};

#define FORMAT(list) list, sizeof(list) / sizeof((list)[0])

const char *top_title(const struct top_column *c)
{
    return c->title;
}

void top_cell(const struct top_column *c, const struct launch_process *p,
              const struct top_host *host, char ret[TOP_CELL_MAX])
{
    c->cell(p, host, ret);
}

/* ---- arguments ---- */

static void format_set(struct top_format *f, const enum column *list, size_t count)
{
    f->count = 0;
    for (size_t i = 0; i < count; i++)
        f->columns[f->count++] = &columns[list[i]];
}

static bool names_have(const char *names, const char *name, size_t len)
{
    while (*names != '\0') {
        const size_t n = strcspn(names, " ");

        if (n == len && strncmp(names, name, n) == 0)
            return true;
        names += n + (names[n] == ' ');
    }
    return false;
}

/* "pid,comm" */
static int format_add_list(struct top_format *f, const char *text, size_t len, struct err *err)
{
    for (size_t at = 0; at < len;) {
        const size_t n = strcspn(text + at, ", ") < len - at ? strcspn(text + at, ", ") : len - at;
        const struct top_column *found = NULL;

        for (size_t i = 0; i < COL_MAX && n > 0; i++)
            if (names_have(columns[i].names, text + at, n))
                found = &columns[i];
        if (found == NULL)
            return err_set(err, -EOPNOTSUPP, "ps_args: no column \"%.*s\" is shown here",
                           (int)(n < 32 ? n : 32), text + at);
        if (f->count == TOP_COLUMNS_MAX)
            return err_set(err, -E2BIG, "ps_args: more than %d columns", TOP_COLUMNS_MAX);
        f->columns[f->count++] = found;
        at += n + (at + n < len);
    }
    return 0;
}

/* What the words before have asked for. */
struct top_words {
    bool full, user, bsd, list; /* list: the next word is that of -o */
    struct top_format own;
};

/* One word but for the lists of -o. Which processes (-e, -A, a, x) and how wide (w) changes
 * nothing: all of the container's are shown, whole. */
static int words_take(struct top_words *w, const char *text, size_t len, struct err *err)
{
    const bool dash = len > 0 && text[0] == '-';

    for (size_t i = dash; i < len; i++) {
        if (text[i] == 'o') {
            w->list = i + 1 == len;
            return w->list ? 0 : format_add_list(&w->own, text + i + 1, len - i - 1, err);
        }
        if (text[i] == 'f')
            w->full |= dash; /* else a forest: the order of the processes is that of the kernel */
        else if (text[i] == 'u')
            w->user = true;
        else if (strchr("eAaxw", text[i]) == NULL)
            return err_set(err, -EOPNOTSUPP,
                           "ps_args: \"%.*s\": only -e, -f, -o, a, u, x, w and their like",
                           (int)(len < 32 ? len : 32), text);
    }
    w->bsd |= !dash;
    return 0;
}

static bool format_has_pid(const struct top_format *f)
{
    for (unsigned i = 0; i < f->count; i++)
        if (f->columns[i] == &columns[COL_PID])
            return true;
    return false;
}

int top_parse(const char *args, struct top_format *ret, struct err *err)
{
    struct top_words w = {.list = false};
    int r = 0;

    for (const char *p = args; r == 0 && *p != '\0';) {
        const size_t len = strcspn(p, " ");

        if (len > 0 && w.list) {
            w.list = false;
            r = format_add_list(&w.own, p, len, err);
        } else if (len > 0) {
            r = words_take(&w, p, len, err);
        }
        p += len + (p[len] == ' ');
    }
    if (r == 0 && w.list)
        r = err_set(err, -EINVAL, "ps_args: -o without columns");
    if (r < 0)
        return r;
    if (w.own.count > 0 && !format_has_pid(&w.own))
        return err_set(err, -EINVAL, "Couldn't find PID field in ps output");
    if (w.own.count > 0)
        *ret = w.own;
    else if (w.user)
        format_set(ret, FORMAT(format_user));
    else if (w.full || args[strspn(args, " ")] == '\0')
        format_set(ret, FORMAT(format_full));
    else if (w.bsd)
        format_set(ret, FORMAT(format_bsd));
    else
        format_set(ret, FORMAT(format_plain));
    return 0;
}
