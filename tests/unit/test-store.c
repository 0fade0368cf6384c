/* The store: what is saved is loaded, what is garbled is refused and harms nobody else, a removal
 * is seen through after a kill, and the loop ends clean. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/file.h"
#include "json/parse.h"
#include "sandbox/store.h"
#include "spec/spec.h"
#include "tap.h"

/* A directory of its own and a loop. */
struct place {
    uv_loop_t loop;
    char path[64];
    int fd;
    struct store *store;
};

static struct place open_place(void)
{
    struct place p = {.path = "/tmp/rind-store-XXXXXX"};

    if (mkdtemp(p.path) == NULL)
        abort();
    p.fd = open(p.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p;
}

static void open_store(struct place *p)
{
    struct err err = ERR_NONE;

    CHECK_INT(uv_loop_init(&p->loop), 0);
    CHECK_INT(store_open(p->fd, &p->loop, &p->store, &err), 0);
    CHECK_STR(err.msg, "");
}

static void close_store(struct place *p)
{
    store_close(p->store);
    (void)uv_run(&p->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&p->loop), 0);
}

static void close_place(struct place *p)
{
    char command[128];

    (void)close(p->fd);
    (void)snprintf(command, sizeof(command), "rm -rf %s", p->path);
    CHECK_INT(system(command), 0); /* NOLINT(cert-env33-c): a path of ours */
}

