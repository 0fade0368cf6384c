/* Bytes in, bytes out: patterns that show loss and disorder, stdin to its end, stdout kept by a
 * child. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "payload.h"

enum { BLOCK = 1 << 16 };
static unsigned char block[BLOCK];

static int write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/*
 * Block i of the pattern: the 8-byte little-endian number i, then bytes that depend only on their
 * place (x = x * 5 + 1 from 0). harness.py makes the same, so lost, doubled and moved blocks show.
 */
static int cmd_out(int argc, char **argv)
{
    unsigned long long left = (unsigned long long)number(argc > 1 ? argv[1] : "0");
    int fd = argc > 2 ? (int)number(argv[2]) : 1;
    unsigned char x = 0;

    for (size_t i = 8; i < BLOCK; i++) {
        block[i] = x;
        x = (unsigned char)(x * 5 + 1);
    }
    for (unsigned long long i = 0; left > 0; i++) {
        size_t n = left < BLOCK ? (size_t)left : BLOCK;

        for (int b = 0; b < 8; b++)
            block[b] = (unsigned char)(i >> (8 * b));
        if (write_all(fd, block, n) < 0)
            return complain("write");
        left -= n;
    }
    return 0;
}

/* The same into a pipe of a mebibyte: most of it is still there when this process has ended. */
static int cmd_roomy(int argc, char **argv)
{
    if (fcntl(1, F_SETPIPE_SZ, 1 << 20) < 0)
        return complain("pipe");
    return cmd_out(argc, argv);
}

