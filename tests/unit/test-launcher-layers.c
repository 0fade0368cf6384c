/* Workers and layers of images, against a launcher in this process: what a supervisor that was
 * taken over, or a worker that was, can ask and leave. Root only. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "image/embed.h"
#include "image/worker-proto.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "proto/rmtree.h"
#include "tap.h"

#define NAME_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

enum { DEADLINE_MS = 30000, COMMIT_TRIES = 30000 };

struct lab {
    char top[64], state[96], ids[96];
    struct launcher *l;
};

static const char *const nowhere[] = {NULL};

static int lab_launch(struct lab *lab, struct err *err)
{
    const struct launcher_config config = {.state_dir = lab->state,
                                           .ids_dir = lab->ids,
                                           .bind_prefixes = nowhere,
                                           .init_image = embed_init().data,
                                           .init_size = embed_init().len,
                                           .worker_image = embed_rootfs().data,
                                           .worker_size = embed_rootfs().len};

    return launcher_open(&config, &lab->l, err);
}

static bool lab_open(struct lab *lab)
{
    struct err err = ERR_NONE;

    *lab = (struct lab){.top = "/tmp/rind-layers-XXXXXX"};
    if (geteuid() != 0 || mkdtemp(lab->top) == NULL)
        return false;
    (void)snprintf(lab->state, sizeof(lab->state), "%s/state", lab->top);
    (void)snprintf(lab->ids, sizeof(lab->ids), "%s/ids", lab->top);
    if (lab_launch(lab, &err) == 0)
        return true;
    tap_fail("launcher: %s", err.msg);
    return false;
}

/* Those who remove files beside the launcher have ended. */
static void settle(struct launcher *l)
{
    for (int i = 0; i < DEADLINE_MS / 10; i++) {
        child_table_reap(&l->children);
        if (l->children.count == 0)
            return;
        (void)usleep(10000);
    }
    tap_fail("files are still being removed");
}

static size_t entries(const struct lab *lab)
{
    char path[128];
    size_t n = 0;
    DIR *d;

    (void)snprintf(path, sizeof(path), "%s/image-layers", lab->state);
    d = opendir(path);
    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d != NULL)
        (void)closedir(d);
    return n;
}

static void lab_close(struct lab *lab)
{
    CHECK_INT(lab->l->work_count, 0);
    settle(lab->l);
    launcher_free(lab->l);
    (void)rmtree_at(AT_FDCWD, lab->top, 0);
}

#define LAB(lab)                                                                                   \
    struct lab lab;                                                                                \
    if (!lab_open(&(lab)))                                                                         \
    SKIP("needs root")

static int start(struct lab *lab, const char *id, enum launch_work kind, const char *layer,
                 struct launch_worker *ret, struct err *err)
{
    struct launch_request q = {.verb = LAUNCH_WORKER, .id = id, .work = kind, .bytes = 1 << 30};

    if (layer != NULL)
        q.image_layers[q.image_layer_count++] = layer;
    return launcher_worker(lab->l, &q, ret, err);
}

static int commit(struct lab *lab, const char *id, const char *name, struct err *err)
{
    struct launch_request q = {
        .verb = LAUNCH_LAYER_COMMIT, .id = id, .image_layers = {name}, .image_layer_count = 1};

    int r = -EAGAIN;

    for (int i = 0; r == -EAGAIN && i < COMMIT_TRIES; i++) {
        r = launcher_layer_commit(lab->l, &q, err);
        if (r == -EAGAIN)
            (void)usleep(1000);
    }
    return r;
}

/* Has the base layer's archive unpacked, and waits for the end. */
static int unpack(const struct launch_worker *w)
{
    const struct worker_msg go = {.type = WORKER_START,
                                  .op = WORKER_UNPACK,
                                  .flags = WORKER_BOTTOM,
                                  .bytes = 1 << 30,
                                  .files = 1 << 30,
                                  .entries = 10000};
    int archive = memfd_sealed("archive", embed_base().data, embed_base().len), r;
    struct worker_msg *m = malloc(sizeof(*m));
    struct pollfd p = {.fd = w->pidfd, .events = POLLIN};
    struct err err = ERR_NONE;
    int done = -EIO;

    (void)lseek(archive, 0, SEEK_SET);
    if (m == NULL || worker_msg_send(w->control, &go, archive, &err) < 0)
        tap_fail("start: %s", err.msg);
    while (m != NULL) {
        int fd = FD_NONE;

        r = worker_msg_recv(w->control, m, &fd, &err);
        if (r <= 0)
            break;
        if (m->type == WORKER_DONE)
            done = 0;
        if (m->type == WORKER_FAILED)
            printf("# %s\n", m->text);
    }
    CHECK_INT(poll(&p, 1, DEADLINE_MS), 1);
    free(m);
    (void)close(archive);
    return done;
}

