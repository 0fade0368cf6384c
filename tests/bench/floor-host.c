/* The floor: what is made once a run. */

#include <sys/mman.h>
#include <sys/stat.h>

#include "floor.h"

/* ---- what is made once ------------------------------------------------------------------------
 */

struct host host = {.dev = -1, .v2 = -1, .v1 = {-1, -1, -1}};

static const char *const v1_names[CG_V1_MAX] = {"memory", "pids", "cpu"};

/* "type" and the mount's options decide; paths of this kind hold no blanks that need decoding. */
static void find_cgroups(void)
{
    static char type[64], path[PATH_MAX], options[4096], line[16384];
    FILE *f = fopen("/proc/self/mounts", "re");

    if (f == NULL)
        die("/proc/self/mounts");
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "%*s %4095s %63s %4095s", path, type, options) != 3)
            continue;
        if (strcmp(type, "cgroup2") == 0)
            (void)snprintf(host.cg_paths[CG_V1_MAX], PATH_MAX, "%s", path);
        if (strcmp(type, "cgroup") != 0)
            continue;
        for (char *o = strtok(options, ","); o != NULL; o = strtok(NULL, ","))
            for (int i = 0; i < CG_V1_MAX; i++)
                if (strcmp(o, v1_names[i]) == 0)
                    (void)snprintf(host.cg_paths[i], PATH_MAX, "%s", path);
    }
    (void)fclose(f);
}

static void open_cgroups(void)
{
    find_cgroups();
    for (int i = 0; i <= CG_V1_MAX; i++) {
        if (host.cg_paths[i][0] == '\0')
            continue;
        size_t n = strlen(host.cg_paths[i]);
        (void)snprintf(host.cg_paths[i] + n, PATH_MAX - n, "/rind-bench-%d", getpid());
        MUST(mkdir(host.cg_paths[i], 0755));
        int fd = MUST(open(host.cg_paths[i], O_DIRECTORY | O_RDONLY | O_CLOEXEC));
        if (i < CG_V1_MAX)
            host.v1[i] = fd;
        else
            host.v2 = fd;
    }
    if (host.v2 >= 0 && host.v1[CG_MEMORY] < 0) {
        host.v2_controllers = true;
        poke(host.v2, "../cgroup.subtree_control", "+memory +pids +cpu");
        poke(host.v2, "cgroup.subtree_control", "+memory +pids +cpu");
    }
}

void host_remove(void)
{
    for (int i = 0; i <= CG_V1_MAX; i++)
        if (host.cg_paths[i][0] != '\0')
            (void)rmdir(host.cg_paths[i]);
}

static int load_init(const char *path)
{
    static char buf[1 << 20];
    int from = MUST(open(path, O_RDONLY | O_CLOEXEC));
    int to = MUST(memfd_create("rind-init", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ssize_t n;

    while ((n = read(from, buf, sizeof(buf))) > 0)
        if (write(to, buf, (size_t)n) != n)
            die("copy of init");
    MUST(fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
    (void)close(from);
    return to;
}

const struct node nodes[NODES] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

void make_dev_links(int dev)
{
    MUST(symlinkat("/proc/self/fd", dev, "fd"));
    MUST(symlinkat("/proc/self/fd/0", dev, "stdin"));
    MUST(symlinkat("/proc/self/fd/1", dev, "stdout"));
    MUST(symlinkat("/proc/self/fd/2", dev, "stderr"));
    MUST(symlinkat("pts/ptmx", dev, "ptmx"));
    MUST(mkdirat(dev, "pts", 0755));
    MUST(mkdirat(dev, "shm", 0755));
    MUST(mkdirat(dev, "mqueue", 0755));
}

int tmpfs_new(const char *size, const char *mode, unsigned attr)
{
    int fs = fs_new("tmpfs");

    fs_set(fs, "size", size);
    fs_set(fs, "mode", mode);
    return fs_mount(fs, attr);
}

void host_prepare(void)
{
    host.state = MUST(open(opt.state, O_DIRECTORY | O_RDONLY | O_CLOEXEC));
    host.proc = MUST(open("/proc", O_DIRECTORY | O_RDONLY | O_CLOEXEC));
    host.init = load_init(opt.init);
    for (unsigned i = 0; i < opt.layer_count; i++) {
        opt.layers[i] = realpath(opt.layers[i], NULL);
        if (opt.layers[i] == NULL)
            die("layer %u", i);
    }
    if (opt.on[FEAT_CGROUPS])
        open_cgroups();
    if (opt.dev_shared) {
        host.dev = tmpfs_new("65536", "755", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
        make_dev_links(host.dev);
        for (size_t i = 0; i < NODES; i++)
            MUST(mknodat(host.dev, nodes[i].name, S_IFCHR | 0666,
                         (dev_t)((nodes[i].major << 8) | nodes[i].minor)));
    }
}
