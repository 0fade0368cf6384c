/*
 * The same work over the API of rind and of Docker, timed by one client: connections stay open, a
 * request is one send, an answer as few receives as it comes in. What Docker's API asks of every
 * client (three requests an exec, one of them on a connection of its own) is part of the work.
 *
 * usage: api rind|docker SOCKET ROOTFS VERB ARG…     (ROOTFS: a path for rind, an image for Docker)
 *   life RUNS              create and start, exec true, delete: [[total], [create], [exec],
 * [delete]] true RUNS              create and start `true`, wait for its end, delete: [[total]]
 *   exec RUNS NAME TRUE    in the running sandbox NAME: [[spawn of TRUE on the host], [forms…]]
 *   create RUNS            create and start, and delete untimed: [[create]]
 *   many COUNT             creates many-0 … at once, one connection each: [[total]]
 *   drop COUNT             deletes them so: [[total]]
 *   fill FROM TO           creates many-FROM … up to TO, a few at a time: [[total]]
 *   empty FROM TO          deletes them so: [[total]]
 *   streams COUNT MIB NAME COUNT execs at once, each streams MIB and is compared: [[total]]
 * prints {"samples":[[ns,…],…]}.
 */

#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "http.h"

extern char **environ;

enum {
    RUNS_MAX = 4000,
    SERIES_MAX = 4,
    THREADS_MAX = 1024,
    CLIENTS = 4, /* of fill and empty */
    STACK_SIZE = 256 << 10,
    ID_LEN = 80,
    TEXT_LEN = 1024,
    FRAME_STDOUT = 1,
    FRAME_STDERR = 2,
    FRAME_EXIT = 3,   /* rind's; Docker ends the connection instead */
    PATTERN = 1 << 16 /* block of `payload out` */
};

struct api {
    const char *socket, *root;
    /* Creates and starts `name` with the program as its main process; its id. */
    void (*create)(struct http *h, const char *name, const char *program, char id[ID_LEN]);
    void (*wait)(struct http *h, const char *id); /* for exit code 0 of the main process */
    void (*remove)(struct http *h, const char *id);
    int exec_forms;
    void (*exec)(struct http *h, int form, const char *id); /* /bin/true */
    /* A connection whose frames are what `payload out BYTES` says. */
    void (*stream)(struct http *h, const char *id, unsigned long long bytes);
};

static struct api api;

static int64_t now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

__attribute__((format(printf, 4, 5))) static int ask(struct http *h, const char *method,
                                                     const char *body, const char *target, ...)
{
    char text[TEXT_LEN];
    va_list args;
    int status;

    va_start(args, target);
    (void)vsnprintf(text, sizeof(text), target, args);
    va_end(args);
    status = http_ask(h, method, text, body);
    if (status < 200 || status > 299)
        fail("%s %s: %d %s", method, text, status, h->body);
    return status;
}

static void no_exit_but_0(const struct http *h, const char *key, const char *what)
{
    if (http_number(h, key) != 0)
        fail("%s: %s", what, h->body);
}

static struct http *client(void)
{
    struct http *h = malloc(sizeof(*h));

    if (h == NULL)
        fail("no memory");
    http_init(h, api.socket);
    return h;
}

static void client_end(struct http *h)
{
    http_close(h);
    free(h);
}

/* ---- rind ---- */

static void rind_create(struct http *h, const char *name, const char *program, char id[ID_LEN])
{
    char body[TEXT_LEN];

    (void)snprintf(body, sizeof(body),
                   "{\"name\":\"%s\",\"rootfs\":\"%s\",\"command\":[%s],\"start\":true}", name,
                   api.root, program);
    (void)ask(h, "POST", body, "/v1/sandboxes");
    http_string(h, "id", id, ID_LEN);
}

static void rind_wait(struct http *h, const char *id)
{
    (void)ask(h, "GET", NULL, "/v1/sandboxes/%s/wait", id);
    no_exit_but_0(h, "exitCode", "wait");
}

static void rind_remove(struct http *h, const char *id)
{
    (void)ask(h, "DELETE", NULL, "/v1/sandboxes/%s?force=true", id);
}

/* To the exit frame; what is said on the way goes to `check`. */
static void rind_frames(struct http *h, void (*check)(void *data, const char *, size_t), void *data)
{
    size_t left = 0, len, have = 0;
    const char *piece;
    int type = 0;

    while ((piece = http_frame(h, &type, &len, &left)) != NULL) {
        if (type == FRAME_STDOUT) {
            check(data, piece, len);
            continue;
        }
        if (have + len > HTTP_BODY_MAX)
            fail("a frame of type %d that is too long", type);
        (void)memcpy(h->body + have, piece, len);
        have += len;
        h->body[have] = '\0';
        if (left > 0)
            continue;
        if (type != FRAME_EXIT)
            fail("exec: %s", h->body);
        no_exit_but_0(h, "exitCode", "exec");
        return;
    }
    fail("exec: no exit frame");
}

