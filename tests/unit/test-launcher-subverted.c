/* Workers that an archive has taken over, started by a launcher in this process as a supervisor
 * asks for them: in the place of the worker's program stands one whose parts try to get out
 * (tests/subverted/parts.c). And what bounds a worker whatever it does: its cgroup, and who looks
 * at what it writes. Root only. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../subverted/parts.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "image/embed.h"
#include "image/worker-proto.h"
#include "launch/cgroup-internal.h"
#include "launch/launcher.h"
#include "launch/sandbox.h"
#include "proto/rmtree.h"
#include "tap.h"

#define NAME_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define MEMORY (INT64_C(512) << 20)

enum { DEADLINE_MS = 60000, PROGRAM_MAX = 64 << 20 };

static const char *const nowhere[] = {NULL};

struct lab {
    char top[64], state[96], ids[96];
    char *program; /* owned */
    size_t size;
    struct launcher *l;
};

static int lab_launch(struct lab *lab, struct err *err)
{
    const struct launcher_config config = {.state_dir = lab->state,
                                           .ids_dir = lab->ids,
                                           .bind_prefixes = nowhere,
                                           .disk_reserve = 1,
                                           .init_image = embed_init().data,
                                           .init_size = embed_init().len,
                                           .worker_image = lab->program,
                                           .worker_size = lab->size};

    return launcher_open(&config, &lab->l, err);
}

/* build/FLAVOUR/unit/test-… -> build/builder/… */
static bool read_program(struct lab *lab, struct err *err)
{
    char path[512] = "";
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);

    for (int i = 0; n > 0 && i < 3; i++)
        *strrchr(path, '/') = '\0';
    (void)strcat(path, "/builder/rind-rootfs-subverted");
    return file_read_at(AT_FDCWD, path, PROGRAM_MAX, &lab->program, &lab->size, err) == 0;
}

static bool lab_open(struct lab *lab)
{
    struct err err = ERR_NONE;

    *lab = (struct lab){.top = "/tmp/rind-subverted-XXXXXX"};
    if (geteuid() != 0 || mkdtemp(lab->top) == NULL)
        return false;
    (void)snprintf(lab->state, sizeof(lab->state), "%s/state", lab->top);
    (void)snprintf(lab->ids, sizeof(lab->ids), "%s/ids", lab->top);
    if (read_program(lab, &err) && lab_launch(lab, &err) == 0)
        return true;
    tap_fail("launcher: %s", err.msg);
    return false;
}

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

static void lab_close(struct lab *lab)
{
    CHECK_INT(lab->l->work_count, 0);
    settle(lab->l);
    launcher_free(lab->l);
    free(lab->program);
    (void)rmtree_at(AT_FDCWD, lab->top, 0);
}

#define LAB(lab)                                                                                   \
    struct lab lab;                                                                                \
    if (!lab_open(&(lab)))                                                                         \
    SKIP("needs root")

static int start(struct lab *lab, enum launch_work kind, const char *layer,
                 struct launch_worker *ret, struct err *err)
{
    struct launch_request q = {
        .verb = LAUNCH_WORKER, .id = "one", .work = kind, .memory = MEMORY, .bytes = 1 << 20};

    if (layer != NULL)
        q.image_layers[q.image_layer_count++] = layer;
    return launcher_worker(lab->l, &q, ret, err);
}

static void worker_close(struct launch_worker *w)
{
    (void)close(w->control);
    (void)close(w->pidfd);
}

static int archive(void)
{
    int fd = memfd_sealed("archive", embed_base().data, embed_base().len);

    (void)lseek(fd, 0, SEEK_SET);
    return fd;
}

/* Its last word in *ret; WORKER_INVALID: it ended without one. */
static void talk(const struct launch_worker *w, const struct worker_msg *go, int fd,
                 struct worker_msg *ret)
{
    struct pollfd p = {.fd = w->pidfd, .events = POLLIN};
    struct err err = ERR_NONE;
    struct worker_msg *m = malloc(sizeof(*m));

    ret->type = WORKER_INVALID;
    if (m == NULL || worker_msg_send(w->control, go, fd, &err) < 0)
        tap_fail("start: %s", err.msg);
    for (int none = FD_NONE; m != NULL && worker_msg_recv(w->control, m, &none, &err) > 0;)
        if (m->type == WORKER_DONE || m->type == WORKER_FAILED)
            *ret = *m;
    CHECK_INT(poll(&p, 1, DEADLINE_MS), 1);
    free(m);
    (void)close(fd);
}

