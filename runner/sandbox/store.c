#include "sandbox/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/dir.h"
#include "base/err.h"
#include "base/file.h"
#include "base/strtab.h"
#include "json/decode.h"
#include "json/parse.h"
#include "launch/request.h"
#include "sandbox/store-internal.h"
#include "spec/json.h"
#include "spec/spec.h"
#include "spec/strings.h"

enum {
    GONE_TRIES_MAX = 1000,
    STATE_SIZE = 512, /* size of every state.json: one sector, which a disk writes as a whole */
};

struct store {
    struct store_disk disk;
    unsigned gone_next; /* number of the next directory in gone/ */
};

/* ---- opening ---- */

/* Opens a directory below `at`; creates it if it is missing and `make` is set. */
static int open_dir(int at, const char *name, bool make, int *ret)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
            return -errno;
        fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0)
        return -errno;
    *ret = fd;
    return 0;
}

static void store_free(void *data)
{
    struct store *s = data;

    (void)close(s->disk.sandboxes_fd);
    (void)close(s->disk.gone_fd);
    (void)close(s->disk.networks_fd);
    free(s);
}

int store_open(int dir_fd, uv_loop_t *loop, struct store **ret, struct err *err)
{
    auto_close int sandboxes = FD_NONE, gone = FD_NONE, networks = FD_NONE;
    struct store *s;
    int r;

    r = open_dir(dir_fd, "sandboxes", true, &sandboxes);
    if (r == 0)
        r = open_dir(dir_fd, "gone", true, &gone);
    if (r == 0)
        r = open_dir(dir_fd, "networks", true, &networks);
    if (r < 0)
        return err_errno(err, r, "open the supervisor's directory");
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return err_errno(err, -ENOMEM, "store");
    disk_open(&s->disk, loop);
    s->disk.sandboxes_fd = take_fd(&sandboxes);
    s->disk.gone_fd = take_fd(&gone);
    s->disk.networks_fd = take_fd(&networks);
    disk_purge(&s->disk); /* left by a supervisor killed between the two steps of a removal */
    *ret = s;
    return 0;
}

void store_close(struct store *s)
{
    if (s != NULL)
        disk_close(&s->disk, store_free, s);
}

/* ---- names ---- */

static int check_id(const char *id, struct err *err)
{
    if (!launch_id_ok(id))
        return err_set(err, -EINVAL, "sandbox \"%.64s\": no id", id);
    return 0;
}

static int check_name(const char *name, struct err *err)
{
    static const char accepted[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                   "0123456789_.-";
    size_t len = strlen(name);

    if (len == 0 || len > STORE_NAME_MAX || name[0] == '.' || strspn(name, accepted) != len)
        return err_set(err, -EINVAL,
                       "process \"%.64s\": must be 1 to %d letters, digits, _ . - and not begin "
                       "with a dot",
                       name, STORE_NAME_MAX);
    return 0;
}

static int open_sandbox(struct store *s, const char *id, bool make, int *ret, struct err *err)
{
    int r = check_id(id, err);

    if (r < 0)
        return r;
    r = open_dir(s->disk.sandboxes_fd, id, make, ret);
    return r < 0 ? err_errno(err, r, "files of sandbox %s", id) : 0;
}

/* ---- files ---- */

/*
 * Renames tmp to name. When a rename replaces a file, ext4 starts writing the new file's data and
 * may wait for the disk's queue (auto_da_alloc): 0.5 to 3 ms. RENAME_EXCHANGE does not; disk_mark
 * syncs the file later. With `spare` the old file is kept under the name tmp.
 */
static int rename_over(int dir_fd, const char *tmp, const char *name, bool spare)
{
    if (renameat2(dir_fd, tmp, dir_fd, name, RENAME_EXCHANGE) == 0) {
        if (!spare)
            (void)unlinkat(dir_fd, tmp, 0); /* a file left here is removed by the next save */
        return 0;
    }
    /* The old file is missing, or the file system has no RENAME_EXCHANGE. */
    return renameat(dir_fd, tmp, dir_fd, name) < 0 ? -errno : 0;
}

/* Opens the spare file of the last save if it has the right length; else creates a new file. */
static int open_tmp(int dir_fd, const char *tmp, bool spare, size_t len)
{
    const int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
    int fd = spare ? openat(dir_fd, tmp, flags | O_NONBLOCK) : FD_NONE;
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == (off_t)len)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    fd = openat(dir_fd, tmp, flags | O_CREAT | O_EXCL, 0600);
    if (fd < 0 && errno == EEXIST) { /* left by a process that was killed */
        (void)unlinkat(dir_fd, tmp, 0);
        fd = openat(dir_fd, tmp, flags | O_CREAT | O_EXCL, 0600);
    }
    return fd < 0 ? -errno : fd;
}

