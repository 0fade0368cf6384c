#include "sandbox/services.h"

#include "sandbox/shared.h"

uv_loop_t *supervisor_loop(struct supervisor *s)
{
    return s->loop;
}

struct events *supervisor_events(struct supervisor *s)
{
    return s->events;
}

struct gateway *supervisor_gateway(struct supervisor *s)
{
    return s->gateway;
}

struct images *supervisor_images(struct supervisor *s)
{
    return s->images;
}

const struct supervisor_limits *supervisor_limits(const struct supervisor *s)
{
    return &s->limits;
}

const struct policy *supervisor_policy(const struct supervisor *s, const char *name)
{
    const struct ready_policy *p = policies_find(s->policies, name);

    return p != NULL ? p->policy : NULL;
}

int supervisor_shim(const struct supervisor *s)
{
    return s->shim_fd;
}

int *supervisor_stage(struct supervisor *s)
{
    return s->stage;
}

const char *supervisor_tree(const struct supervisor *s)
{
    return s->tree;
}
