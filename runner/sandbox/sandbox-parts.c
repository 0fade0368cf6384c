#include "sandbox/sandbox-parts.h"

#include <errno.h>

#include "base/err.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

/* The supervisor of a unit test may have no parts. */
static const struct sandbox_part *parts_of(const struct supervisor *sup)
{
    static const struct sandbox_part none[1];

    return sup->parts != NULL ? sup->parts : none;
}

/* ---- a stage, part after part ---- */

/* As sandbox_parts_walk, from walk.next on. */
static int part_walk_on(struct sandbox *s, struct err *err)
{
    const struct sandbox_part *parts = parts_of(s->sup);
    int r = 1;

    while (r > 0 && parts[s->start.walk.next].name != NULL) {
        const struct sandbox_part *part = &parts[s->start.walk.next++];

        if (part->steps[s->start.walk.stage] == NULL)
            continue;
        if (s->sup->stopping || s->state == SANDBOX_REMOVING || s->init == INIT_ENDING)
            r = err_set(err, -ECANCELED, "sandbox %s is ended", sandbox_name(s));
        else
            r = part->steps[s->start.walk.stage](s, err);
    }
    if (r != 0)
        s->start.walk.stage = STAGE_NONE;
    return r;
}

int sandbox_parts_walk(struct sandbox *s, enum part_stage stage,
                       void (*done)(struct sandbox *s, int r, const struct err *err),
                       struct err *err)
{
    if (s->start.walk.stage != STAGE_NONE)
        return err_set(err, -EBUSY, "sandbox %s is being started", sandbox_name(s));
    s->start.walk = (struct part_walk){.stage = stage, .done = done};
    return part_walk_on(s, err);
}

void sandbox_part_done(struct sandbox *s, int r, const struct err *err)
{
    struct err own = ERR_NONE;

    if (r == 0) {
        r = part_walk_on(s, &own);
        if (r == 0)
            return; /* the next part's step has begun */
        err = &own;
    }
    s->start.walk.stage = STAGE_NONE;
    s->start.walk.done(s, r < 0 ? r : 0, err);
}

/* ---- news ---- */

static void part_tell(struct sandbox *s, const struct sandbox_part *part, enum part_news news)
{
    if (part->told[news] != NULL)
        part->told[news](s);
}

void sandbox_parts_tell(struct sandbox *s, enum part_news news)
{
    const struct sandbox_part *parts = parts_of(s->sup), *last = parts;

    while (last->name != NULL)
        last++;
    while (last > parts)
        part_tell(s, --last, news);
}

void sandbox_parts_main_runs(struct sandbox *s, struct exec *main, bool adopted)
{
    for (const struct sandbox_part *p = parts_of(s->sup); p->name != NULL; p++)
        if (p->main_runs != NULL)
            p->main_runs(s, main, adopted);
}

/* ---- specs and processes ---- */

size_t sandbox_parts_env(const struct sandbox *s, const char **ret)
{
    size_t count = 0;

    for (const struct sandbox_part *p = parts_of(s->sup); p->name != NULL; p++)
        for (const char *const *v = p->env != NULL ? p->env(s) : NULL; v != NULL && *v != NULL; v++)
            if (ret != NULL)
                ret[count++] = *v;
            else
                count++;
    return count;
}

int sandbox_parts_check_spec(struct supervisor *sup, struct spec *spec,
                             const struct caller *creator, struct err *err)
{
    int r = 0;

    for (const struct sandbox_part *p = parts_of(sup); r == 0 && p->name != NULL; p++)
        if (p->check_spec != NULL)
            r = p->check_spec(sup, spec, creator, err);
    return r;
}

int sandbox_parts_complete_spec(struct supervisor *sup, struct spec *spec, struct err *err)
{
    int r = 0;

    for (const struct sandbox_part *p = parts_of(sup); r == 0 && p->name != NULL; p++)
        if (p->complete_spec != NULL)
            r = p->complete_spec(spec, err);
    return r;
}

void sandbox_parts_usage(const struct supervisor *sup, const struct member_scope *scope,
                         struct member_usage *add)
{
    for (const struct sandbox_part *p = parts_of(sup); p->name != NULL; p++)
        if (p->usage != NULL)
            p->usage(sup, scope, add);
}