static bool file_exists(int dir_fd, const char *name)
{
    return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * Replaces a file atomically, without syncing it. With spare, the old file is kept, and the next
 * save of equal length overwrites it. The first save uses another temporary name, so a spare file
 * proves an earlier save (load_state).
 */
static int replace_at(int dir_fd, const char *name, const char *text, size_t len, bool spare)
{
    auto_close int fd = FD_NONE;
    char tmp[STORE_NAME_MAX + 16];
    int r;

    (void)snprintf(tmp, sizeof(tmp), spare && !file_exists(dir_fd, name) ? ".%s.new" : ".%s.tmp",
                   name);
    fd = open_tmp(dir_fd, tmp, spare, len);
    if (fd < 0)
        return take_fd(&fd);
    r = write_all(fd, text, len);
    if (r == 0)
        r = rename_over(dir_fd, tmp, name, spare);
    if (r < 0)
        (void)unlinkat(dir_fd, tmp, 0);
    return r;
}

/* dir: "" or "processes/". */
static int save_text(struct store *s, const char *id, int dir_fd, const char *dir, const char *name,
                     const char *text, size_t len, bool spare, struct err *err)
{
    char path[STORE_PATH_MAX];
    int r = replace_at(dir_fd, name, text, len, spare);

    if (r < 0)
        return err_errno(err, r, "sandbox %s: write %s", id, name);
    (void)snprintf(path, sizeof(path), "%s/%s%s", id, dir, name);
    disk_mark(&s->disk, path);
    return 0;
}

static int save_json(struct store *s, const char *id, int dir_fd, const char *dir, const char *name,
                     const json_t *root, size_t max, struct err *err)
{
    auto_free char *text = json_dumps(root, JSON_COMPACT);
    size_t len;

    if (text == NULL)
        return err_errno(err, -ENOMEM, "sandbox %s: %s", id, name);
    len = strlen(text);
    if (len > max)
        return err_set(err, -E2BIG, "sandbox %s: %s: longer than %zu bytes", id, name, max);
    return save_text(s, id, dir_fd, dir, name, text, len, false, err);
}

static int load_json(int dir_fd, const char *name, size_t max, json_t **ret, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    r = file_read_at(dir_fd, name, max, &text, &len, err);
    if (r == 0)
        r = json_parse(text, len, max, ret, err);
    return r;
}

/* ---- specs and states ---- */

/* clang-format off */
static const struct strtab state_names[] = {
    {"creating", SANDBOX_CREATING}, {"created", SANDBOX_CREATED},   {"starting", SANDBOX_STARTING},
    {"running", SANDBOX_RUNNING},   {"paused", SANDBOX_PAUSED},     {"stopping", SANDBOX_STOPPING},
    {"stopped", SANDBOX_STOPPED},   {"removing", SANDBOX_REMOVING}, {0},
};
/* clang-format on */

/* struct stored_state with the types that json/decode.h fills in. */
struct state_file {
    int state;
    int64_t created, started, finished, exit_code, restarts, creator;
    bool oom_killed, wanted, held;
};

#define STATE(member) offsetof(struct state_file, member)
/* clang-format off */
static const struct jfield state_fields[] = {
    {.name = "state",      .decode = j_enum,  .off = STATE(state), .names = state_names, .required = true},
    {.name = "createdMs",  .decode = j_int64, .off = STATE(created),   .max = INT64_MAX, .required = true},
    {.name = "startedMs",  .decode = j_int64, .off = STATE(started),   .max = INT64_MAX, .required = true},
    {.name = "finishedMs", .decode = j_int64, .off = STATE(finished),  .max = INT64_MAX, .required = true},
    {.name = "exitCode",   .decode = j_int64, .off = STATE(exit_code), .min = -1, .max = 255, .required = true},
    {.name = "restarts",   .decode = j_int64, .off = STATE(restarts),  .max = STORE_RESTARTS_MAX, .required = true},
    {.name = "oomKilled",  .decode = j_bool,  .off = STATE(oom_killed), .required = true},
    {.name = "wanted",     .decode = j_bool,  .off = STATE(wanted), .required = true},
    {.name = "creator",    .decode = j_int64, .off = STATE(creator), .min = STORE_NO_CREATOR, .max = UINT32_MAX},
    {.name = "held",       .decode = j_bool,  .off = STATE(held)},
    {0},
};
/* clang-format on */

int store_save_spec(struct store *s, const char *id, const struct spec *spec, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_close int dir = FD_NONE;
    int r;

    r = spec_to_json(spec, &root, err);
    if (r < 0)
        return err_wrap(err, r, "sandbox %s", id);
    r = open_sandbox(s, id, true, &dir, err);
    if (r < 0)
        return r;
    return save_json(s, id, dir, "", "spec.json", root, STORE_SPEC_MAX, err);
}

/* Keeps values in the range that the decoder accepts, even if the clock was set back. */
static json_int_t clamp_integer(int64_t n, int64_t min, int64_t max)
{
    return n < min ? min : n > max ? max : n;
}

/*
 * State is saved at each step of a sandbox's life. Creating and removing a file costs ten times as
 * much as writing it, so the file before the last is overwritten. Every state has the same length
 * and lies in one sector, which makes this as safe as a new file: after a power failure each of the
 * two files holds one complete state.
 */
static int save_padded(struct store *s, const char *id, int dir_fd, const json_t *root,
                       struct err *err)
{
    char text[STATE_SIZE];
    size_t len = json_dumpb(root, text, sizeof(text), JSON_COMPACT);

    if (len == 0)
        return err_errno(err, -ENOMEM, "sandbox %s: state", id);
    if (len > sizeof(text)) /* for a future, longer state */
        return save_json(s, id, dir_fd, "", "state.json", root, STORE_STATE_MAX, err);
    (void)memset(text + len, '\n', sizeof(text) - len);
    return save_text(s, id, dir_fd, "", "state.json", text, sizeof(text), true, err);
}

int store_save_state(struct store *s, const char *id, const struct stored_state *state,
                     struct err *err)
{
    const char *name = strtab_name(state_names, (int)state->state);
    auto_ptr(json_decref) json_t *root = NULL;
    auto_close int dir = FD_NONE;
    int r;

    if (name == NULL)
        return err_set(err, -EINVAL, "sandbox %s: this state is not one to store", id);
    r = open_sandbox(s, id, false, &dir, err);
    if (r < 0)
        return r;
    root = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:I}", "state", name, "createdMs",
                     clamp_integer(state->created_ms, 0, INT64_MAX), "startedMs",
                     clamp_integer(state->started_ms, 0, INT64_MAX), "finishedMs",
                     clamp_integer(state->finished_ms, 0, INT64_MAX), "exitCode",
                     clamp_integer(state->exit_code, -1, 255), "restarts",
                     clamp_integer(state->restarts, 0, STORE_RESTARTS_MAX), "oomKilled",
                     state->oom_killed, "wanted", state->wanted, "creator",
                     clamp_integer(state->creator, STORE_NO_CREATOR, UINT32_MAX));
    /* Written only if true, so that older daemons can read the file. */
    if (root == NULL || (state->held && json_object_set_new(root, "held", json_true()) < 0))
        return err_errno(err, -ENOMEM, "sandbox %s: state", id);
    return save_padded(s, id, dir, root, err);
}

