/* A start goes through the table of parts in order; an end goes back. The parts are this test's. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/err.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/sandbox-parts.h"
#include "sandbox/shared.h"
#include "spec/spec.h"
#include "tap.h"

static struct {
    char said[256]; /* what the parts were asked, in order */
    int volumes;    /* the answer of this step */
    int ports;
    int result; /* of done */
    unsigned done;
} seen;

static void say(const char *what)
{
    (void)strncat(seen.said, what, sizeof(seen.said) - strlen(seen.said) - 1);
}

static int step_ports(struct sandbox *s, struct err *err)
{
    (void)s;
    say("ports ");
    return seen.ports < 0 ? err_set(err, seen.ports, "a port is taken") : seen.ports;
}

static int step_volumes(struct sandbox *s, struct err *err)
{
    (void)s;
    say("volumes ");
    return seen.volumes < 0 ? err_set(err, seen.volumes, "no volume") : seen.volumes;
}

static void ports_close(struct sandbox *s)
{
    (void)s;
    say("-ports ");
}

static void volumes_close(struct sandbox *s)
{
    (void)s;
    say("-volumes ");
}

static void ports_freed(struct sandbox *s)
{
    (void)s;
    say("freed ");
}

static void ports_main(struct sandbox *s, struct exec *main, bool adopted)
{
    (void)s;
    (void)main;
    say(adopted ? "adopted " : "started ");
}

static int volumes_check(struct supervisor *sup, struct spec *spec, const struct caller *creator,
                         struct err *err)
{
    (void)sup;
    (void)spec;
    return creator->limited ? err_set(err, -EPERM, "another user's") : 0;
}

static int ports_complete(struct spec *spec, struct err *err)
{
    (void)spec;
    (void)err;
    say("completed ");
    return 0;
}

static const char *const *volumes_env(const struct sandbox *s)
{
    static const char *const two[] = {"A=1", "B=2", NULL};

    (void)s;
    return two;
}

static const struct sandbox_part table[] = {
    {.name = "ports",
     .complete_spec = ports_complete,
     .steps = {[STAGE_PREPARE] = step_ports, [STAGE_MAIN] = step_ports},
     .told = {[PART_CLOSE] = ports_close, [PART_FREED] = ports_freed},
     .main_runs = ports_main},
    {.name = "nothing"},
    {.name = "volumes",
     .check_spec = volumes_check,
     .steps = {[STAGE_PREPARE] = step_volumes},
     .told = {[PART_CLOSE] = volumes_close},
     .env = volumes_env},
    {.name = NULL},
};

static void on_done(struct sandbox *s, int r, const struct err *err)
{
    (void)s;
    (void)err;
    seen.done++;
    seen.result = r;
}

struct world {
    uv_loop_t loop;
    struct supervisor sup;
    struct sandbox *s;
};

static void world_open(struct world *w, int ports, int volumes)
{
    *w = (struct world){.sup = {.parts = table}};
    w->sup.loop = &w->loop;
    w->sup.sandboxes_end = &w->sup.sandboxes;
    CHECK_INT(uv_loop_init(&w->loop), 0);
    w->s = sandbox_alloc(&w->sup, "00000000000000a1", spec_new());
    if (w->s == NULL)
        exit(1);
    memset(&seen, 0, sizeof(seen));
    seen.ports = ports;
    seen.volumes = volumes;
}

static void world_close(struct world *w)
{
    seen.said[0] = '\0';
    sandbox_forget(w->s);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&w->loop), 0);
    CHECK_STR(seen.said, "freed ");
}

TEST(a_stage_with_nothing_to_wait_for_is_over_at_once)
{
    struct world w;

    world_open(&w, 1, 1);
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_PREPARE, on_done, NULL), 1);
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_NETWORK, on_done, NULL), 1); /* no part has a step */
    CHECK_STR(seen.said, "ports volumes ");
    CHECK_INT(seen.done, 0);
    world_close(&w);
}

