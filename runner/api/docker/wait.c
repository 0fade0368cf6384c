/* POST /containers/{id}/wait: the head at once, like Docker, and the exit code at the end. So a
 * client that waits before it starts the container (condition next-exit) knows that the wait is
 * registered. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/docker/common.h"
#include "api/docker/containers.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/strtab.h"
#include "http/reply.h"
#include "http/route-query.h"
#include "sandbox/sandbox.h"

enum wait_condition { WAIT_NOT_RUNNING = 0, WAIT_NEXT_EXIT, WAIT_REMOVED };

static const struct strtab conditions[] = {{"not-running", WAIT_NOT_RUNNING},
                                           {"next-exit", WAIT_NEXT_EXIT},
                                           {"removed", WAIT_REMOVED},
                                           {"", WAIT_NOT_RUNNING},
                                           {NULL, 0}};

struct docker_wait_query {
    int condition;
};

static const struct query_field fields[] = {
    {.name = "condition",
     .type = QUERY_ENUM,
     .off = offsetof(struct docker_wait_query, condition),
     .names = conditions},
    {0},
};

struct docker_wait {
    struct http_request *req; /* NULL: the client is gone */
    struct sandbox *s;        /* a reference */
    int condition;
};

static void waiting_free(struct docker_wait *w)
{
    sandbox_unref(w->s);
    free(w);
}

/* False while the main process may live, also where a supervisor has found it dying. */
static bool main_is_over(const struct sandbox *s)
{
    struct sandbox_info f;

    sandbox_get_info(s, &f);
    return !docker_is_running(s) || (sandbox_main(s) == NULL && (!f.lingers || f.exit_code >= 0));
}

static int last_code(const struct sandbox *s)
{
    struct sandbox_info f;

    sandbox_get_info(s, &f);
    return f.exit_code >= 0 ? f.exit_code : 0;
}

static void wait_reply(struct http_request *req, int code)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "{\"Error\":null,\"StatusCode\":%d}\n", code);

    (void)http_write(req, text, (size_t)n);
    http_end(req);
}

/* r: the exit code; negative if the container was removed meanwhile, which also ended it. */
static void on_wait_over(void *data, int r, const struct err *err)
{
    struct docker_wait *w = data;

    (void)err;
    if (w->req != NULL)
        wait_reply(w->req, r > 0 ? r : w->condition == WAIT_REMOVED || r < 0 ? last_code(w->s) : 0);
    waiting_free(w);
}

static void on_wait_gone(struct http_request *req)
{
    struct docker_wait *w = req->data;

    http_abort(req);
    w->req = NULL;
    if (sandbox_wait_cancel(w->s, w))
        waiting_free(w);
}

static int wait_begin(struct docker_wait *w, struct err *err)
{
    if (w->condition == WAIT_REMOVED)
        return sandbox_wait_removed(w->s, on_wait_over, w, err);
    return sandbox_wait_next(w->s, on_wait_over, w, err);
}

void docker_post_wait(struct http_request *req)
{
    struct sandbox *s = docker_sandbox(req);
    struct docker_wait_query q = {0};
    struct docker_wait *w;
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    if (http_query_known(req, fields, &q, &err) < 0) {
        reply_error(req, &err);
        return;
    }
    if (q.condition == WAIT_NOT_RUNNING && main_is_over(s)) {
        http_start(req, 200, NULL, "application/json");
        wait_reply(req, last_code(s));
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL) {
        reply_errorf(req, -ENOMEM, "out of memory");
        return;
    }
    *w = (struct docker_wait){.req = req, .s = s, .condition = q.condition};
    sandbox_ref(s);
    if (wait_begin(w, &err) < 0) {
        reply_error(req, &err);
        waiting_free(w);
        return;
    }
    req->data = w;
    req->on_gone = on_wait_gone;
    http_start(req, 200, NULL, "application/json");
}