static void nothing(void *data, const char *bytes, size_t len)
{
    (void)data;
    if (len > 0)
        fail("exec: unexpected output: %.*s", (int)len, bytes);
}

static void rind_exec(struct http *h, int form, const char *id)
{
    static const char body[] = "{\"argv\":[\"/bin/true\"]}";
    char target[TEXT_LEN];

    if (form == 0) {
        (void)ask(h, "POST", body, "/v1/sandboxes/%s/exec", id);
        no_exit_but_0(h, "exitCode", "exec");
        return;
    }
    (void)snprintf(target, sizeof(target), "/v1/sandboxes/%s/exec", id);
    http_upgrade(h, target, "rind-exec", body);
    rind_frames(h, nothing, NULL);
    http_close(h);
}

static void rind_stream(struct http *h, const char *id, unsigned long long bytes)
{
    char body[TEXT_LEN], target[TEXT_LEN];

    (void)snprintf(target, sizeof(target), "/v1/sandboxes/%s/exec", id);
    (void)snprintf(body, sizeof(body), "{\"argv\":[\"/bin/payload\",\"out\",\"%llu\"]}", bytes);
    http_upgrade(h, target, "rind-exec", body);
}

/* ---- Docker ---- */

static void docker_create(struct http *h, const char *name, const char *program, char id[ID_LEN])
{
    char body[TEXT_LEN];

    (void)snprintf(body, sizeof(body),
                   "{\"Image\":\"%s\",\"Cmd\":[%s],\"HostConfig\":{\"NetworkMode\":\"none\","
                   "\"Memory\":2147483648,\"PidsLimit\":1024,\"NanoCpus\":2000000000}}",
                   api.root, program);
    (void)ask(h, "POST", body, "/containers/create?name=%s", name);
    http_string(h, "Id", id, ID_LEN);
    (void)ask(h, "POST", NULL, "/containers/%s/start", id);
}

static void docker_wait(struct http *h, const char *id)
{
    (void)ask(h, "POST", NULL, "/containers/%s/wait", id);
    no_exit_but_0(h, "StatusCode", "wait");
}

static void docker_remove(struct http *h, const char *id)
{
    (void)ask(h, "DELETE", NULL, "/containers/%s?force=true", id);
}

/* Creates the exec and begins it on `stream`; its id. */
static void docker_begin(struct http *h, struct http *stream, const char *id, const char *argv,
                         char exec[ID_LEN])
{
    char text[TEXT_LEN];

    (void)snprintf(text, sizeof(text), "{\"AttachStdout\":true,\"AttachStderr\":true,\"Cmd\":[%s]}",
                   argv);
    (void)ask(h, "POST", text, "/containers/%s/exec", id);
    http_string(h, "Id", exec, ID_LEN);
    (void)snprintf(text, sizeof(text), "/exec/%s/start", exec);
    http_upgrade(stream, text, "tcp", "{\"Detach\":false,\"Tty\":false}");
}

static void docker_frames(struct http *h, void (*check)(void *data, const char *, size_t),
                          void *data)
{
    size_t left = 0, len;
    const char *piece;
    int type = 0;

    while ((piece = http_frame(h, &type, &len, &left)) != NULL) {
        if (type != FRAME_STDOUT)
            fail("exec: a frame of type %d: %.*s", type, (int)len, piece);
        check(data, piece, len);
    }
}

static void docker_exec(struct http *h, int form, const char *id)
{
    struct http *stream = client();
    char exec[ID_LEN];

    (void)form;
    docker_begin(h, stream, id, "\"/bin/true\"", exec);
    docker_frames(stream, nothing, NULL);
    client_end(stream);
    (void)ask(h, "GET", NULL, "/exec/%s/json", exec);
    no_exit_but_0(h, "ExitCode", "exec");
}

static void docker_stream(struct http *h, const char *id, unsigned long long bytes)
{
    struct http *first = client();
    char argv[TEXT_LEN], exec[ID_LEN];

    (void)snprintf(argv, sizeof(argv), "\"/bin/payload\",\"out\",\"%llu\"", bytes);
    docker_begin(first, h, id, argv, exec);
    client_end(first);
}

/* ---- what is measured ---- */

