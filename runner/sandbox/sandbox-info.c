/* Accessors of a sandbox for other rooms. */
#include "policy/client.h"
#include "policy/policy.h"
#include "sandbox/exec.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox.h"
#include "sandbox/shared.h"
#include "spec/spec.h"

const char *sandbox_id(const struct sandbox *s)
{
    return s->id;
}

const char *sandbox_name(const struct sandbox *s)
{
    return s->spec != NULL && s->spec->name != NULL ? s->spec->name : s->id;
}

const struct spec *sandbox_spec(const struct sandbox *s)
{
    return s->spec;
}

int64_t sandbox_made_by(const struct sandbox *s)
{
    return s->made.by;
}

struct exec *sandbox_main(const struct sandbox *s)
{
    return s->run.main;
}

bool sandbox_is_attachable(const struct sandbox *s)
{
    return s->spec != NULL &&
           (s->spec->attach || s->spec->console || s->spec->tty || s->spec->interactive);
}

void sandbox_set_size(struct sandbox *s, uint16_t rows, uint16_t cols)
{
    s->run.rows = rows;
    s->run.cols = cols;
    if (s->run.main != NULL)
        (void)exec_resize(s->run.main, rows, cols);
}

enum sandbox_state sandbox_get_state(const struct sandbox *s)
{
    return s->state == SANDBOX_GONE ? SANDBOX_REMOVING : s->state;
}

struct supervisor *sandbox_supervisor(const struct sandbox *s)
{
    return s->sup;
}

void sandbox_get_info(const struct sandbox *s, struct sandbox_info *ret)
{
    *ret = (struct sandbox_info){
        .created_ms = s->made.ms,
        .started_ms = s->run.started_ms,
        .finished_ms = s->exit.finished_ms,
        .exit_code = s->exit.has ? s->exit.code : -1,
        .oom_killed = s->exit.oom_killed,
        .timed_out = s->exit.timed_out,
        .restarting =
            (s->restart.due && (s->state == SANDBOX_STOPPED || s->state == SANDBOX_STARTING)) ||
            (s->state == SANDBOX_STOPPING && s->run.main == NULL && s->spec != NULL &&
             sandbox_wants_restart(s)),
        .lingers = s->end.lingers,
        .pid = s->run.main != NULL ? exec_pid(s->run.main) : 0,
        .restarts = s->restart.count,
        .error = s->error,
        .disk_held = s->disk_hold.held,
        .net = s->channel != NULL && s->net.place.sandbox4.family != 0 ? &s->net.place : NULL,
        .net_closed = s->channel != NULL && s->net.closed[0] != '\0' ? s->net.closed : NULL};
}

const struct limits *sandbox_most(const struct sandbox *s)
{
    const struct client_policy *clients = s->sup->clients;

    return clients != NULL && sandbox_maker(s).limited ? &clients->most : NULL;
}

struct limits sandbox_limits(const struct sandbox *s)
{
    const struct policy *p = s->spec != NULL ? supervisor_policy(s->sup, s->spec->policy) : NULL;
    const struct limits none = {.memory_bytes = LIMIT_UNSET, .pids = LIMIT_UNSET};

    if (p == NULL)
        return none;
    return limits_effective(&p->limits, &s->spec->limits, sandbox_most(s));
}