static void worker_close(struct launch_worker *w)
{
    (void)close(w->control);
    (void)close(w->pidfd);
}

TEST(a_layer_from_its_making_to_its_removal)
{
    struct launch_worker w;
    struct err err = ERR_NONE;
    char text[256] = "", path[256];
    struct stat st;
    int fd;

    LAB(lab);
    CHECK_INT(start(&lab, "one", LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
    CHECK_INT(unpack(&w), 0);
    CHECK_INT(layer_open(lab.l, NAME_A, &err), -ENOENT);
    CHECK_INT(commit(&lab, "one", NAME_A, &err), 0);
    worker_close(&w);
    fd = layer_open(lab.l, NAME_A, &err);
    CHECK(fd >= 0);
    CHECK_INT(fstat(fd, &st), 0);
    CHECK_INT(st.st_uid, IDRANGE_LAYERS);
    (void)close(fd);
    (void)snprintf(path, sizeof(path), "%s/image-layers", lab.state);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0700);
    fd = launcher_layer_list(lab.l, &err);
    CHECK(fd >= 0 && pread(fd, text, sizeof(text) - 1, 0) > 0);
    CHECK_STR(text, NAME_A " 0");
    (void)close(fd);
    settle(lab.l);
    (void)snprintf(path, sizeof(path), "%s/image-layers/" NAME_A "/boot", lab.state);
    CHECK(access(path, F_OK) < 0); /* it is on disk by now */
    CHECK_INT(launcher_layer_remove(lab.l, NAME_A, &err), 0);
    CHECK_INT(launcher_layer_remove(lab.l, NAME_A, &err), -ENOENT);
    settle(lab.l);
    CHECK_INT(entries(&lab), 0);
    lab_close(&lab);
}

TEST(what_is_not_there)
{
    struct launch_worker w;
    struct err err = ERR_NONE;

    LAB(lab);
    CHECK_INT(start(&lab, "one", LAUNCH_WORK_LAYER, NAME_A, &w, &err), -ENOENT);
    CHECK_INT(start(&lab, "one", LAUNCH_WORK_IMAGE, NAME_A, &w, &err), -ENOENT);
    CHECK_INT(start(&lab, "one", LAUNCH_WORK_LAYER, "../layers", &w, &err), -EINVAL);
    CHECK_INT(commit(&lab, "one", NAME_A, &err), -ENOENT);
    CHECK_STR(err.msg, "no worker one has made a layer");
    CHECK_INT(launcher_layer_drop(lab.l, "one", &err), -ENOENT);
    CHECK_INT(start(&lab, "stream", LAUNCH_WORK_STREAM, NULL, &w, &err), 0);
    CHECK_INT(commit(&lab, "stream", NAME_A, &err), -ENOENT); /* it has made none */
    CHECK_INT(start(&lab, "stream", LAUNCH_WORK_STREAM, NULL, &(struct launch_worker){0}, &err),
              -EEXIST);
    CHECK_INT(launcher_layer_drop(lab.l, "stream", &err), 0);
    worker_close(&w);
    settle(lab.l);
    CHECK_INT(entries(&lab), 0);
    lab_close(&lab);
}

TEST(a_second_one_of_the_same_name)
{
    struct launch_worker w;
    struct err err = ERR_NONE;

    LAB(lab);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(start(&lab, "one", LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
        CHECK_INT(unpack(&w), 0);
        CHECK_INT(commit(&lab, "one", NAME_A, &err), i == 0 ? 0 : -EEXIST);
        worker_close(&w);
    }
    settle(lab.l);
    CHECK_INT(entries(&lab), 1);
    lab_close(&lab);
}

/* A list that takes long is worked through by a process of its own: nobody waits for it. */
TEST(more_opaque_directories_than_are_marked_at_once)
{
    const struct launch_request q = {
        .verb = LAUNCH_LAYER_COMMIT, .id = "w", .image_layers = {NAME_A}, .image_layer_count = 1};
    struct launch_worker w;
    struct err err = ERR_NONE;
    char path[256], value[2] = "";
    struct work *work;

    LAB(lab);
    CHECK_INT(start(&lab, "w", LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
    CHECK_INT(unpack(&w), 0);
    work = work_find(lab.l, "w");
    for (int i = 0; i < 4096; i++)
        CHECK_INT(pwrite(work->opaque_fd, "usr", 4, (off_t)i * 4), 4);
    CHECK_INT(launcher_layer_commit(lab.l, &q, &err), -EAGAIN);
    CHECK_STR(err.msg, "opaque directories: they are being marked");
    CHECK_INT(commit(&lab, "w", NAME_A, &err), 0);
    (void)snprintf(path, sizeof(path), "%s/image-layers/" NAME_A "/fs/usr", lab.state);
    CHECK_INT(getxattr(path, "trusted.overlay.opaque", value, sizeof(value)), 1);
    CHECK(value[0] == 'y');
    worker_close(&w);
    settle(lab.l);
    lab_close(&lab);
}

/* What a worker that was taken over may have written for us to mark. */
TEST(opaque_directories_that_lead_outside)
{
    static const struct {
        const char *list;
        size_t len;
        int code;
    } rows[] = {
        {"../../../../../../tmp", sizeof("../../../../../../tmp"), -EXDEV},
        {"/tmp", sizeof("/tmp"), -EXDEV},
        {"usr/../../../x", sizeof("usr/../../../x"), -EXDEV},
        {"missing", sizeof("missing"), -ENOENT},
        {"usr", sizeof("usr") - 1, -EPROTO}, /* cut */
        {"", 1, -ENOENT},
        {"usr", sizeof("usr"), 0},
        {".", sizeof("."), 0},
    };
    struct launch_worker w;
    struct err err = ERR_NONE;
    char value[4];

    LAB(lab);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct work *work;
        int r;

        CHECK_INT(start(&lab, "one", LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
        CHECK_INT(unpack(&w), 0);
        work = work_find(lab.l, "one");
        CHECK(work != NULL);
        CHECK_INT(ftruncate(work->opaque_fd, 0), 0);
        CHECK_INT(pwrite(work->opaque_fd, rows[i].list, rows[i].len, 0), rows[i].len);
        r = commit(&lab, "one", NAME_A, &err);
        if (r != rows[i].code)
            tap_fail("'%s': %d %s", rows[i].list, r, err.msg);
        worker_close(&w);
        if (r == 0)
            CHECK_INT(launcher_layer_remove(lab.l, NAME_A, &err), 0);
        settle(lab.l);
        CHECK_INT(entries(&lab), 0);
    }
    CHECK(getxattr("/tmp", "trusted.overlay.opaque", value, sizeof(value)) < 0);
    lab_close(&lab);
}

TEST(one_that_goes_on_is_ended)
{
    const struct worker_msg go = {.type = WORKER_START,
                                  .op = WORKER_UNPACK,
                                  .flags = WORKER_BOTTOM,
                                  .bytes = 1 << 20,
                                  .files = 1 << 20,
                                  .entries = 10};
    struct launch_worker w;
    struct err err = ERR_NONE;
    int pipe_fds[2];

    LAB(lab);
    CHECK_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
    CHECK_INT(start(&lab, "one", LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
    CHECK_INT(worker_msg_send(w.control, &go, pipe_fds[0], &err), 0);
    CHECK_INT(launcher_layer_drop(lab.l, "one", &err), 0);
    CHECK_INT(poll(&(struct pollfd){.fd = w.pidfd, .events = POLLIN}, 1, 0), 1);
    worker_close(&w);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    settle(lab.l);
    CHECK_INT(entries(&lab), 0);
    lab_close(&lab);
}

TEST(too_many)
{
    struct launch_worker w[65];
    struct err err = ERR_NONE;
    char id[16];
    int n = 0;

    LAB(lab);
    for (; n < 65; n++) {
        (void)snprintf(id, sizeof(id), "w%d", n);
        if (start(&lab, id, LAUNCH_WORK_STREAM, NULL, &w[n], &err) < 0)
            break;
    }
    CHECK_INT(n, 64);
    CHECK_STR(err.msg, "there are 64 workers already");
    while (n-- > 0) {
        (void)snprintf(id, sizeof(id), "w%d", n);
        CHECK_INT(launcher_layer_drop(lab.l, id, &err), 0);
        worker_close(&w[n]);
    }
    lab_close(&lab);
}

static pid_t pid_of(int pidfd)
{
    char path[64], line[128];
    pid_t pid = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "Pid: %d", &pid) == 1)
            break;
    if (f != NULL)
        (void)fclose(f);
    return pid;
}

/* Waits until it is the worker's program, which it becomes in its last step. */
static bool is_program(pid_t pid)
{
    char path[64], exe[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    for (int i = 0; i < DEADLINE_MS / 10; i++) {
        ssize_t n = readlink(path, exe, sizeof(exe) - 1);

        exe[n > 0 ? n : 0] = '\0';
        if (strstr(exe, "memfd:rind-rootfs") != NULL)
            return true;
        (void)usleep(10000);
    }
    return false;
}

/* In every namespace of its own, with nothing to see, as nobody of the host's. */
TEST(its_confinement)
{
    static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    struct launch_worker w;
    struct err err = ERR_NONE;
    char path[128], own[64], its[64], *status = NULL;
    size_t len = 0, visible = 0;
    pid_t pid;
    DIR *d = NULL;

    LAB(lab);
    CHECK_INT(start(&lab, "one", LAUNCH_WORK_STREAM, NULL, &w, &err), 0);
    pid = pid_of(w.pidfd);
    CHECK(is_program(pid));
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    CHECK_INT(file_read_at(AT_FDCWD, path, 1 << 16, &status, &len, NULL), 0);
    CHECK(status != NULL && strstr(status, "NoNewPrivs:\t1") != NULL);
    (void)snprintf(own, sizeof(own), "Uid:\t%d\t%d\t%d\t%d", IDRANGE_LAYERS, IDRANGE_LAYERS,
                   IDRANGE_LAYERS, IDRANGE_LAYERS);
    CHECK(status != NULL && strstr(status, own) != NULL);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        ssize_t n, m;

        (void)snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
        n = readlink(path, own, sizeof(own) - 1);
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kinds[i]);
        m = readlink(path, its, sizeof(its) - 1);
        if (n <= 0 || m <= 0 || (n == m && memcmp(own, its, (size_t)n) == 0))
            tap_fail("its %s namespace is ours", kinds[i]);
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
    d = opendir(path);
    CHECK(d != NULL);
    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        visible += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    CHECK_INT(visible, 0);
    if (d != NULL)
        (void)closedir(d);
    free(status);
    CHECK_INT(launcher_layer_drop(lab.l, "one", &err), 0);
    worker_close(&w);
    lab_close(&lab);
}

/* The worker of a launcher that was killed is not gone yet when the next one sweeps. */
TEST(what_a_slow_death_leaves)
{
    struct launch_worker w;
    struct err err = ERR_NONE;
    char path[192];
    int fd;

    LAB(lab);
    (void)snprintf(path, sizeof(path), "%s/image-layers/.tmp-dying", lab.state);
    CHECK_INT(mkdir(path, 0700), 0);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    launcher_layers_sweep(lab.l);
    settle(lab.l);
    CHECK_INT(entries(&lab), 1);
    (void)close(fd);
    CHECK_INT(start(&lab, "next", LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
    settle(lab.l);
    CHECK_INT(entries(&lab), 1);
    CHECK_INT(access(path, F_OK), -1);
    CHECK_INT(launcher_layer_drop(lab.l, "next", &err), 0);
    worker_close(&w);
    lab_close(&lab);
}

TEST(what_killed_launchers_and_hosts_leave)
{
    struct launch_worker w;
    struct err err = ERR_NONE;
    char path[192];
    int fd;

    LAB(lab);
    /* One of a launcher that lives stays, one of a dead one goes. */
    CHECK_INT(start(&lab, "alive", LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
    (void)snprintf(path, sizeof(path), "%s/image-layers/.tmp-dead", lab.state);
    CHECK_INT(mkdir(path, 0700), 0);
    launcher_layers_sweep(lab.l);
    settle(lab.l);
    CHECK_INT(entries(&lab), 1);
    CHECK_INT(unpack(&w), 0);
    CHECK_INT(commit(&lab, "alive", NAME_B, &err), 0);
    worker_close(&w);
    settle(lab.l);
    launcher_layers_sweep(lab.l);
    settle(lab.l);
    CHECK_INT(entries(&lab), 1);
    /* It was made in a boot that has ended before it was on disk. */
    (void)snprintf(path, sizeof(path), "%s/image-layers/" NAME_B "/boot", lab.state);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, "another", 7) == 7);
    (void)close(fd);
    launcher_layers_sweep(lab.l);
    settle(lab.l);
    CHECK_INT(entries(&lab), 0);
    lab_close(&lab);
}

/* ---- requests ---- */

static int decode(void (*fill)(struct buf *b), enum launch_verb verb, char *text, size_t size)
{
    static struct launch_request q;
    auto_buf struct buf b = BUF_INIT(0);
    struct err err = ERR_NONE;
    int r;

    launch_begin(&b, verb);
    fill(&b);
    (void)launch_end(&b);
    r = launch_decode(b.data, b.len, &q, &err);
    (void)snprintf(text, size, "%s", err.msg);
    return r;
}

static void nothing(struct buf *b)
{
    (void)b;
}

static void id_alone(struct buf *b)
{
    launch_put_string(b, TAG_ID, "w");
}

static void no_such_kind(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_MAX);
}

static void path_as_layer(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_LAYER);
    launch_put_string(b, TAG_IMAGE_LAYER,
                      "../../../../../../../../../../../../../../../../../../../../../x");
}

static void short_layer(struct buf *b)
{
    launch_put_string(b, TAG_IMAGE_LAYER, "aa");
}

static void upper_case(struct buf *b)
{
    launch_put_string(b, TAG_IMAGE_LAYER,
                      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
}

static void two_layers(struct buf *b)
{
    launch_put_string(b, TAG_IMAGE_LAYER, NAME_A);
    launch_put_string(b, TAG_IMAGE_LAYER, NAME_B);
}

static void no_sandbox(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_UPPER);
}

static void no_sandbox_that_changed(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_CHANGES);
}

static void sandbox_for_nothing(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_STREAM);
    launch_put_string(b, TAG_SANDBOX, "x");
}

static void sandbox_path(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_UPPER);
    launch_put_string(b, TAG_SANDBOX, "../x");
}

static void no_volume(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_VOLUME_SIZE);
}

static void volume_for_nothing(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_STREAM);
    launch_put_string(b, TAG_VOLUME_NAME, "x");
}