static int64_t samples[SERIES_MAX][RUNS_MAX];

static void print(int count, unsigned runs)
{
    printf("{\"samples\":[");
    for (int s = 0; s < count; s++) {
        printf("%s[", s > 0 ? "," : "");
        for (unsigned i = 0; i < runs; i++)
            printf("%s%lld", i > 0 ? "," : "", (long long)samples[s][i]);
        printf("]");
    }
    printf("]}\n");
}

static const char sleeper[] = "\"/bin/payload\",\"sleep\",\"1000000\"";

static void unique(char name[ID_LEN], unsigned i)
{
    (void)snprintf(name, ID_LEN, "bench-%d-%u", (int)getpid(), i);
}

static void life(unsigned runs)
{
    struct http *h = client();

    for (unsigned i = 0; i < runs; i++) {
        char name[ID_LEN], id[ID_LEN];
        int64_t t[4];

        unique(name, i);
        t[0] = now();
        api.create(h, name, sleeper, id);
        t[1] = now();
        api.exec(h, 0, id);
        t[2] = now();
        api.remove(h, id);
        t[3] = now();
        samples[0][i] = t[3] - t[0];
        for (int s = 1; s < 4; s++)
            samples[s][i] = t[s] - t[s - 1];
    }
    print(4, runs);
}

static void just_true(unsigned runs)
{
    struct http *h = client();

    for (unsigned i = 0; i < runs; i++) {
        char name[ID_LEN], id[ID_LEN];
        int64_t t = now();

        unique(name, i);
        api.create(h, name, "\"/bin/true\"", id);
        api.wait(h, id);
        api.remove(h, id);
        samples[0][i] = now() - t;
    }
    print(1, runs);
}

static void create(unsigned runs)
{
    struct http *h = client();

    for (unsigned i = 0; i < runs; i++) {
        char name[ID_LEN], id[ID_LEN];
        int64_t t = now();

        unique(name, i);
        api.create(h, name, sleeper, id);
        samples[0][i] = now() - t;
        api.remove(h, id);
    }
    print(1, runs);
}