/*
 * True for an empty file or one of zeros. A power failure leaves that if the file system had
 * written the rename before the data.
 */
static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] != '\0')
            return false;
    return true;
}

static int load_state(int dir_fd, struct stored_state *ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_free char *text = NULL;
    size_t len = 0;
    struct state_file f = {.creator = STORE_NO_CREATOR};
    int r;

    r = file_read_at(dir_fd, "state.json", STORE_STATE_MAX, &text, &len, err);
    if (r == 0 && is_blank(text, len)) {
        *ret = (struct stored_state){
            .state = SANDBOX_STOPPED, .exit_code = -1, .creator = STORE_NO_CREATOR};
        return 0;
    }
    if (r == 0)
        r = json_parse(text, len, STORE_STATE_MAX, &root, err);
    if (r == -ENOENT && file_exists(dir_fd, ".state.json.tmp"))
        return err_set(err, -ENODATA, "is lost");
    if (r == -ENOENT) {
        *ret = (struct stored_state){
            .state = SANDBOX_CREATING, .exit_code = -1, .creator = STORE_NO_CREATOR};
        return 0;
    }
    if (r == 0)
        r = json_decode(root, state_fields, &f, err);
    if (r < 0)
        return r;
    *ret = (struct stored_state){
        .state = (enum sandbox_state)f.state,
        .created_ms = f.created,
        .started_ms = f.started,
        .finished_ms = f.finished,
        .exit_code = (int)f.exit_code,
        .oom_killed = f.oom_killed,
        .restarts = (unsigned)f.restarts,
        .wanted = f.wanted,
        .creator = f.creator,
        .held = f.held,
    };
    return 0;
}