static void volume_path(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_VOLUME_SIZE);
    launch_put_string(b, TAG_VOLUME_NAME, "../x");
}

static void no_sandbox_to_count(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_SANDBOX_SIZE);
}

static void no_size(struct buf *b)
{
    id_alone(b);
    launch_put_string(b, TAG_IMAGE_LAYER, NAME_A);
}

static void many_layers(struct buf *b)
{
    id_alone(b);
    launch_put_number(b, TAG_WORKER, LAUNCH_WORK_LAYER);
    for (int i = 0; i < LAUNCH_LAYERS_MAX + 1; i++)
        launch_put_string(b, TAG_IMAGE_LAYER, NAME_A);
}

TEST(requests_that_no_supervisor_sends)
{
    static const struct {
        enum launch_verb verb;
        void (*fill)(struct buf *b);
        int code;
        const char *message;
    } rows[] = {
        {LAUNCH_WORKER, nothing, -EINVAL, "no id"},
        {LAUNCH_WORKER, id_alone, -EINVAL, "no kind of worker"},
        {LAUNCH_WORKER, no_such_kind, -ERANGE, "record worker"},
        {LAUNCH_WORKER, path_as_layer, -EINVAL, "record image_layer"},
        {LAUNCH_WORKER, no_sandbox, -EINVAL, "no sandbox to work on"},
        {LAUNCH_WORKER, no_sandbox_that_changed, -EINVAL, "no sandbox to work on"},
        {LAUNCH_WORKER, sandbox_for_nothing, -EINVAL, "a sandbox, and no work on it"},
        {LAUNCH_WORKER, sandbox_path, -EINVAL, "record sandbox"},
        {LAUNCH_WORKER, no_sandbox_to_count, -EINVAL, "no sandbox to work on"},
        {LAUNCH_WORKER, no_volume, -EINVAL, "no volume to work on"},
        {LAUNCH_WORKER, volume_for_nothing, -EINVAL, "a volume, and no work on it"},
        {LAUNCH_WORKER, volume_path, -EINVAL, "record volume_name"},
        {LAUNCH_WORKER, many_layers, -E2BIG, "record image_layer"},
        {LAUNCH_LAYER_REMOVE, nothing, -EINVAL, "0 layers, not one"},
        {LAUNCH_LAYER_REMOVE, short_layer, -EINVAL, "record image_layer"},
        {LAUNCH_LAYER_REMOVE, upper_case, -EINVAL, "record image_layer"},
        {LAUNCH_LAYER_REMOVE, two_layers, -EINVAL, "2 layers, not one"},
        {LAUNCH_LAYER_COMMIT, no_size, -EINVAL, "no size"},
        {LAUNCH_LAYER_LIST, two_layers, -EINVAL, "a layer, and nothing to do with it"},
        {LAUNCH_KILL, no_such_kind, -ERANGE, "record worker"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[ERR_MSG_MAX];
        int r = decode(rows[i].fill, rows[i].verb, text, sizeof(text));

        if (r != rows[i].code || strstr(text, rows[i].message) == NULL)
            tap_fail("row %zu: %d \"%s\", want %d \"%s\"", i, r, text, rows[i].code,
                     rows[i].message);
    }
}

TAP_MAIN
