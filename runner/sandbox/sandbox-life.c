/*
 * Functions that all modules of a sandbox use. They change its state, by events along the table of
 * sandbox-states.c. They count references, save the sandbox, and send its requests to the launcher.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "launch/request.h"
#include "sandbox/events.h"
#include "sandbox/exec.h"
#include "sandbox/launcher-client.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/shared.h"
#include "sandbox/store.h"

/* ---- the state ---- */

int sandbox_check(const struct sandbox *s, enum sandbox_event request, struct err *err)
{
    int next;

    /*
     * An ended main process waits for its own client to return, but other clients need not wait. So
     * the sandbox gets the exit event now.
     */
    if (s->run.main != NULL && request != REQ_INIT)
        exec_tell_owner(s->run.main);
    next = sandbox_next_state(s->state, request);
    if (next == -ENOENT)
        return err_set(err, next, "sandbox %s has been removed", sandbox_name(s));
    if (next < 0 && s->end.lingers)
        return sandbox_linger_refuse(s, next, err);
    if (next < 0)
        return err_set(err, next, "sandbox %s is %s%s", sandbox_name(s),
                       sandbox_state_name(s->state),
                       s->state == SANDBOX_CREATED ? ", and has not been started" : "");
    return 0;
}

/*
 * Reports a bug in this program. A daemon with users' sandboxes goes on; a build with a sanitizer
 * aborts, so that the bug can be found.
 */
static void sandbox_impossible(const struct sandbox *s, const char *what, const char *in)
{
    log_error("sandbox",
              "id=%s: '%s' cannot happen in '%s' (init: %s), ignored; please report this", s->id,
              what, in, init_phase_name(s->init));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    abort();
#endif
}

bool sandbox_set_state(struct sandbox *s, enum sandbox_event event)
{
    const int next = sandbox_next_state(s->state, event);

    if (next <= 0) {
        sandbox_impossible(s, sandbox_event_name(event), sandbox_state_name(s->state));
        return false;
    }
    if (next == (int)s->state)
        return false;
    if (next != SANDBOX_GONE)
        log_info("sandbox", "id=%s %s -> %s", s->id, sandbox_state_name(s->state),
                 sandbox_state_name((enum sandbox_state)next));
    s->state = (enum sandbox_state)next;
    return true;
}

void sandbox_set_init(struct sandbox *s, enum init_phase phase)
{
    if (s->init == phase)
        return;
    if (!init_phase_may_follow(s->init, phase))
        sandbox_impossible(s, init_phase_name(phase), init_phase_name(s->init));
    s->init = phase;
}

/* ---- references ---- */

void sandbox_ref(struct sandbox *s)
{
    s->refs++;
}

static void sandbox_free(struct sandbox *s)
{
    sandbox_parts_tell(s, PART_FREED);
    spec_free(s->spec);
    free(s);
}

static void on_timer_closed(uv_handle_t *h)
{
    struct sandbox *s = h->data;

    if (--s->handles == 0)
        sandbox_free(s);
}

void sandbox_unref(struct sandbox *s)
{
    if (--s->refs > 0)
        return;
    if (s->handles == 0) {
        sandbox_free(s);
        return;
    }
    uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    uv_close((uv_handle_t *)&s->idle, on_timer_closed);
    uv_close((uv_handle_t *)&s->restart.timer, on_timer_closed);
}

/* ---- on disk, and others ---- */

/* True if the sandbox should run again after a reboot, as far as its restart policy allows. */
static bool sandbox_is_wanted(const struct sandbox *s, enum sandbox_state state)
{
    return !s->restart.user_stopped && state != SANDBOX_CREATING && state != SANDBOX_CREATED &&
           state != SANDBOX_REMOVING;
}

int sandbox_save_as(struct sandbox *s, enum sandbox_state as, struct err *err)
{
    struct stored_state state = {.state = as,
                                 .created_ms = s->made.ms,
                                 .started_ms = s->run.started_ms,
                                 .finished_ms = s->exit.finished_ms,
                                 .exit_code = s->exit.has ? s->exit.code : -1,
                                 .oom_killed = s->exit.oom_killed,
                                 .restarts = s->restart.count,
                                 .creator = s->made.by,
                                 .wanted = sandbox_is_wanted(s, as),
                                 .held = s->freeze_ref.phase != FREEZE_REF_NONE};

    return as == SANDBOX_GONE ? 0 : store_save_state(s->sup->store, s->id, &state, err);
}

void sandbox_save_state(struct sandbox *s)
{
    struct err err = ERR_NONE;

    if (sandbox_save_as(s, s->state, &err) < 0)
        log_warn("sandbox", "id=%s save state: %s, going on", s->id, err.msg);
}

void sandbox_emit(struct sandbox *s, const char *type, const char *detail)
{
    events_emit(s->sup->events, type, s->id, sandbox_name(s), s->made.by, detail);
}

void sandbox_emit_volumes(struct sandbox *s, const char *type)
{
    for (size_t i = 0; s->spec != NULL && i < s->spec->volume_count; i++) {
        const struct volume *v = &s->spec->volumes[i];
        auto_free char *text = NULL;
        json_t *detail;

        if (!v->named || v->source == NULL)
            continue;
        detail = json_pack("{s:s, s:s, s:b}", "sandbox", s->id, "target", v->target, "readOnly",
                           (int)v->read_only);
        text = detail != NULL ? json_dumps(detail, JSON_COMPACT) : NULL;
        json_decref(detail);
        events_emit(s->sup->events, type, "", v->source, s->made.by, text);
    }
}

int sandbox_send_verb(struct sandbox *s, enum launch_verb verb, launch_cb cb, struct err *err)
{
    auto_buf struct buf b = BUF_INIT(0);
    int r;

    launch_begin(&b, verb);
    launch_put_string(&b, TAG_ID, s->id);
    r = launch_end(&b);
    if (r == 0)
        r = launcher_client_send_due(s->sup->launcher, &b, cb, s, err);
    if (r == 0)
        sandbox_ref(s);
    return r;
}