int store_load(struct store *s, const char *id, struct spec **ret_spec, struct stored_state *ret,
               struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    auto_ptr(spec_free) struct spec *spec = NULL;
    struct stored_state state = {.exit_code = -1};
    auto_close int dir = FD_NONE;
    int r;

    r = open_sandbox(s, id, false, &dir, err);
    if (r < 0)
        return r;
    r = load_state(dir, &state, err);
    if (r < 0)
        return err_wrap(err, r, "sandbox %s: state.json", id);
    r = load_json(dir, "spec.json", STORE_SPEC_MAX, &root, err);
    if (r == 0)
        r = spec_from_json(root, &spec, err);
    /* The spec of a sandbox being created or removed is not used, so it may be incomplete. */
    if (r < 0 && state.state != SANDBOX_CREATING && state.state != SANDBOX_REMOVING)
        return err_wrap(err, r, "sandbox %s: spec.json", id);
    *ret = state;
    *ret_spec = take(spec);
    return 0;
}

/* Saves a small file with content of another module. */
static int save_other(struct store *s, const char *id, const char *name, const json_t *root,
                      struct err *err)
{
    auto_close int dir = FD_NONE;
    int r;

    r = open_sandbox(s, id, false, &dir, err);
    return r < 0 ? r : save_json(s, id, dir, "", name, root, STORE_OTHER_MAX, err);
}

static int load_other(struct store *s, const char *id, const char *name, json_t **ret,
                      struct err *err)
{
    auto_close int dir = FD_NONE;
    int r;

    r = open_sandbox(s, id, false, &dir, err);
    return r < 0 ? r : load_json(dir, name, STORE_OTHER_MAX, ret, err);
}

int store_save_exposures(struct store *s, const char *id, const json_t *root, struct err *err)
{
    return save_other(s, id, "exposures.json", root, err);
}

int store_load_exposures(struct store *s, const char *id, json_t **ret, struct err *err)
{
    return load_other(s, id, "exposures.json", ret, err);
}

int store_save_ports(struct store *s, const char *id, const json_t *root, struct err *err)
{
    return save_other(s, id, "ports.json", root, err);
}