static bool there(const struct place *p, const char *path)
{
    struct stat st;

    return fstatat(p->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void put(const struct place *p, const char *path, const char *text)
{
    auto_close int fd = openat(p->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK_INT(write_all(fd, text, strlen(text)), 0);
}

static struct spec *make_spec(const char *name)
{
    struct spec *s = spec_new();
    char sh[] = "/bin/sh";
    char *argv[] = {sh, NULL};

    CHECK_INT(spec_set_name(s, name, NULL), 0);
    CHECK_INT(spec_set_command(s, argv, NULL), 0);
    return s;
}

static const struct stored_state some_state = {
    .state = SANDBOX_RUNNING,
    .created_ms = 1700000000000,
    .started_ms = 1700000000001,
    .finished_ms = 0,
    .exit_code = 137,
    .oom_killed = true,
    .restarts = 4,
    .wanted = true,
    .held = true,
    .creator = 1000,
};

static void save_one(struct place *p, const char *id, const char *name)
{
    struct spec *spec = make_spec(name);
    struct err err = ERR_NONE;

    CHECK_INT(store_save_spec(p->store, id, spec, &err), 0);
    CHECK_INT(store_save_state(p->store, id, &some_state, &err), 0);
    CHECK_STR(err.msg, "");
    spec_free(spec);
}

TEST(what_is_saved_is_loaded)
{
    auto_ptr(spec_free) struct spec *spec = NULL;
    struct place p = open_place();
    struct err err = ERR_NONE;
    struct stored_state st;

    open_store(&p);
    save_one(&p, "abc", "web");
    close_store(&p);

    open_store(&p);
    CHECK_INT(store_load(p.store, "abc", &spec, &st, &err), 0);
    CHECK_STR(spec->name, "web");
    CHECK_STR(spec->argv[0], "/bin/sh");
    CHECK_INT(st.state, SANDBOX_RUNNING);
    CHECK_INT(st.created_ms, some_state.created_ms);
    CHECK_INT(st.started_ms, some_state.started_ms);
    CHECK_INT(st.finished_ms, 0);
    CHECK_INT(st.exit_code, 137);
    CHECK_INT(st.restarts, 4);
    CHECK(st.oom_killed && st.wanted && st.held);
    CHECK_INT(st.creator, 1000);
    CHECK(!there(&p, "sandboxes/abc/.state.json.tmp") &&
          !there(&p, "sandboxes/abc/.spec.json.tmp"));
    close_store(&p);
    close_place(&p);
}

static struct stat file_stat(const struct place *p, const char *path)
{
    struct stat st = {.st_ino = 0};

    CHECK_INT(fstatat(p->fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

/* Two files take turns; what somebody else has left between them is not written into. */
TEST(a_state_is_written_over_the_one_before_the_last)
{
    static const char state[] = "sandboxes/a/state.json", spare[] = "sandboxes/a/.state.json.tmp";
    auto_ptr(spec_free) struct spec *spec = NULL;
    struct place p = open_place();
    struct err err = ERR_NONE;
    struct stored_state st = some_state, got;
    struct stat first, second;

    open_store(&p);
    save_one(&p, "a", "web");
    first = file_stat(&p, state);
    st.exit_code = 1;
    CHECK_INT(store_save_state(p.store, "a", &st, &err), 0);
    second = file_stat(&p, state);
    CHECK(second.st_ino != first.st_ino && file_stat(&p, spare).st_ino == first.st_ino);
    st.exit_code = 2;
    CHECK_INT(store_save_state(p.store, "a", &st, &err), 0);
    CHECK(file_stat(&p, state).st_ino == first.st_ino);
    CHECK(file_stat(&p, spare).st_ino == second.st_ino);
    CHECK_INT(first.st_size, 512);
    CHECK_INT(file_stat(&p, state).st_size, 512);
    put(&p, spare, "half of one");
    st.exit_code = 3;
    CHECK_INT(store_save_state(p.store, "a", &st, &err), 0);
    CHECK_INT(file_stat(&p, state).st_size, 512);
    CHECK_INT(store_load(p.store, "a", &spec, &got, &err), 0);
    CHECK_INT(got.exit_code, 3);
    close_store(&p);
    close_place(&p);
}

TEST(every_state_that_can_be_stored_is_loaded)
{
    struct place p = open_place();

    open_store(&p);
    save_one(&p, "abc", "web");
    for (int n = SANDBOX_INVALID; n <= SANDBOX_STATE_MAX; n++) {
        bool storable = n != SANDBOX_INVALID && n < SANDBOX_BROKEN;
        struct stored_state st = {.state = (enum sandbox_state)n, .exit_code = -1}, got;
        auto_ptr(spec_free) struct spec *spec = NULL;

        CHECK_INT(store_save_state(p.store, "abc", &st, NULL), storable ? 0 : -EINVAL);
        if (storable) {
            CHECK_INT(store_load(p.store, "abc", &spec, &got, NULL), 0);
            CHECK_INT(got.state, n);
            CHECK_INT(got.exit_code, -1);
        }
    }
    close_store(&p);
    close_place(&p);
}

TEST(what_is_saved_can_always_be_loaded)
{
    auto_ptr(spec_free) struct spec *spec = NULL;
    struct stored_state wild = {.state = SANDBOX_STOPPED,
                                .created_ms = -5,
                                .started_ms = INT64_MIN,
                                .finished_ms = INT64_MAX,
                                .exit_code = 100000,
                                .restarts = 0xffffffffU},
                        got;
    struct place p = open_place();

    open_store(&p);
    save_one(&p, "abc", "web");
    CHECK_INT(store_save_state(p.store, "abc", &wild, NULL), 0);
    CHECK_INT(store_load(p.store, "abc", &spec, &got, NULL), 0);
    CHECK_INT(got.created_ms, 0);
    CHECK_INT(got.exit_code, 255);
    CHECK_INT(got.restarts, STORE_RESTARTS_MAX);
    close_store(&p);
    close_place(&p);
}

TEST(garbled_files_are_refused_with_the_reason)
{
    static const struct {
        const char *file, *text;
        int code;
        const char *msg;
    } rows[] = {
        {"sandboxes/a/state.json", " ", -EINVAL,
         "sandbox a: state.json: line 1, column 1: '[' or '{' expected near end of file"},
        {"sandboxes/a/state.json",
         "{\"state\":\"stopped\",\"createdMs\":0,\"startedMs\":0,\"finishedMs\":0,\"exitCode\":0,"
         "\"restarts\":0,\"oomKilled\":false,\"wanted\":false,\"of a later version\":1}",
         -EINVAL, "sandbox a: state.json: of a later version: unknown key"},
        {"sandboxes/a/state.json", "{\"state\":\"running\"}", -EINVAL,
         "sandbox a: state.json: createdMs: missing"},
        {"sandboxes/a/state.json",
         "{\"state\":\"flying\",\"createdMs\":0,\"startedMs\":0,\"finishedMs\":0,\"exitCode\":0,"
         "\"restarts\":0,\"oomKilled\":false,\"wanted\":false}",
         -EINVAL,
         "sandbox a: state.json: state: \"flying\" is not one of creating, created, starting, "
         "running, paused, stopping, stopped, removing"},
        {"sandboxes/a/spec.json", "{\"name\":\"web\"", -EINVAL,
         "sandbox a: spec.json: line 1, column 13: '}' expected near end of file"},
        {"sandboxes/a/spec.json", "{\"nmae\":\"web\"}", -EINVAL,
         "sandbox a: spec.json: nmae: unknown key"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_ptr(spec_free) struct spec *spec = NULL, *other = NULL;
        struct place p = open_place();
        struct err err = ERR_NONE;
        struct stored_state st;

        open_store(&p);
        save_one(&p, "a", "web");
        save_one(&p, "b", "db");
        put(&p, rows[i].file, rows[i].text);
        CHECK_INT(store_load(p.store, "a", &spec, &st, &err), rows[i].code);
        CHECK_STR(err.msg, rows[i].msg);
        CHECK_INT(store_load(p.store, "b", &other, &st, NULL), 0);
        CHECK_INT(store_remove(p.store, "a", NULL), 0);
        close_store(&p);
        close_place(&p);
    }
}

/* One that was saved twice was no more being made. The first save's own temporary file says
 * nothing. */
TEST(a_state_that_is_lost)
{
    struct spec *spec = NULL;
    struct place p = open_place();
    struct err err = ERR_NONE;
    struct stored_state st = some_state;

    open_store(&p);
    save_one(&p, "a", "web");
    CHECK_INT(store_save_state(p.store, "a", &st, NULL), 0);
    CHECK_INT(unlinkat(p.fd, "sandboxes/a/state.json", 0), 0);
    CHECK_INT(store_load(p.store, "a", &spec, &st, &err), -ENODATA);
    CHECK_STR(err.msg, "sandbox a: state.json: is lost");
    CHECK(spec == NULL);
    save_one(&p, "b", "new");
    CHECK_INT(renameat(p.fd, "sandboxes/b/state.json", p.fd, "sandboxes/b/.state.json.new"), 0);
    CHECK_INT(store_load(p.store, "b", &spec, &st, &err), 0);
    CHECK_INT(st.state, SANDBOX_CREATING);
    spec_free(spec);
    close_store(&p);
    close_place(&p);
}

TEST(something_else_in_a_files_place)
{
    struct spec *spec = NULL;
    struct place p = open_place();
    struct err err = ERR_NONE;
    struct stored_state st;

    open_store(&p);
    save_one(&p, "a", "web");
    CHECK_INT(unlinkat(p.fd, "sandboxes/a/state.json", 0), 0);
    CHECK_INT(mkfifoat(p.fd, "sandboxes/a/state.json", 0600), 0);
    CHECK_INT(store_load(p.store, "a", &spec, &st, &err), -EINVAL);
    CHECK_STR(err.msg, "sandbox a: state.json: state.json: not a regular file");
    CHECK_INT(unlinkat(p.fd, "sandboxes/a/state.json", 0), 0);
    CHECK_INT(symlinkat("/etc/passwd", p.fd, "sandboxes/a/state.json"), 0);
    CHECK_INT(store_load(p.store, "a", &spec, &st, &err), -ELOOP);
    CHECK_INT(unlinkat(p.fd, "sandboxes/a/state.json", 0), 0);
    CHECK_INT(store_load(p.store, "a", &spec, &st, &err), 0); /* killed while it was made */
    CHECK_INT(st.state, SANDBOX_CREATING);
    CHECK_INT(st.exit_code, -1);
    spec_free(spec);
    CHECK_INT(unlinkat(p.fd, "sandboxes/a/spec.json", 0), 0);
    CHECK_INT(store_load(p.store, "a", &spec, &st, &err), 0); /* when it had hardly begun */
    CHECK_INT(st.state, SANDBOX_CREATING);
    CHECK(spec == NULL);
    CHECK_INT(store_save_state(p.store, "a", &some_state, NULL), 0);
    CHECK_INT(store_load(p.store, "a", &spec, &st, &err), -ENOENT);
    close_store(&p);
    close_place(&p);
}

/* A rename that came to the disk before the data: nothing of its files is lost for that. */
TEST(blank_state_after_a_power_failure)
{
    static const struct {
        const char *text;
        size_t len;
    } rows[] = {{"", 0}, {"\0\0\0\0\0\0\0", 7}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_ptr(spec_free) struct spec *spec = NULL;
        struct place p = open_place();
        struct stored_state st;
        int fd;

        open_store(&p);
        save_one(&p, "a", "web");
        fd = openat(p.fd, "sandboxes/a/state.json", O_WRONLY | O_TRUNC | O_CLOEXEC);
        CHECK_INT(write(fd, rows[i].text, rows[i].len), rows[i].len);
        (void)close(fd);
        CHECK_INT(store_load(p.store, "a", &spec, &st, NULL), 0);
        CHECK_INT(st.state, SANDBOX_STOPPED);
        CHECK_INT(st.exit_code, -1);
        CHECK(!st.wanted && !st.held);
        CHECK_STR(spec != NULL ? spec->name : "", "web");
        close_store(&p);
        close_place(&p);
    }
}

TEST(names_cannot_lead_out)
{
    static const char *const ids[] = {"",   ".",   "..",  "a/b",  "../a", "A",
                                      "-a", "a.b", "a\n", "/etc", NULL};
    static const char *const names[] = {"", ".", "..", "a/b", ".a", "a b", "a\n", NULL};
    struct spec *spec = make_spec("x");
    struct place p = open_place();
    json_t *record = json_object();

    open_store(&p);
    save_one(&p, "a", "web");
    for (const char *const *id = ids; *id != NULL; id++) {
        CHECK_INT(store_save_spec(p.store, *id, spec, NULL), -EINVAL);
        CHECK_INT(store_save_state(p.store, *id, &some_state, NULL), -EINVAL);
        CHECK_INT(store_remove(p.store, *id, NULL), -EINVAL);
        CHECK_INT(store_logs_fd(p.store, *id, NULL), -EINVAL);
    }
    for (const char *const *name = names; *name != NULL; name++) {
        CHECK_INT(store_save_process(p.store, "a", *name, record, NULL), -EINVAL);
        CHECK_INT(store_remove_process(p.store, "a", *name, NULL), -EINVAL);
    }
    json_decref(record);
    spec_free(spec);
    close_store(&p);
    close_place(&p);
}

/* Names that were seen, each with a space behind it. */
struct seen {
    char text[4096];
    unsigned bad;
};

static void see(struct seen *seen, const char *name)
{
    size_t len = strlen(seen->text);

    (void)snprintf(seen->text + len, sizeof(seen->text) - len, "%s ", name);
}

static void count_id(void *data, const char *id)
{
    see(data, id);
}

TEST(the_list_holds_sandboxes_only)
{
    struct place p = open_place();
    struct seen seen = {.bad = 0};

    open_store(&p);
    save_one(&p, "a1", "web");
    CHECK_INT(mkdirat(p.fd, "sandboxes/.hidden", 0700), 0);
    CHECK_INT(mkdirat(p.fd, "sandboxes/b2", 0700), 0); /* garbled is told, too */
    CHECK_INT(store_each(p.store, count_id, &seen, NULL), 0);
    CHECK_INT(strlen(seen.text), strlen("a1 b2 "));
    CHECK(strstr(seen.text, "a1 ") != NULL && strstr(seen.text, "b2 ") != NULL);
    close_store(&p);
    close_place(&p);
}

TEST(removed_is_gone_at_once_and_deleted_after)
{
    auto_ptr(spec_free) struct spec *spec = NULL;
    struct place p = open_place();
    struct err err = ERR_NONE;
    struct stored_state st;
    int logs;

    open_store(&p);
    save_one(&p, "a", "web");
    logs = store_logs_fd(p.store, "a", &err);
    CHECK(logs >= 0 && (fcntl(logs, F_GETFD) & FD_CLOEXEC) != 0);
    (void)close(logs);
    put(&p, "sandboxes/a/logs/main.out.0", "text");
    CHECK_INT(store_remove(p.store, "a", &err), 0);
    CHECK_INT(store_load(p.store, "a", &spec, &st, NULL), -ENOENT);
    CHECK_INT(store_remove(p.store, "a", &err), -ENOENT);
    save_one(&p, "a", "again"); /* the id is free */
    CHECK_INT(store_remove(p.store, "a", &err), 0);
    close_store(&p);
    CHECK(there(&p, "gone"));
    CHECK_INT(unlinkat(p.fd, "gone", AT_REMOVEDIR), 0); /* empty */
    close_place(&p);
}

TEST(a_killed_removal_is_seen_through_by_the_next)
{
    struct place p = open_place();

    CHECK_INT(mkdirat(p.fd, "gone", 0700), 0);
    CHECK_INT(mkdirat(p.fd, "gone/a.0", 0700), 0);
    CHECK_INT(mkdirat(p.fd, "gone/a.0/logs", 0700), 0);
    put(&p, "gone/a.0/logs/main.out.0", "text");
    open_store(&p);
    save_one(&p, "a", "web");
    CHECK_INT(store_remove(p.store, "a", NULL), 0); /* its first name may still be taken */
    close_store(&p);
    CHECK_INT(unlinkat(p.fd, "gone", AT_REMOVEDIR), 0);
    close_place(&p);
}

TEST(many_saves_are_bounded_and_all_there)
{
    struct place p = open_place();
    struct seen seen = {.bad = 0};

    open_store(&p);
    for (int i = 0; i < 40; i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "s%d", i);
        save_one(&p, id, "web");
        for (int n = 0; n < 50; n++)
            CHECK_INT(store_save_state(p.store, id, &some_state, NULL), 0);
    }
    CHECK_INT(store_each(p.store, count_id, &seen, NULL), 0);
    CHECK(strstr(seen.text, "s39 ") != NULL);
    close_store(&p);
    close_place(&p);
}

TEST(a_failed_write_leaves_the_old_content)
{
    auto_ptr(spec_free) struct spec *spec = NULL;
    struct place p = open_place();
    struct err err = ERR_NONE;
    struct stored_state st = some_state, got;

    open_store(&p);
    save_one(&p, "a", "web");
    /* A directory that cannot be replaced by a file stands for every failure of the last step. */
    CHECK_INT(mkdirat(p.fd, "sandboxes/a/.state.json.tmp", 0700), 0);
    st.exit_code = 1;
    CHECK_INT(store_save_state(p.store, "a", &st, &err), -EEXIST);
    CHECK_STR(err.msg, "sandbox a: write state.json: File exists");
    CHECK_INT(store_load(p.store, "a", &spec, &got, NULL), 0);
    CHECK_INT(got.exit_code, 137);
    close_store(&p);
    close_place(&p);
}

/* ---- process records ---- */

static void see_process(void *data, const char *name, json_t *record)
{
    struct seen *seen = data;

    see(seen, name);
    if (record == NULL)
        seen->bad++;
    else
        CHECK_STR(json_string_value(json_object_get(record, "k")), name);
}

TEST(process_records)
{
    struct seen seen = {.bad = 0};
    struct place p = open_place();
    static const char *const names[] = {"web", "a.b-C_1", "x", NULL};

    open_store(&p);
    save_one(&p, "a", "web");
    CHECK_INT(store_each_process(p.store, "a", see_process, &seen, NULL), 0);
    CHECK_STR(seen.text, "");
    for (const char *const *name = names; *name != NULL; name++) {
        json_t *record = json_pack("{s:s}", "k", *name);

        CHECK_INT(store_save_process(p.store, "a", *name, record, NULL), 0);
        json_decref(record);
    }
    CHECK_INT(store_each_process(p.store, "a", see_process, &seen, NULL), 0);
    CHECK_INT(strlen(seen.text), strlen("web a.b-C_1 x "));
    CHECK_INT(seen.bad, 0);

    put(&p, "sandboxes/a/processes/x.json", "{\"k\":");
    put(&p, "sandboxes/a/processes/.web.json.tmp", "half");
    seen = (struct seen){.bad = 0};
    CHECK_INT(store_each_process(p.store, "a", see_process, &seen, NULL), 0);
    CHECK_INT(strlen(seen.text), strlen("web a.b-C_1 x "));
    CHECK_INT(seen.bad, 1);

    CHECK_INT(store_remove_process(p.store, "a", "x", NULL), 0);
    CHECK_INT(store_remove_process(p.store, "a", "x", NULL), -ENOENT);
    CHECK_INT(store_save_process(p.store, "nosuch", "x", json_null(), NULL), -ENOENT);
    close_store(&p);
    close_place(&p);
}

TAP_MAIN
