/*
 * Networks by the thousand, in a net namespace of the program's own: what adding one and removing
 * one costs when there are few, and when there are many. The namespaces of the sandboxes are made
 * outside of the measured time.
 *
 * usage: networks COUNT
 * prints {"samples":[[ns,…],[ns,…],[ns,…],[ns,…]]}: added by the first hundred and by the last,
 * then removed by the first and by the last hundred.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "net/net.h"

enum { COUNT_MAX = 4000, PART = 100 };

static struct err err;

static void die(const char *what)
{
    (void)fprintf(stderr, "networks: %s: %s\n", what, err.msg);
    exit(1);
}

static long long now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A host with a way out. */
static void make_host(void)
{
    static const char setup[] =
        "ip link set lo up && ip link add up0 type veth peer name far0 && "
        "ip addr add 93.184.0.2/24 dev up0 && ip link set up0 up && ip link set far0 up && "
        "ip route add default via 93.184.0.1";

    if (unshare(CLONE_NEWNET) < 0 || system(setup) != 0)
        die("make a host");
}

static int make_namespace(int home)
{
    int fd = -1;

    if (unshare(CLONE_NEWNET) == 0)
        fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(home, CLONE_NEWNET) < 0)
        die("make a namespace");
    return fd;
}

static void print(const long long *from, int count, const char *end)
{
    (void)printf("[");
    for (int i = 0; i < count; i++)
        (void)printf("%s%lld", i > 0 ? "," : "", from[i]);
    (void)printf("]%s", end);
}

int main(int argc, char **argv)
{
    static struct net_setup boxes[COUNT_MAX];
    static long long added[COUNT_MAX], removed[COUNT_MAX];
    struct net_config config = {.lock_dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    struct rlimit files = {.rlim_cur = 2UL * COUNT_MAX, .rlim_max = 2UL * COUNT_MAX};
    int count = argc > 1 ? atoi(argv[1]) : 0, home;
    struct net *n = NULL;

    if (count < 2 * PART || count > COUNT_MAX)
        return 2;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    make_host();
    home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (net_new(&config, &n, &err) < 0)
        die("network");
    for (int i = 0; i < count; i++) {
        int ns = make_namespace(home);
        long long start = now_ns();

        boxes[i].slot = (uint32_t)i;
        boxes[i].internet = 1;
        if (net_prepare(n, &boxes[i], &err) < 0 || net_add(n, &boxes[i], ns, &err) < 0)
            die("add");
        added[i] = now_ns() - start;
        /* ns stays open: the network lives */
    }
    for (int i = 0; i < count; i++) {
        long long start = now_ns();

        if (net_remove(n, &boxes[i], &err) < 0)
            die("remove");
        removed[i] = now_ns() - start;
    }
    net_free(n);
    (void)printf("{\"samples\":[");
    print(added, PART, ",");
    print(added + count - PART, PART, ",");
    print(removed, PART, ",");
    print(removed + count - PART, PART, "]}\n");
    return 0;
}