int store_load_ports(struct store *s, const char *id, json_t **ret, struct err *err)
{
    return load_other(s, id, "ports.json", ret, err);
}

int store_remove(struct store *s, const char *id, struct err *err)
{
    char name[STORE_NAME_MAX + 16];
    int r = check_id(id, err);

    if (r < 0)
        return r;
    /* A name may be taken by a directory left from a killed supervisor, until it is purged. */
    for (int i = 0; i < GONE_TRIES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "%s.%u", id, s->gone_next++);
        if (renameat2(s->disk.sandboxes_fd, id, s->disk.gone_fd, name, RENAME_NOREPLACE) == 0) {
            disk_purge(&s->disk);
            return 0;
        }
        if (errno != EEXIST)
            break;
    }
    return err_errno(err, -errno, "remove the files of sandbox %s", id);
}

int store_logs_fd(struct store *s, const char *id, struct err *err)
{
    auto_close int dir = FD_NONE;
    int fd = FD_NONE, r;

    r = open_sandbox(s, id, false, &dir, err);
    if (r < 0)
        return r;
    r = open_dir(dir, "logs", true, &fd);
    return r < 0 ? err_errno(err, r, "logs of sandbox %s", id) : fd;
}

/* ---- lists ---- */

/*
 * Lists the names in a directory that `keep` accepts. The caller may change the directory while it
 * uses the list.
 */
static int list_dir(int dir_fd, bool (*keep)(char *name), char ***ret, struct err *err)
{
    auto_ptr(dir_close) DIR *d = dir_open(dir_fd, ".");
    char **names = d != NULL ? strings_new() : NULL;
    struct dirent *e;
    size_t count = 0;
    int r = 0;

    if (names == NULL)
        return err_errno(err, d != NULL || errno == 0 ? -ENOMEM : -errno,
                         "list the supervisor's directory");
    while (r == 0 && (e = dir_next(d)) != NULL)
        if (keep(e->d_name))
            r = strings_append(&names, count++, e->d_name);
    if (r == 0)
        r = -errno;
    if (r < 0) {
        (void)err_errno(err, r, "list the supervisor's directory");
        json_strings_free(names);
        return r;
    }
    *ret = names;
    return 0;
}

static bool is_id(char *name)
{
    return launch_id_ok(name);
}

int store_each(struct store *s, void (*cb)(void *data, const char *id), void *data, struct err *err)
{
    char **ids = NULL;
    int r;

    r = list_dir(s->disk.sandboxes_fd, is_id, &ids, err);
    if (r < 0)
        return r;
    for (char **id = ids; id != NULL && *id != NULL; id++)
        cb(data, *id);
    json_strings_free(ids);
    return 0;
}

/* Cuts ".json" off the name. */
static bool is_record(char *name)
{
    static const char suffix[] = ".json";
    size_t len = strlen(name), cut = sizeof(suffix) - 1;

    if (len <= cut || strcmp(name + len - cut, suffix) != 0)
        return false;
    name[len - cut] = '\0';
    return check_name(name, NULL) == 0;
}

/* ---- processes ---- */

static int open_processes(struct store *s, const char *id, bool make, int *ret, struct err *err)
{
    auto_close int dir = FD_NONE;
    int r;

    r = open_sandbox(s, id, false, &dir, err);
    if (r < 0)
        return r;
    r = open_dir(dir, "processes", make, ret);
    return r < 0 ? err_errno(err, r, "processes of sandbox %s", id) : 0;
}

static void record_name(char text[STORE_NAME_MAX + 6], const char *name)
{
    (void)snprintf(text, STORE_NAME_MAX + 6, "%s.json", name);
}

int store_save_process(struct store *s, const char *id, const char *name, json_t *record,
                       struct err *err)
{
    auto_close int dir = FD_NONE;
    char file[STORE_NAME_MAX + 6];
    int r;