/* Waits until its stdout has no reader any more, and says so in a file, without writing to it. */
static int cmd_unread(int argc, char **argv)
{
    struct pollfd p = {.fd = 1};
    int fd;

    puts("waits");
    (void)fflush(stdout);
    (void)poll(&p, 1, -1);
    fd = open(argc > 1 ? argv[1] : "", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd < 0 || write_all(fd, "gone\n", 5) < 0 ? complain("file") : 0;
}

/* Each write is read alone (pipe2(2), O_DIRECT), and begins with its number. */
static int cmd_packets(int argc, char **argv)
{
    long long count = number(argc > 1 ? argv[1] : "1");
    size_t size = (size_t)number(argc > 2 ? argv[2] : "1000");

    while (argc > 3 && access(argv[3], F_OK) < 0)
        nap(0.01);
    if (size > BLOCK || fcntl(1, F_SETFL, O_DIRECT) < 0)
        return complain("packets");
    for (long long i = 0; i < count; i++) {
        (void)memset(block, '.', size);
        (void)snprintf((char *)block, size, "%lld\n", i);
        if (write_all(1, block, size) < 0)
            return complain("write");
    }
    return 0;
}

/* Holds the lock of its own pipe for as long as it lives, or for so many milliseconds each time,
 * amidst output in bulk: a splice from a socket that says nothing, or to one that takes nothing,
 * sleeps with it. */
static int cmd_hog(int argc, char **argv)
{
    bool out = argc > 1 && strcmp(argv[1], "out") == 0;
    int pair[2], own = -1;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        return complain("socketpair");
    if (argc > 2 && fork() == 0)
        for (;;) {
            (void)usleep((useconds_t)number(argv[2]) * 1000);
            if (write(pair[1], "x", 1) != 1)
                return complain("write");
        }
    while (out && send(pair[0], block, BLOCK, MSG_DONTWAIT) > 0)
        ;
    if (out && (own = open("/proc/self/fd/1", O_RDONLY | O_CLOEXEC)) < 0)
        return complain("its own output");
    if (fcntl(1, F_SETPIPE_SZ, 16 * BLOCK) < 0 || fcntl(1, F_SETFL, 0) < 0)
        return complain("pipe");
    if (out && fork() == 0) /* the reader may have emptied the pipe: splice then waits unlocked */
        for (;;)
            if (write_all(1, block, BLOCK) < 0)
                return complain("write");
    for (;;) {
        for (int i = 0; i < 64; i++)
            if (write_all(1, block, BLOCK) < 0)
                return complain("write");
        if (out ? splice(own, NULL, pair[0], NULL, BLOCK, 0) < 0
                : splice(pair[0], NULL, 1, NULL, BLOCK, 0) < 0)
            return complain("splice");
    }
}

static int cmd_seq(int argc, char **argv)
{
    long long last = argc > 2 ? number(argv[2]) : 10;

    for (long long i = argc > 1 ? number(argv[1]) : 1; i <= last; i++)
        printf("%lld\n", i);
    return 0;
}

/* Line i goes to both streams, unbuffered: neither may lose or reorder its own lines. */
static int cmd_both(int argc, char **argv)
{
    long long last = argc > 1 ? number(argv[1]) : 10;

    for (long long i = 1; i <= last; i++) {
        char line[64];
        int n = snprintf(line, sizeof(line), "line %lld\n", i);

        if (write_all(1, line, (size_t)n) < 0 || write_all(2, line, (size_t)n) < 0)
            return 1;
    }
    return 0;
}

static uint32_t crc32(uint32_t crc, const unsigned char *p, size_t len)
{
    static uint32_t t[256];

    for (uint32_t i = 0; t[255] == 0 && i < 256; i++) {
        t[i] = i;
        for (int k = 0; k < 8; k++)
            t[i] = (t[i] & 1) != 0 ? 0xedb88320U ^ (t[i] >> 1) : t[i] >> 1;
    }
    crc = ~crc;
    for (size_t i = 0; i < len; i++)
        crc = t[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
    return ~crc;
}

static int cmd_sink(int argc, char **argv)
{
    unsigned long long len = 0;
    uint32_t crc = 0;
    ssize_t n;

    (void)argc;
    (void)argv;
    while ((n = read(0, block, sizeof(block))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return complain("read");
        crc = crc32(crc, block, (size_t)n);
        len += (unsigned long long)n;
    }
    js_open(NULL, '{');
    js_int("len", (long long)len);
    js_int("crc", crc);
    js_close('}');
    putchar('\n');
    return 0;
}

static int cmd_copy(int argc, char **argv)
{
    ssize_t n;

    (void)argc;
    (void)argv;
    while ((n = read(0, block, sizeof(block))) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || write_all(1, block, (size_t)n) < 0)
            return complain("copy");
    }
    return 0;
}

static int cmd_echo(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        printf("%s%s", argv[i], i + 1 < argc ? " " : "");
    putchar('\n');
    return 0;
}

/* Says "hi" and leaves, while a child keeps stdout and stderr open (case E01). */
static int cmd_bgout(int argc, char **argv)
{
    double seconds = argc > 1 ? (double)number(argv[1]) : 60;
    pid_t pid = fork();

    if (pid < 0)
        return complain("fork");
    if (pid == 0) {
        nap(seconds);
        _exit(0);
    }
    puts("hi");
    return argc > 2 ? (int)number(argv[2]) : 0;
}

static int cmd_true(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

static int cmd_exit(int argc, char **argv)
{
    return argc > 1 ? (int)number(argv[1]) : 0;
}

static int cmd_sleep(int argc, char **argv)
{
    puts("ready");
    fflush(stdout);
    nap(argc > 1 ? atof(argv[1]) : 60);
    return 0;
}

/* Becomes another program; the shell's 127 and 126 when it cannot. */
static int cmd_exec(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    execv(argv[1], argv + 1);
    (void)complain(argv[1]);
    return errno == ENOENT ? 127 : 126;
}

/* Runs commands one after the other, each up to a word `++`; the last one's status. */
static int cmd_each(int argc, char **argv)
{
    int status = 0;

    for (int i = 1; i < argc; i++) {
        int first = i;
        char *end;
        pid_t pid;

        while (i < argc && strcmp(argv[i], "++") != 0)
            i++;
        end = argv[i]; /* argv[argc] is NULL */
        argv[i] = NULL;
        argv[first - 1] = (char *)(uintptr_t) "payload";
        pid = fork();
        if (pid < 0)
            return complain("fork");
        if (pid == 0) {
            execv("/proc/self/exe", argv + first - 1);
            _exit(126);
        }
        waitpid(pid, &status, 0);
        if (end == NULL)
            break;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

const struct cmd io_cmds[] = {
    {"out", cmd_out, "BYTES [FD]: the block pattern"},
    {"roomy", cmd_roomy, "BYTES: the block pattern, into a pipe of a mebibyte"},
    {"unread", cmd_unread, "FILE: makes it when its stdout has no reader any more"},
    {"packets", cmd_packets, "COUNT SIZE [FILE]: each is read alone; once FILE is there"},
    {"hog", cmd_hog, "in|out [MS]: holds the lock of its stdout's pipe"},
    {"seq", cmd_seq, "FIRST LAST"},
    {"both", cmd_both, "LINES: the same lines on stdout and stderr"},
    {"sink", cmd_sink, ": stdin to its end; length and CRC-32"},
    {"copy", cmd_copy, ": stdin to stdout"},
    {"echo", cmd_echo, "WORD…"},
    {"bgout", cmd_bgout, "SECONDS [STATUS]: leaves a child that keeps stdout"},
    {"true", cmd_true, ""},
    {"exit", cmd_exit, "STATUS"},
    {"sleep", cmd_sleep, "SECONDS: says ready first"},
    {"exec", cmd_exec, "PATH ARG…"},
    {"each", cmd_each, "COMMAND ARG… [++ COMMAND ARG…]…"},
    {0},
};