TEST(each_part_waits_for_the_one_before_it)
{
    struct world w;
    struct err err = ERR_NONE;

    world_open(&w, 0, 0);
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_PREPARE, on_done, NULL), 0);
    CHECK_STR(seen.said, "ports ");
    /* One stage at a time. */
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_MAIN, on_done, &err), -EBUSY);
    CHECK_STR(seen.said, "ports ");
    sandbox_part_done(w.s, 0, NULL);
    CHECK_STR(seen.said, "ports volumes ");
    CHECK_INT(seen.done, 0);
    sandbox_part_done(w.s, 0, NULL);
    CHECK_INT(seen.done, 1);
    CHECK_INT(seen.result, 0);
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_MAIN, on_done, NULL), 0);
    sandbox_part_done(w.s, 0, NULL);
    CHECK_INT(seen.done, 2);
    world_close(&w);
}

TEST(a_part_that_fails_ends_the_stage)
{
    struct world w;
    struct err err = ERR_NONE;

    world_open(&w, 1, -ENOSPC); /* at once */
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_PREPARE, on_done, &err), -ENOSPC);
    CHECK_STR(err.msg, "no volume");
    CHECK_INT(seen.done, 0);
    world_close(&w);
    world_open(&w, 0, -ENOSPC); /* after one that was waited for */
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_PREPARE, on_done, NULL), 0);
    sandbox_part_done(w.s, 0, NULL);
    CHECK_INT(seen.done, 1);
    CHECK_INT(seen.result, -ENOSPC);
    world_close(&w);
    world_open(&w, 0, 1); /* while it was waited for: the next one is not asked */
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_PREPARE, on_done, NULL), 0);
    sandbox_part_done(w.s, -EADDRINUSE, NULL);
    CHECK_STR(seen.said, "ports ");
    CHECK_INT(seen.result, -EADDRINUSE);
    world_close(&w);
}

TEST(a_failed_start_is_undone_backwards)
{
    struct world w;
    struct err err = ERR_NONE;

    world_open(&w, 1, -ENOSPC);
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_PREPARE, on_done, &err), -ENOSPC);
    seen.said[0] = '\0';
    sandbox_start_failed(w.s, err.code, &err);
    CHECK_STR(seen.said, "-volumes -ports ");
    CHECK_INT(w.s->state, SANDBOX_STOPPED);
    CHECK_STR(w.s->error, "no volume");
    world_close(&w);
}

TEST(a_sandbox_that_ends_asks_no_further_part)
{
    struct world w;

    world_open(&w, 0, 1);
    CHECK_INT(sandbox_parts_walk(w.s, STAGE_PREPARE, on_done, NULL), 0);
    CHECK(sandbox_set_state(w.s, REQ_REMOVE_FORCE));
    sandbox_part_done(w.s, 0, NULL);
    CHECK_STR(seen.said, "ports ");
    CHECK_INT(seen.done, 1);
    CHECK_INT(seen.result, -ECANCELED);
    world_close(&w);
}

TEST(parts_have_their_say_about_specs_and_processes)
{
    struct world w;
    struct caller creator = {.limited = true};
    struct err err = ERR_NONE;
    const char *env[3] = {NULL};

    world_open(&w, 1, 1);
    CHECK_INT(sandbox_parts_check_spec(&w.sup, w.s->spec, &creator, &err), -EPERM);
    creator.limited = false;
    CHECK_INT(sandbox_parts_check_spec(&w.sup, w.s->spec, &creator, &err), 0);
    CHECK_INT(sandbox_parts_complete_spec(&w.sup, w.s->spec, &err), 0);
    sandbox_parts_main_runs(w.s, NULL, false);
    sandbox_parts_main_runs(w.s, NULL, true);
    CHECK_STR(seen.said, "completed started adopted ");
    CHECK_INT(sandbox_parts_env(w.s, NULL), 2);
    CHECK_INT(sandbox_parts_env(w.s, env), 2);
    CHECK_STR(env[0], "A=1");
    CHECK_STR(env[1], "B=2");
    world_close(&w);
}

/* A daemon of users goes on, with the state that it had; one with a sanitizer aborts. */
TEST(an_event_that_cannot_happen_changes_nothing)
{
    struct world w;
    int status = 0;
    pid_t pid;

    world_open(&w, 1, 1);
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        bool changed = sandbox_set_state(w.s, EV_ENDED);

        _exit(changed || w.s->state != SANDBOX_CREATING);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    CHECK(WIFSIGNALED(status));
#else
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
    world_close(&w);
}

TAP_MAIN