    r = check_name(name, err);
    if (r == 0)
        r = open_processes(s, id, true, &dir, err);
    if (r < 0)
        return r;
    record_name(file, name);
    return save_json(s, id, dir, "processes/", file, record, STORE_PROCESS_MAX, err);
}

int store_each_process(struct store *s, const char *id,
                       void (*cb)(void *data, const char *name, json_t *record), void *data,
                       struct err *err)
{
    auto_close int dir = FD_NONE;
    char **names = NULL;
    int r;

    r = open_processes(s, id, false, &dir, NULL);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_errno(err, r, "processes of sandbox %s", id);
    r = list_dir(dir, is_record, &names, err);
    if (r < 0)
        return r;
    for (size_t i = 0; names[i] != NULL; i++) {
        auto_ptr(json_decref) json_t *record = NULL;
        char file[STORE_NAME_MAX + 6];

        if (i == STORE_PROCESSES_MAX) {
            r = err_set(err, -E2BIG, "sandbox %s: more than %d process records", id,
                        STORE_PROCESSES_MAX);
            break;
        }
        record_name(file, names[i]);
        if (load_json(dir, file, STORE_PROCESS_MAX, &record, NULL) < 0)
            record = NULL;
        cb(data, names[i], record);
    }
    json_strings_free(names);
    return r;
}

int store_remove_process(struct store *s, const char *id, const char *name, struct err *err)
{
    auto_close int dir = FD_NONE;
    char file[STORE_NAME_MAX + 6];
    int r;

    r = check_name(name, err);
    if (r == 0)
        r = open_processes(s, id, false, &dir, err);
    if (r < 0)
        return r;
    record_name(file, name);
    if (unlinkat(dir, file, 0) < 0)
        return err_errno(err, -errno, "process %s of sandbox %s", name, id);
    return 0;
}

/* ---- networks ---- */

#define NETWORKS "../networks/"

static void mark_network(struct store *s, const char *file)
{
    char path[STORE_PATH_MAX];

    (void)snprintf(path, sizeof(path), NETWORKS "%s", file);
    disk_mark(&s->disk, path);
}

int store_save_network(struct store *s, const char *name, const json_t *root, struct err *err)
{
    auto_free char *text = json_dumps(root, JSON_COMPACT);
    char file[STORE_NAME_MAX + 6];
    int r = check_name(name, err);

    if (r < 0)
        return r;
    if (text == NULL)
        return err_errno(err, -ENOMEM, "network %s", name);
    if (strlen(text) > STORE_NETWORK_MAX)
        return err_set(err, -E2BIG, "network %s: its record has more than %d bytes", name,
                       STORE_NETWORK_MAX);
    record_name(file, name);
    r = replace_at(s->disk.networks_fd, file, text, strlen(text), false);
    if (r < 0)
        return err_errno(err, r, "network %s: write its record", name);
    mark_network(s, file);
    return 0;
}

int store_each_network(struct store *s, void (*cb)(void *data, const char *name, json_t *root),
                       void *data, struct err *err)
{
    char **names = NULL;
    int r = list_dir(s->disk.networks_fd, is_record, &names, err);

    if (names == NULL)
        return r; /* list_dir has set names to NULL and r to the error */
    for (size_t i = 0; names[i] != NULL; i++) {
        auto_ptr(json_decref) json_t *root = NULL;
        char file[STORE_NAME_MAX + 6];

        record_name(file, names[i]);
        if (load_json(s->disk.networks_fd, file, STORE_NETWORK_MAX, &root, NULL) < 0)
            root = NULL;
        cb(data, names[i], root);
    }
    json_strings_free(names);
    return 0;
}

int store_remove_network(struct store *s, const char *name, struct err *err)
{
    char file[STORE_NAME_MAX + 6];
    int r = check_name(name, err);

    if (r < 0)
        return r;
    record_name(file, name);
    if (unlinkat(s->disk.networks_fd, file, 0) < 0)
        return err_errno(err, -errno, "network %s: remove its record", name);
    mark_network(s, file);
    return 0;
}
