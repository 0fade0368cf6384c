/*
 * The supervisor's core with a real launcher, without the API in front: creation, exec, processes,
 * stop, adoption by a successor, removal. Needs root.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/err.h"
#include "base/file.h"
#include "daemon/supervisor.h"
#include "exec/process.h"
#include "image/embed.h"
#include "image/layer.h"
#include "launch/launcher.h"
#include "proto/rmtree.h"
#include "sandbox/exec.h"
#include "sandbox/paths.h"
#include "sandbox/policies.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox.h"
#include "tap.h"

static struct sandbox *named(struct supervisor *sup, const char *text)
{
    struct sandbox *s = NULL;

    return sandbox_find_for(sup, NULL, text, &s, NULL) == 0 ? s : NULL;
}

enum { DEADLINE_MS = 20000, YEAR = 366 * 24 * 3600 };

/* What somebody has set the wall clock to. Every other clock is the kernel's. */
static time_t wall_offset;

int clock_gettime(clockid_t id, struct timespec *t)
{
    long r = syscall(SYS_clock_gettime, id, t);

    if (r == 0 && id == CLOCK_REALTIME)
        t->tv_sec += wall_offset;
    return (int)r;
}

struct world {
    char dir[64];
    pid_t launcher;
    uv_loop_t loop;
    uv_timer_t deadline;
    struct supervisor *sup;
    bool ready, late;
};

static int launcher_child(const char *dir, int sock)
{
    static const char *const prefixes[] = {"/", NULL};
    const struct launcher_config config = {.state_dir = dir,
                                           .ids_dir = CORE_IDS_DIR,
                                           .bind_prefixes = prefixes,
                                           .init_image = embed_init().data,
                                           .init_size = embed_init().len};
    struct err err = ERR_NONE;
    struct launcher *l;

    if (launcher_open(&config, &l, &err) < 0 || launcher_recover(l, &err) < 0 ||
        launcher_serve(l, sock, &err) < 0) {
        (void)fprintf(stderr, "# launcher: %s\n", err.msg);
        return 1;
    }
    launcher_free(l);
    return 0;
}

static void on_deadline(uv_timer_t *h)
{
    struct world *w = h->data;

    w->late = true;
    uv_stop(&w->loop);
}

static void on_ready(void *data)
{
    struct world *w = data;

    w->ready = true;
    uv_stop(&w->loop);
}

static void on_gone(void *data)
{
    uv_stop(&((struct world *)data)->loop);
}

/* Runs the loop until somebody stops it; false when that took too long. */
static bool run(struct world *w)
{
    (void)uv_timer_start(&w->deadline, on_deadline, DEADLINE_MS, 0);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    (void)uv_timer_stop(&w->deadline);
    if (w->late)
        tap_fail("the loop ran for %d ms", DEADLINE_MS);
    return !w->late;
}

