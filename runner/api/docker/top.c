/* GET /containers/{id}/top: the processes of a container, as `ps` shows them on the host; but uids
 * are those inside, and commands are names without arguments (launch/processes.c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "api/docker/top-columns.h"
#include "base/clock.h"
#include "base/err.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "launch/launcher.h"
#include "sandbox/sandbox.h"

struct top_query {
    const char *args;
};

static const struct query_field fields[] = {
    {.name = "ps_args", .type = QUERY_STRING, .off = offsetof(struct top_query, args), .max = 256},
    {0},
};

/* A listing in progress. */
struct top_listing {
    struct http_request *req;
    struct top_format format;
};

static json_t *encode_process(const struct top_format *f, const struct launch_process *p,
                              const struct top_host *host)
{
    json_t *row = json_array();

    for (unsigned i = 0; i < f->count; i++) {
        char cell[TOP_CELL_MAX];

        top_cell(f->columns[i], p, host, cell);
        (void)json_array_append_new(row, json_string(cell));
    }
    return row;
}

static uint64_t host_memory(void)
{
    struct sysinfo host;

    return sysinfo(&host) < 0 ? 0 : (uint64_t)host.totalram * host.mem_unit;
}

static void on_top_processes(void *data, int r, const struct launch_process *list, size_t count,
                             const struct err *err)
{
    struct top_listing *l = data;
    const struct top_host host = {.now_ms = clock_wall_ms(), .memory = host_memory()};
    json_t *titles, *rows;

    if (r < 0) {
        reply_error(l->req, err);
        free(l);
        return;
    }
    titles = json_array();
    rows = json_array();
    for (unsigned i = 0; i < l->format.count; i++)
        (void)json_array_append_new(titles, json_string(top_title(l->format.columns[i])));
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(rows, encode_process(&l->format, &list[i], &host));
    reply_json(l->req, 200, json_pack("{s:o, s:o}", "Titles", titles, "Processes", rows));
    free(l);
}

void docker_get_top(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct top_query q = {0};
    struct top_listing *l;
    struct err err = ERR_NONE;
    int r;

    if (s == NULL)
        return;
    l = calloc(1, sizeof(*l));
    r = l != NULL ? http_query_known(req, fields, &q, &err) : err_errno(&err, -ENOMEM, "top");
    if (r == 0) {
        l->req = req;
        r = top_parse(q.args != NULL ? q.args : "", &l->format, &err);
    }
    if (r == 0 && (!docker_is_running(s) || sandbox_main(s) == NULL))
        r = err_set(&err, -EBUSY, "container %s is not running", sandbox_name(s));
    if (r == 0)
        r = sandbox_processes(s, on_top_processes, l, &err);
    if (r == 0)
        return;
    reply_error(req, &err);
    free(l);
}
