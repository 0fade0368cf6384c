/* GET /containers/{id}/top: the processes of a container, like `ps -ef` on the host; but uids
 * are those inside, and commands are names without arguments (launch/processes.c). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "base/clock.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "launch/launcher.h"
#include "sandbox/sandbox.h"

enum { DAY_MS = 24 * 60 * 60 * 1000, CELL_MAX = 24 };

struct top_query {
    const char *args;
};

static const struct query_field fields[] = {
    {.name = "ps_args", .type = QUERY_STRING, .off = offsetof(struct top_query, args), .max = 256},
    {0},
};

/* Formats "15:04" within the last day, else "Jan02"; UTC. */
static void start_text(int64_t ms, int64_t now, char ret[CELL_MAX])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(ret, CELL_MAX, now - ms < DAY_MS ? "%H:%M" : "%b%d", &tm) == 0)
        (void)snprintf(ret, CELL_MAX, "?");
}

static void used_text(int64_t ms, char ret[CELL_MAX])
{
    const int64_t s = ms / 1000;

    (void)snprintf(ret, CELL_MAX, "%02" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60),
                   (int)(s % 60));
}

static void name_text(const struct launch_process *p, char ret[sizeof(p->name)])
{
    size_t i = 0;

    for (; p->name[i] != '\0' && i + 1 < sizeof(p->name); i++)
        ret[i] = (char)(p->name[i] >= ' ' && p->name[i] <= '~' ? p->name[i] : '?');
    ret[i] = '\0';
}

static json_t *encode_process(const struct launch_process *p, int64_t now)
{
    char uid[CELL_MAX], pid[CELL_MAX], parent[CELL_MAX], share[CELL_MAX], start[CELL_MAX],
        terminal[CELL_MAX] = "?", used[CELL_MAX], name[sizeof(p->name)];
    const int64_t age = now - p->started_ms;

    (void)snprintf(uid, sizeof(uid), "%" PRIu32, p->uid);
    (void)snprintf(pid, sizeof(pid), "%" PRId32, p->pid);
    (void)snprintf(parent, sizeof(parent), "%" PRId32, p->parent);
    (void)snprintf(share, sizeof(share), "%" PRId64, age > 0 ? p->cpu_ms * 100 / age : 0);
    start_text(p->started_ms, now, start);
    if (p->terminal >= 0)
        (void)snprintf(terminal, sizeof(terminal), "pts/%" PRId32, p->terminal);
    used_text(p->cpu_ms, used);
    name_text(p, name);
    return json_pack("[ssssssss]", uid, pid, parent, share, start, terminal, used, name);
}

static void on_top_processes(void *data, int r, const struct launch_process *list, size_t count,
                             const struct err *err)
{
    struct http_request *req = data;
    const int64_t now = clock_wall_ms();
    json_t *rows;

    if (r < 0) {
        reply_error(req, err);
        return;
    }
    rows = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(rows, encode_process(&list[i], now));
    reply_json(req, 200,
               json_pack("{s:[ssssssss], s:o}", "Titles", "UID", "PID", "PPID", "C", "STIME", "TTY",
                         "TIME", "CMD", "Processes", rows));
}

void docker_get_top(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct top_query q = {0};
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    r = http_query_known(req, fields, &q, &err);
    if (r == 0 && q.args != NULL && q.args[0] != '\0' && strcmp(q.args, "-ef") != 0)
        r = err_set(&err, -EOPNOTSUPP,
                    "ps_args: \"%.64s\": processes are listed as ps -ef does, and in no other way",
                    q.args);
    if (r == 0 && (!docker_is_running(s) || sandbox_main(s) == NULL))
        r = err_set(&err, -EBUSY, "container %s is not running", sandbox_name(s));
    if (r == 0)
        r = sandbox_processes(s, on_top_processes, req, &err);
    if (r < 0)
        reply_error(req, &err);
}