static void spawn(const char *path)
{
    char *const argv[] = {(char *)(uintptr_t)path, NULL};
    int status = -1;
    pid_t pid;

    if (posix_spawn(&pid, path, NULL, NULL, argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        fail("spawn %s", path);
}

static void exec(unsigned runs, const char *id, const char *path)
{
    struct http *h = client();
    int forms = api.exec_forms;

    for (int f = 0; f < forms; f++)
        api.exec(h, f, id);
    for (unsigned i = 0; i < runs; i++) {
        int64_t t = now();

        spawn(path);
        samples[0][i] = now() - t;
        for (int f = 0; f < forms; f++) {
            t = now();
            api.exec(h, f, id);
            samples[1 + f][i] = now() - t;
        }
    }
    print(1 + forms, runs);
}

/* ---- many at a time ---- */

static pthread_barrier_t begin;

/* Connects nothing beforehand: whoever has many clients has many connections to take. */
static int64_t at_once(unsigned count, void *(*job)(void *))
{
    static pthread_t threads[THREADS_MAX];
    pthread_attr_t attr;
    int64_t t;

    if (count < 1 || count > THREADS_MAX)
        fail("1 to %d at once", THREADS_MAX);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK_SIZE);
    (void)pthread_barrier_init(&begin, NULL, count + 1);
    for (unsigned i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attr, job, (void *)(uintptr_t)i) != 0)
            fail("start a thread");
    (void)pthread_barrier_wait(&begin);
    t = now();
    for (unsigned i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    return now() - t;
}

static void many_name(char name[ID_LEN], void *number)
{
    (void)snprintf(name, ID_LEN, "many-%u", (unsigned)(uintptr_t)number);
}

static void *create_one(void *number)
{
    struct http *h = client();
    char name[ID_LEN], id[ID_LEN];

    many_name(name, number);
    (void)pthread_barrier_wait(&begin);
    api.create(h, name, sleeper, id);
    client_end(h);
    return NULL;
}

static void *remove_one(void *number)
{
    struct http *h = client();
    char name[ID_LEN];

    many_name(name, number);
    (void)pthread_barrier_wait(&begin);
    api.remove(h, name);
    client_end(h);
    return NULL;
}

/* A range of them, a few at a time, each client on one connection. */
static atomic_uint next_number;
static unsigned end_number;
static bool filling;

static void *some(void *unused)
{
    struct http *h = client();
    unsigned i;

    (void)unused;
    (void)pthread_barrier_wait(&begin);
    while ((i = atomic_fetch_add(&next_number, 1)) < end_number) {
        char name[ID_LEN], id[ID_LEN];

        many_name(name, (void *)(uintptr_t)i);
        if (filling)
            api.create(h, name, sleeper, id);
        else
            api.remove(h, name);
    }
    client_end(h);
    return NULL;
}

static void range(bool fill, unsigned from, unsigned to)
{
    filling = fill;
    atomic_store(&next_number, from);
    end_number = to;
    samples[0][0] = at_once(CLIENTS, some);
    print(1, 1);
}

struct check {
    unsigned long long at; /* bytes seen */
};

static unsigned char pattern[PATTERN];

/* As tests/payload/io.c makes it: block i begins with the 8-byte little-endian number i. */
static void compare(void *data, const char *bytes, size_t len)
{
    struct check *c = data;

    while (len > 0) {
        size_t in = c->at % PATTERN, n = PATTERN - in < len ? PATTERN - in : len;

        if (in < 8) {
            unsigned char want = (unsigned char)((c->at / PATTERN) >> (8 * in));

            n = 1;
            if ((unsigned char)bytes[0] != want)
                fail("stream: byte %llu is wrong", c->at);
        } else if (memcmp(bytes, pattern + in, n) != 0) {
            fail("stream: a byte behind %llu is wrong", c->at);
        }
        c->at += n;
        bytes += n;
        len -= n;
    }
}

static const char *stream_id;
static unsigned long long stream_bytes;
static bool stream_has_exit;

static void *stream_one(void *number)
{
    struct http *h = client();
    struct check c = {0};

    (void)number;
    (void)pthread_barrier_wait(&begin);
    api.stream(h, stream_id, stream_bytes);
    if (stream_has_exit)
        rind_frames(h, compare, &c);
    else
        docker_frames(h, compare, &c);
    if (c.at != stream_bytes)
        fail("stream: %llu bytes of %llu", c.at, stream_bytes);
    client_end(h);
    return NULL;
}

static void streams(unsigned count, unsigned mib, const char *id)
{
    unsigned char x = 0;

    for (size_t i = 8; i < PATTERN; i++) {
        pattern[i] = x;
        x = (unsigned char)(x * 5 + 1);
    }
    stream_id = id;
    stream_bytes = (unsigned long long)mib << 20;
    stream_has_exit = api.stream == rind_stream;
    samples[0][0] = at_once(count, stream_one);
    print(1, 1);
}

/* ---- the command line ---- */

static unsigned number(const char *text)
{
    unsigned long n = strtoul(text, NULL, 10);

    if (n > RUNS_MAX)
        fail("'%s': at most %d", text, RUNS_MAX);
    return (unsigned)n;
}

static void choose(const char *name)
{
    if (strcmp(name, "rind") == 0)
        api = (struct api){.create = rind_create,
                           .wait = rind_wait,
                           .remove = rind_remove,
                           .exec_forms = 2,
                           .exec = rind_exec,
                           .stream = rind_stream};
    else if (strcmp(name, "docker") == 0)
        api = (struct api){.create = docker_create,
                           .wait = docker_wait,
                           .remove = docker_remove,
                           .exec_forms = 1,
                           .exec = docker_exec,
                           .stream = docker_stream};
    else
        fail("'%s': rind or docker", name);
}

int main(int argc, char **argv)
{
    const char *verb = argc >= 6 ? argv[4] : "";
    unsigned n;

    if (argc < 6)
        fail("usage: api rind|docker SOCKET ROOTFS VERB COUNT ARG…");
    choose(argv[1]);
    api.socket = argv[2];
    api.root = argv[3];
    n = number(argv[5]);
    if (strcmp(verb, "life") == 0) {
        life(n);
    } else if (strcmp(verb, "true") == 0) {
        just_true(n);
    } else if (strcmp(verb, "create") == 0) {
        create(n);
    } else if (strcmp(verb, "exec") == 0 && argc == 8) {
        exec(n, argv[6], argv[7]);
    } else if (strcmp(verb, "many") == 0 || strcmp(verb, "drop") == 0) {
        samples[0][0] = at_once(n, verb[0] == 'm' ? create_one : remove_one);
        print(1, 1);
    } else if ((strcmp(verb, "fill") == 0 || strcmp(verb, "empty") == 0) && argc == 7) {
        range(verb[0] == 'f', n, number(argv[6]));
    } else if (strcmp(verb, "streams") == 0 && argc == 8) {
        streams(n, number(argv[6]), argv[7]);
    } else {
        fail("'%s': no such verb, or other arguments", verb);
    }
    return 0;
}