/* A layer with one directory; made by hand, because the unpacker is subverted. */
static bool make_layer(const struct lab *lab)
{
    static const char *const parts[] = {"", "/fs", "/fs/usr"};
    char path[192];

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s/image-layers/" NAME_A "%s", lab->state, parts[i]);
        if (mkdir(path, 0755) < 0 || (i > 0 && chown(path, IDRANGE_LAYERS, IDRANGE_LAYERS) < 0))
            return false;
    }
    return true;
}

TEST(J01_a_subverted_unpacker_of_the_launchers)
{
    const struct worker_msg go = {.type = WORKER_START,
                                  .op = WORKER_UNPACK,
                                  .flags = WORKER_BOTTOM,
                                  .bytes = 1 << 30,
                                  .files = 100000,
                                  .entries = 1000};
    struct launch_worker w;
    struct worker_msg end;
    struct err err = ERR_NONE;

    LAB(lab);
    CHECK_INT(start(&lab, LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
    talk(&w, &go, archive(), &end);
    if (end.type != WORKER_DONE)
        tap_fail("%d: %s", end.type, end.type == WORKER_FAILED ? end.text : "no word");
    CHECK(end.entries >= 20);
    worker_close(&w);
    CHECK_INT(launcher_layer_drop(lab.l, "one", &err), 0);
    lab_close(&lab);
}

TEST(J01_subverted_others_of_the_launchers)
{
    static const struct {
        enum launch_work kind;
        struct worker_msg go;
        const char *said;
    } rows[] = {
        {LAUNCH_WORK_LAYER,
         {.op = WORKER_UNPACK, .flags = WORKER_BOTTOM, .entries = SUBVERT_CODEC},
         "tried 13, got: "},
        {LAUNCH_WORK_STREAM, {.op = WORKER_SPLIT, .entries = SUBVERT_CODEC}, "tried 13, got: "},
        {LAUNCH_WORK_STREAM, {.op = WORKER_SPLIT, .entries = SUBVERT_SPLITTER}, "tried 13, got: "},
        {LAUNCH_WORK_IMAGE, {.op = WORKER_PACK, .entries = SUBVERT_PACKER}, "tried 16, got: "},
        {LAUNCH_WORK_IMAGE,
         {.op = WORKER_PACK, .kind = WORKER_GZIP, .entries = SUBVERT_CODEC},
         "tried 13, got: "},
    };
    struct launch_worker w;
    struct worker_msg end;
    struct err err = ERR_NONE;

    LAB(lab);
    CHECK(make_layer(&lab));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct worker_msg go = rows[i].go;
        bool packs = go.op == WORKER_PACK;

        go.type = WORKER_START;
        go.bytes = go.files = 100000;
        CHECK_INT(start(&lab, rows[i].kind, packs ? NAME_A : NULL, &w, &err), 0);
        talk(&w, &go, packs ? memfd_create("out", MFD_CLOEXEC) : archive(), &end);
        CHECK_INT(end.type, WORKER_FAILED);
        CHECK_STR(end.text, rows[i].said);
        worker_close(&w);
        (void)launcher_layer_drop(lab.l, "one", &err);
    }
    lab_close(&lab);
}

static uint64_t tree_bytes(const struct lab *lab)
{
    char path[160], file[256];
    uint64_t sum = 0;
    struct stat st;
    DIR *d;

    (void)snprintf(path, sizeof(path), "%s/image-layers/.tmp-one/fs", lab->state);
    d = opendir(path);
    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        (void)snprintf(file, sizeof(file), "%s/%.40s", path, e->d_name);
        sum += lstat(file, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
    }
    if (d != NULL)
        (void)closedir(d);
    return sum;
}

/* No file is larger than it may be; all of them together would be. */
TEST(one_that_fills_the_disk_is_ended)
{
    const struct worker_msg go = {.type = WORKER_START,
                                  .op = WORKER_UNPACK,
                                  .flags = WORKER_BOTTOM,
                                  .bytes = 1 << 30,
                                  .files = FLOOD_FILE,
                                  .entries = SUBVERT_FLOOD};
    struct launch_worker w;
    struct worker_msg end;
    struct err err = ERR_NONE;
    uint64_t bytes;

    LAB(lab);
    CHECK_INT(start(&lab, LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
    talk(&w, &go, archive(), &end);
    /* What watches it says why; it does not get as far as a word of its own. */
    CHECK_INT(end.type, WORKER_FAILED);
    CHECK_STR(end.text, "limit maxImageBytes: it has written more than the layer may have");
    bytes = tree_bytes(&lab);
    printf("# %llu MiB were written\n", (unsigned long long)(bytes >> 20));
    CHECK(bytes > FLOOD_FILE && bytes < (uint64_t)FLOOD_FILE * FLOOD_FILES);
    worker_close(&w);
    CHECK_INT(launcher_layer_drop(lab.l, "one", &err), 0);
    lab_close(&lab);
}

/* ---- cgroups ---- */

static bool has_cgroup(struct lab *lab, const char *name)
{
    struct cgroup *c = NULL;
    bool has = cgroup_open(lab->l->cgroups, name, &c, NULL) == 0;

    cgroup_free(c);
    return has;
}

static int64_t limit_of(const struct cgroup *c, enum cgroup_controller which, const char *v1,
                        const char *v2)
{
    int at = c->home[which];
    char text[CG_SMALL_MAX];

    if (at == CG_NOWHERE || cg_read(c->dir_fd[at], c->version[at] == 2 ? v2 : v1, text) < 0)
        return -1;
    return strtoll(text, NULL, 10);
}

TEST(its_cgroup)
{
    struct launch_worker w;
    struct err err = ERR_NONE;
    struct cgroup_stats stats = {.pids = 0};
    char name[2 * WORK_CGROUP_MAX];
    struct work *work;

    LAB(lab);
    if (cgroup_host_controller(lab.l->cgroups, CG_MEMORY) == 0 ||
        cgroup_host_controller(lab.l->cgroups, CG_PIDS) == 0) {
        lab_close(&lab);
        SKIP("this host has no controllers");
    }
    CHECK_INT(start(&lab, LAUNCH_WORK_LAYER, NULL, &w, &err), 0);
    work = work_find(lab.l, "one");
    CHECK(work != NULL && work->cgroup != NULL);
    (void)snprintf(name, sizeof(name), "%s", work->cgroup_name);
    CHECK_INT(strncmp(name, "worker-", 7), 0);
    CHECK_INT(limit_of(work->cgroup, CG_MEMORY, "memory.limit_in_bytes", "memory.max"), MEMORY);
    CHECK_INT(limit_of(work->cgroup, CG_PIDS, "pids.max", "pids.max"), 16);
    /* It enters those of v1 by itself. */
    for (int i = 0; i < DEADLINE_MS / 10 && stats.pids == 0; i++) {
        CHECK_INT(cgroup_stats(work->cgroup, &stats, &err), 0);
        (void)usleep(10000);
    }
    CHECK_INT(stats.pids, 1);
    /* Nobody sweeps what somebody is in. */
    works_cgroup_sweep(lab.l);
    CHECK(has_cgroup(&lab, name));
    CHECK_INT(launcher_layer_drop(lab.l, "one", &err), 0);
    CHECK(!has_cgroup(&lab, name));
    worker_close(&w);
    lab_close(&lab);
}

TEST(cgroups_of_killed_launchers)
{
    const struct cgroup_limits none = {.memory_bytes = -1, .pids = -1, .cpu_millis = -1};
    struct launch_worker w;
    struct err err = ERR_NONE;
    char mine[3 * WORK_CGROUP_MAX], others[] = "worker-0-0-1-1";
    struct cgroup *c = NULL;
    char *end;

    LAB(lab);
    if (cgroup_host_mode(lab.l->cgroups) == CG_MODE_NONE) {
        lab_close(&lab);
        SKIP("this host has no cgroups");
    }
    CHECK_INT(start(&lab, LAUNCH_WORK_STREAM, NULL, &w, &err), 0);
    (void)snprintf(mine, sizeof(mine), "%s", work_find(lab.l, "one")->cgroup_name);
    end = strrchr(mine, '-');
    (void)strcpy(end, "-dead");
    CHECK_INT(launcher_layer_drop(lab.l, "one", &err), 0);
    worker_close(&w);
    CHECK_INT(cgroup_create(lab.l->cgroups, mine, &none, CGROUP_NOBODY, &c, &err), 0);
    CHECK_INT(cgroup_exec_fd(c), FD_NONE);
    cgroup_free(c);
    c = NULL;
    (void)cgroup_remove(lab.l->cgroups, others, NULL); /* of a run that was cut off */
    CHECK_INT(cgroup_create(lab.l->cgroups, others, &none, CGROUP_NOBODY, &c, &err), 0);
    cgroup_free(c);
    launcher_layers_sweep(lab.l);
    CHECK(!has_cgroup(&lab, mine));
    CHECK(has_cgroup(&lab, others)); /* another state directory's */
    CHECK_INT(cgroup_remove(lab.l->cgroups, others, &err), 0);
    lab_close(&lab);
}

TAP_MAIN