static void world_open(struct world *w)
{
    struct supervisor_config config = {.tree = NULL, .limits = supervisor_limits_default()};
    static char tree[128];
    struct err err = ERR_NONE;
    int pair[2], base, root, state;

    if (w->dir[0] == '\0') {
        (void)strcpy(w->dir, "/tmp/rind-supervisor-XXXXXX");
        CHECK(mkdtemp(w->dir) != NULL);
    }
    CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    state = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(image_default_layers(state, &base, &root, &err), 0);
    CHECK_STR(err.msg, "");
    w->launcher = fork();
    if (w->launcher == 0) {
        (void)close(pair[0]);
        _exit(launcher_child(w->dir, pair[1]));
    }
    (void)close(pair[1]);
    CHECK_INT(uv_loop_init(&w->loop), 0);
    (void)uv_timer_init(&w->loop, &w->deadline);
    w->deadline.data = w;
    w->ready = w->late = false;
    (void)mkdirat(state, "supervisor", 0700);
    (void)snprintf(tree, sizeof(tree), "%s/supervisor", w->dir);
    config.loop = &w->loop;
    config.launcher = pair[0];
    config.dir_fd = openat(state, "supervisor", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    config.shim_fd = memfd_program("shim", embed_shim().data, embed_shim().len);
    config.tree = tree;
    config.on_ready = on_ready;
    config.on_gone = on_gone;
    config.data = w;
    CHECK_INT(policies_load(state, NULL, &config.policies, &err), 0);
    CHECK_INT(supervisor_new(&config, &w->sup, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK(run(w) && w->ready);
    (void)close(state);
    (void)close(base);
    (void)close(root);
}

static void world_close(struct world *w)
{
    int status;

    supervisor_close(w->sup);
    uv_close((uv_handle_t *)&w->deadline, NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&w->loop), 0);
    supervisor_free(w->sup);
    w->sup = NULL;
    CHECK_INT(waitpid(w->launcher, &status, 0), w->launcher);
    CHECK_INT(status, 0);
}

static void world_end(struct world *w)
{
    CHECK_INT(rmtree_at(AT_FDCWD, w->dir, 0), 0);
}

/* ---- one callback ---- */

struct answer {
    struct world *w;
    bool came;
    int r;
    struct err err;
};

static void on_answer(void *data, int r, const struct err *err)
{
    struct answer *a = data;

    a->came = true;
    a->r = r;
    a->err = (struct err)ERR_NONE;
    if (r < 0 && err != NULL)
        a->err = *err;
    uv_stop(&a->w->loop);
}

static int await(struct answer *a)
{
    while (!a->came && run(a->w))
        ;
    a->came = false;
    return a->r;
}

static struct spec *spec_of(const char *name, char *const argv[])
{
    struct err err = ERR_NONE;
    struct spec *s = spec_new();

    CHECK_INT(spec_set_name(s, name, &err), 0);
    CHECK_INT(spec_set_command(s, argv, &err), 0);
    return s;
}

static const struct caller owner = {.uid = 0, .fd = -1};

static struct sandbox *make(struct answer *a, const char *name, char *const argv[], bool start)
{
    struct spec *spec = spec_of(name, argv);
    struct sandbox *s = NULL;
    struct err err = ERR_NONE;

    CHECK_INT(sandbox_create(a->w->sup, spec, &owner, start, on_answer, a, &s, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(await(a), 0);
    CHECK_STR(a->err.msg, "");
    return s;
}

static void drop(struct answer *a, struct sandbox *s)
{
    struct err err = ERR_NONE;

    CHECK_INT(sandbox_remove(s, true, on_answer, a, &err), 0);
    CHECK_INT(await(a), 0);
    CHECK_STR(a->err.msg, "");
}

/* ---- execs ---- */

struct watched {
    struct world *w;
    bool started, failed, exited;
    int code;
};

static void on_started(void *data, struct exec *e)
{
    struct watched *x = data;

    (void)e;
    x->started = true;
}

static void on_failed(void *data, struct exec *e, const struct err *err, int code)
{
    struct watched *x = data;

    (void)e;
    (void)err;
    x->failed = true;
    x->code = code;
    uv_stop(&x->w->loop);
}

static void on_exited(void *data, struct exec *e)
{
    struct watched *x = data;

    x->exited = true;
    x->code = exec_exit_code(e);
    uv_stop(&x->w->loop);
}

static const struct exec_events watch_events = {
    .started = on_started, .failed = on_failed, .exited = on_exited};

static int exec_code(struct world *w, struct sandbox *s, const char *script, char *out, size_t size)
{
    struct watched x = {.w = w};
    struct exec_options o = EXEC_OPTIONS_NONE;
    char sh[] = "/bin/sh", c[] = "-c";
    char *copy = strdup(script);
    char *argv[] = {sh, c, copy, NULL};
    struct err err = ERR_NONE;
    struct exec *e = NULL;
    int fds[3];
    ssize_t n;

    o.argv = argv;
    CHECK_INT(exec_start(s, &o, &watch_events, &x, &e, &err), 0);
    CHECK_STR(err.msg, "");
    while (!x.exited && !x.failed && run(w))
        ;
    CHECK(x.started);
    exec_take_sockets(e, fds);
    n = read(fds[1], out, size - 1);
    out[n > 0 ? n : 0] = '\0';
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    exec_unref(e);
    free(copy);
    return x.code;
}

static char sleep_arg[] = "sleep", long_arg[] = "1000";
static char *const sleep_argv[] = {sleep_arg, long_arg, NULL};

TEST(create_exec_remove)
{
    struct world w = {.dir = ""};
    struct answer a = {.w = &w};
    struct sandbox *s;
    char out[64];

    if (geteuid() != 0)
        SKIP("needs root");
    world_open(&w);
    s = make(&a, "one", sleep_argv, true);
    CHECK_STR(sandbox_state_name(sandbox_get_state(s)), "running");
    CHECK_INT(exec_code(&w, s, "echo hi; exit 7", out, sizeof(out)), 7);
    CHECK_STR(out, "hi\n");
    CHECK_INT(exec_code(&w, s, "kill -9 $$", out, sizeof(out)), 137);
    CHECK(named(w.sup, "one") == s);
    drop(&a, s);
    CHECK(named(w.sup, "one") == NULL);
    world_close(&w);
    world_end(&w);
}

/* What one exec of argv says on stdout; program_fd as in exec_options. */
static size_t exec_output(struct world *w, struct sandbox *s, char *const argv[], int program_fd,
                          char *out, size_t size)
{
    struct watched x = {.w = w};
    struct exec_options o = EXEC_OPTIONS_NONE;
    struct err err = ERR_NONE;
    struct exec *e = NULL;
    int fds[3];
    ssize_t n;

    o.argv = argv;
    o.program_fd = program_fd;
    CHECK_INT(exec_start(s, &o, &watch_events, &x, &e, &err), 0);
    while (!x.exited && !x.failed && run(w))
        ;
    CHECK_INT(x.code, 0);
    exec_take_sockets(e, fds);
    n = read(fds[1], out, size);
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    exec_unref(e);
    return n > 0 ? (size_t)n : 0;
}

/* The shim says the same whoever starts it, and from whichever file. */
TEST(the_shim_by_every_path)
{
    struct world w = {.dir = ""};
    struct answer a = {.w = &w};
    char shim[] = "/usr/local/bin/sandbox-shim", stat_arg[] = "stat", file[] = "/etc/passwd";
    char *argv[] = {shim, stat_arg, file, NULL};
    char by_path[256], by_fd[256], by_run[256], command[512];
    const char *rind = getenv("RIND_BIN");
    struct sandbox *s;
    size_t n;
    FILE *p;

    if (geteuid() != 0)
        SKIP("needs root");
    world_open(&w);
    s = make(&a, "shim", sleep_argv, true);
    n = exec_output(&w, s, argv, -1, by_path, sizeof(by_path));
    CHECK_INT(n, 10 + 45); /* one DATA frame */
    CHECK_INT(exec_output(&w, s, argv, supervisor_shim(w.sup), by_fd, sizeof(by_fd)), n);
    CHECK(memcmp(by_path, by_fd, n) == 0);
    (void)snprintf(command, sizeof(command),
                   "%s --state %s --runtime %s/run run -- %s stat /etc/passwd",
                   rind != NULL ? rind : "build/rind", w.dir, w.dir, shim);
    p = popen(command, "r");
    CHECK(p != NULL);
    if (p != NULL) {
        CHECK_INT(fread(by_run, 1, sizeof(by_run), p), n);
        CHECK_INT(pclose(p), 0);
        CHECK(memcmp(by_path, by_run, n) == 0);
    }
    drop(&a, s);
    world_close(&w);
    world_end(&w);
}

/* Killing an exec with its leaf must not reach the ones that come after it (Linux 6.18 kills what
 * is cloned into a killed leaf). */
TEST(a_killed_leaf_is_not_used_again)
{
    struct world w = {.dir = ""};
    struct answer a = {.w = &w};
    struct sandbox *s;
    char out[64];

    if (geteuid() != 0)
        SKIP("needs root");
    world_open(&w);
    s = make(&a, "leaf", sleep_argv, true);
    for (int i = 0; i < 3; i++) {
        struct watched x = {.w = &w};
        struct exec_options o = EXEC_OPTIONS_NONE;
        struct err err = ERR_NONE;
        struct exec *e = NULL;

        o.argv = sleep_argv;
        o.timeout_ms = 50;
        CHECK_INT(exec_start(s, &o, &watch_events, &x, &e, &err), 0);
        while (!x.exited && run(&w))
            ;
        CHECK_INT(x.code, 137);
        CHECK(exec_timed_out(e));
        exec_unref(e);
        CHECK_INT(exec_code(&w, s, "echo lives", out, sizeof(out)), 0);
        CHECK_STR(out, "lives\n");
    }
    drop(&a, s);
    world_close(&w);
    world_end(&w);
}

TEST(stop_start_keeps_files)
{
    struct world w = {.dir = ""};
    struct answer a = {.w = &w};
    struct err err = ERR_NONE;
    struct sandbox *s;
    char out[64];

    if (geteuid() != 0)
        SKIP("needs root");
    world_open(&w);
    s = make(&a, "two", sleep_argv, true);
    CHECK_INT(exec_code(&w, s, "echo kept > /file", out, sizeof(out)), 0);
    CHECK_INT(sandbox_stop(s, 0, on_answer, &a, &err), 0);
    CHECK_INT(await(&a), 0);
    CHECK_STR(sandbox_state_name(sandbox_get_state(s)), "stopped");
    CHECK_INT(sandbox_start(s, on_answer, &a, &err), 0);
    CHECK_INT(await(&a), 0);
    CHECK_STR(a.err.msg, "");
    CHECK_STR(sandbox_state_name(sandbox_get_state(s)), "running");
    CHECK_INT(exec_code(&w, s, "cat /file", out, sizeof(out)), 0);
    CHECK_STR(out, "kept\n");
    CHECK_INT(sandbox_pause(s, on_answer, &a, &err), 0);
    CHECK_INT(await(&a), 0);
    CHECK_STR(sandbox_state_name(sandbox_get_state(s)), "paused");
    CHECK_INT(sandbox_start(s, on_answer, &a, &err), -EBUSY);
    CHECK_STR(err.msg, "sandbox two is paused");
    CHECK_INT(sandbox_resume(s, on_answer, &a, &err), 0);
    CHECK_INT(await(&a), 0);
    drop(&a, s);
    world_close(&w);
    world_end(&w);
}

/* What cannot be executed leaves nothing: not its id, not its slot in init, of which there are 257.
 */
TEST(failed_processes_leave_nothing)
{
    char nope[] = "/nope", job[] = "/bin/true";
    char *bad[] = {nope, NULL}, *good[] = {job, NULL};
    struct world w = {.dir = ""};
    struct answer a = {.w = &w};
    struct exec_options o = EXEC_OPTIONS_NONE;
    struct err err = ERR_NONE;
    struct process *p = NULL;
    struct sandbox *s;

    if (geteuid() != 0)
        SKIP("needs root");
    world_open(&w);
    s = make(&a, "four", sleep_argv, true);
    o.argv = bad;
    for (int i = 0; i < 300; i++) {
        CHECK_INT(process_start(s, "job", &o, on_answer, &a, &p, &err), 0);
        CHECK_INT(await(&a), -ENOENT);
    }
    CHECK(process_first(s) == NULL);
    o.argv = good;
    CHECK_INT(process_start(s, "job", &o, on_answer, &a, &p, &err), 0);
    CHECK_INT(await(&a), 0);
    CHECK_STR(a.err.msg, "");
    drop(&a, s);
    world_close(&w);
    world_end(&w);
}

/* The sandbox ends before init has said whether it could be started: whoever waits is told so. */
TEST(a_start_that_is_overtaken)
{
    char job[] = "/bin/true";
    char *argv[] = {job, NULL};
    struct world w = {.dir = ""};
    struct answer a = {.w = &w}, removed = {.w = &w};
    struct exec_options o = EXEC_OPTIONS_NONE;
    struct watched x = {.w = &w};
    struct err err = ERR_NONE;
    struct process *p = NULL;
    struct exec *e = NULL;
    struct sandbox *s;

    if (geteuid() != 0)
        SKIP("needs root");
    world_open(&w);
    s = make(&a, "five", sleep_argv, true);
    o.argv = argv;
    CHECK_INT(process_start(s, "job", &o, on_answer, &a, &p, &err), 0);
    CHECK_INT(exec_start(s, &o, &watch_events, &x, &e, &err), 0);
    CHECK_INT(sandbox_remove(s, true, on_answer, &removed, &err), 0);
    CHECK_INT(await(&a), -ECANCELED);
    CHECK_STR(a.err.msg, "'/bin/true': the sandbox ended before it was started");
    CHECK(x.failed && !x.started && !x.exited);
    CHECK_INT(x.code, 125);
    exec_unref(e);
    CHECK_INT(await(&removed), 0);
    world_close(&w);
    world_end(&w);
}

/* Signals reach the group, and a killed process's last words are in its log when its end is told.
 */
TEST(last_words)
{
    char sh[] = "/bin/sh", c[] = "-c",
         script[] = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo 0123456789; done; kill -9 $$";
    char *argv[] = {sh, c, script, NULL};
    struct world w = {.dir = ""};
    struct answer a = {.w = &w};
    struct exec_options o = EXEC_OPTIONS_NONE;
    struct process_info info = {.state = PROCESS_RUNNING};
    struct process_log log;
    struct err err = ERR_NONE;
    struct process *p = NULL;
    struct sandbox *s;

    if (geteuid() != 0)
        SKIP("needs root");
    world_open(&w);
    s = make(&a, "six", sleep_argv, true);
    o.argv = argv;
    for (int i = 0; i < 10; i++) {
        CHECK_INT(process_start(s, NULL, &o, on_answer, &a, &p, &err), 0);
        CHECK_INT(await(&a), 0);
        do {
            (void)uv_run(&w.loop, UV_RUN_ONCE);
            process_get_info(p, &info);
        } while (info.state == PROCESS_RUNNING);
        process_log_state(p, PROCESS_STDOUT, &log);
        CHECK_INT(log.end, 22000);
        CHECK_INT(info.exit_code, 137);
    }
    drop(&a, s);
    world_close(&w);
    world_end(&w);
}

TEST(a_successor_takes_up)
{
    struct world w = {.dir = ""};
    struct answer a = {.w = &w};
    struct exec_options o = EXEC_OPTIONS_NONE;
    char sh[] = "/bin/sh", c[] = "-c", script[] = "echo begin; sleep 1; echo end; exit 5";
    char *argv[] = {sh, c, script, NULL};
    struct process_info info;
    struct err err = ERR_NONE;
    struct process *p = NULL;
    struct sandbox *s;
    uint64_t offset = 0, lost = 0;
    char out[64];
    ssize_t n;

    if (geteuid() != 0)
        SKIP("needs root");
    world_open(&w);
    s = make(&a, "three", sleep_argv, true);
    o.argv = argv;
    CHECK_INT(process_start(s, "job", &o, on_answer, &a, &p, &err), 0);
    CHECK_STR(err.msg, "");
    CHECK_INT(await(&a), 0);
    world_close(&w);

    (void)usleep(1500000); /* the job ends while nobody listens */
    world_open(&w);
    s = named(w.sup, "three");
    CHECK(s != NULL);
    if (s == NULL)
        return;
    CHECK_STR(sandbox_state_name(sandbox_get_state(s)), "running");
    p = process_find(s, "job");
    CHECK(p != NULL);
    if (p != NULL) {
        process_get_info(p, &info);
        CHECK_STR(process_state_name(info.state), "exited");
        CHECK_INT(info.exit_code, 5);
        n = process_read_log(p, PROCESS_STDOUT, &offset, out, sizeof(out) - 1, &lost, &err);
        out[n > 0 ? n : 0] = '\0';
        CHECK_STR(out, "begin\nend\n");
        CHECK_INT(lost, 0);
    }
    CHECK_INT(exec_code(&w, s, "echo again", out, sizeof(out)), 0);
    CHECK_STR(out, "again\n");
    drop(&a, s);
    world_close(&w);
    world_end(&w);
}

static uint64_t start_kept(struct world *w, struct sandbox *s, const char *script, int64_t timeout)
{
    struct watched x = {.w = w};
    struct exec_options o = EXEC_OPTIONS_NONE;
    char sh[] = "/bin/sh", c[] = "-c";
    char *copy = strdup(script);
    char *argv[] = {sh, c, copy, NULL};
    struct err err = ERR_NONE;
    struct exec *e = NULL;
    uint64_t id;

    o.argv = argv;
    o.keep = true;
    o.timeout_ms = timeout;
    CHECK_INT(exec_start(s, &o, &watch_events, &x, &e, &err), 0);
    CHECK_STR(err.msg, "");
    for (int i = 0; i < 1000 && !x.started; i++)
        (void)uv_run(&w->loop, UV_RUN_ONCE);
    CHECK(x.started);
    id = exec_id(e);
    exec_silence(e);
    exec_unref(e);
    free(copy);
    return id;
}

static struct sandbox *again(struct world *w, const char *name)
{
    struct sandbox *s;

    world_close(w);
    world_open(w);
    s = named(w->sup, name);
    CHECK(s != NULL);
    if (s != NULL)
        CHECK_STR(sandbox_state_name(sandbox_get_state(s)), "running");
    return s;
}

/* Whoever sets the clock, whatever to: deadlines hold, ids go on, and what is written down can be
 * read. */
TEST(a_clock_that_is_set)
{
    static const time_t offsets[] = {-YEAR, -100 * (time_t)YEAR, 10 * (time_t)YEAR, 0};
    struct world w = {.dir = ""};
    struct answer a = {.w = &w};
    struct sandbox_info info;
    struct err err = ERR_NONE;
    struct sandbox *s = NULL;
    struct spec *spec;
    uint64_t last = 0;
    char out[64];

    if (geteuid() != 0)
        SKIP("needs root");
    world_open(&w);
    spec = spec_of("clock", sleep_argv);
    CHECK_INT(spec_set_timeout(spec, "600", &err), 0);
    CHECK_INT(sandbox_create(w.sup, spec, &owner, true, on_answer, &a, &s, &err), 0);
    CHECK_INT(await(&a), 0);
    for (size_t i = 0; s != NULL && i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        uint64_t id = start_kept(&w, s, "sleep 100", 60000);
        const struct exec *e;

        CHECK(id > last);
        last = id;
        wall_offset = offsets[i];
        s = again(&w, "clock");
        if (s == NULL)
            break;
        e = exec_find(s, id);
        CHECK(e != NULL && exec_get_state(e) == EXEC_RUNNING);
        sandbox_get_info(s, &info);
        CHECK(info.created_ms >= 0 && info.started_ms >= 0);
        CHECK_INT(exec_code(&w, s, "sleep 0.1; exit 9", out, sizeof(out)), 9);
        CHECK_INT(sandbox_pause(s, on_answer, &a, &err), 0); /* written down, with this clock */
        CHECK_INT(await(&a), 0);
        CHECK_INT(sandbox_resume(s, on_answer, &a, &err), 0);
        CHECK_INT(await(&a), 0);
    }
    wall_offset = 0;
    if (s != NULL)
        drop(&a, s);
    world_close(&w);
    world_end(&w);
}

TAP_MAIN
