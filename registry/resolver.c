/*
 * The resolver behind resolver.h. Runs in the threads of rind-registry, which block here.
 */
#include "resolver.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/number.h"
#include "lookup-message.h"

enum {
    SERVERS_MAX = 3,
    SEARCH_MAX = 6,
    KEPT_MAX = 32,
    KEPT_MS = 60000,
    ROUND_MS = 2500, /* one attempt at one server */
    LOOK_MS = 100,   /* between two looks at `canceled` */
    NAME_ROOM = 256,
    ANSWER_MAX = 65535,
    DNS_PORT = 53,
};

struct kept_name {
    char name[NAME_ROOM];
    struct address addresses[RESOLVER_ADDRESSES_MAX];
    size_t count;
    int64_t until;
};

struct resolver {
    char *hosts; /* owned */
    struct address servers[SERVERS_MAX];
    size_t server_count;
    char search[SEARCH_MAX][NAME_ROOM];
    size_t search_count;
    int ndots;
    pthread_mutex_t lock; /* of what is kept */
    struct kept_name kept[KEPT_MAX];
    size_t next;
};

/* A lookup by one thread. */
struct lookup {
    struct resolver *r;
    int64_t due; /* monotonic ms */
    bool (*canceled)(void *data);
    void *data;
    struct address *found;
    size_t count;
};

/* ---- the files ---- */

static void resolver_add_search(struct resolver *r, char *words)
{
    char *save = NULL;

    r->search_count = 0; /* the last line counts */
    for (char *w = strtok_r(words, " \t", &save); w != NULL; w = strtok_r(NULL, " \t", &save)) {
        size_t len = strlen(w);

        while (len > 0 && w[len - 1] == '.')
            w[--len] = '\0';
        if (len > 0 && len < NAME_ROOM && r->search_count < SEARCH_MAX)
            (void)snprintf(r->search[r->search_count++], sizeof(r->search[r->search_count++]), "%s",
                           w);
    }
}

static void resolver_add_line(struct resolver *r, char *line)
{
    struct address a;
    char *ndots;

    line[strcspn(line, "#;")] = '\0';
    if (strncmp(line, "nameserver", 10) == 0 && isspace((unsigned char)line[10])) {
        char *at = line + 10 + strspn(line + 10, " \t");

        at[strcspn(at, " \t\r%")] = '\0';
        if (r->server_count < SERVERS_MAX && address_parse_host(at, &a) == 0) {
            a.port = DNS_PORT;
            r->servers[r->server_count++] = a;
        }
    } else if ((strncmp(line, "search", 6) == 0 || strncmp(line, "domain", 6) == 0) &&
               isspace((unsigned char)line[6])) {
        resolver_add_search(r, line + 6);
    } else if (strncmp(line, "options", 7) == 0 && (ndots = strstr(line, "ndots:")) != NULL) {
        r->ndots = isdigit((unsigned char)ndots[6]) ? ndots[6] - '0' : 1;
    }
}

struct resolver *resolver_new(const char *resolv_conf, const char *hosts)
{
    auto_ptr(resolver_free) struct resolver *r = calloc(1, sizeof(*r));
    auto_free char *text = strdup(resolv_conf);
    char *save = NULL;

    if (r == NULL || text == NULL)
        return NULL;
    (void)pthread_mutex_init(&r->lock, NULL);
    r->ndots = 1;
    r->hosts = strdup(hosts);
    if (r->hosts == NULL)
        return NULL;
    for (char *l = strtok_r(text, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save))
        resolver_add_line(r, l);
    if (r->server_count == 0) { /* as resolv.conf(5) says */
        (void)address_parse("127.0.0.1:53", &r->servers[0]);
        r->server_count = 1;
    }
    return take(r);
}

void resolver_free(struct resolver *r)
{
    if (r == NULL)
        return;
    (void)pthread_mutex_destroy(&r->lock);
    free(r->hosts);
    free(r);
}

/* ---- addresses of a lookup ---- */

static void lookup_add(struct lookup *l, const struct address *a)
{
    for (size_t i = 0; i < l->count; i++)
        if (address_equal(&l->found[i], a))
            return;
    if (l->count < RESOLVER_ADDRESSES_MAX)
        l->found[l->count++] = *a;
}

static void lookup_in_hosts(struct lookup *l, const char *name)
{
    const char *line = l->r->hosts;
    const size_t len = strlen(name);

    while (*line != '\0') {
        size_t line_len = strcspn(line, "\n"), code = strcspn(line, "#\n");
        const char *at = line + strspn(line, " \t"), *end = line + code;
        char text[ADDRESS_TEXT_MAX];
        size_t word = strcspn(at, " \t\r\n#%");
        struct address a;
        bool address = word < sizeof(text);

        if (address) {
            (void)memcpy(text, at, word);
            text[word] = '\0';
            address = address_parse_host(text, &a) == 0;
        }
        for (at += word; address && at < end;) {
            at += strspn(at, " \t\r");
            word = strcspn(at, " \t\r\n#");
            if (word == len && at + word <= end && strncasecmp(at, name, len) == 0)
                lookup_add(l, &a);
            if (word == 0)
                break;
            at += word;
        }
        line += line_len;
        if (*line == '\n')
            line++;
    }
}

/* ---- name servers ---- */

/* Waits for one of the events. 1, 0 at the time's end, or -ECANCELED. */
static int lookup_wait(const struct lookup *l, int fd, short events, int64_t until)
{
    if (until > l->due)
        until = l->due;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int64_t left = until - clock_mono_ms();

        if (l->canceled(l->data))
            return -ECANCELED;
        if (left <= 0)
            return 0;
        if (poll(&p, 1, left < LOOK_MS ? (int)left : LOOK_MS) > 0)
            return 1;
    }
}

static int server_connect(const struct address *server, int type)
{
    struct sockaddr_storage to;
    socklen_t len = address_socket(server, &to);
    int fd = socket(to.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS) {
        int r = -errno;

        (void)close(fd);
        return r;
    }
    return fd;
}

/* Reads or writes all of a buffer. */
static int lookup_transfer(const struct lookup *l, int fd, uint8_t *data, size_t len, bool out,
                           int64_t until)
{
    while (len > 0) {
        int r = lookup_wait(l, fd, out ? POLLOUT : POLLIN, until);
        ssize_t n;

        if (r <= 0)
            return r < 0 ? r : -ETIMEDOUT;
        n = out ? send(fd, data, len, MSG_NOSIGNAL) : recv(fd, data, len, 0);
        if (n == 0)
            return -EPIPE;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* The same question by TCP, for an answer that does not fit a packet. */
static int lookup_by_tcp(struct lookup *l, const struct address *server, uint8_t *question,
                         size_t len, struct lookup_answer *ret)
{
    auto_close int fd = server_connect(server, SOCK_STREAM);
    auto_free uint8_t *data = malloc(ANSWER_MAX);
    const int64_t until = clock_mono_ms() + ROUND_MS;
    uint8_t size[2] = {(uint8_t)(len >> 8), (uint8_t)len};
    size_t answer;
    int r;

    if (fd < 0 || data == NULL)
        return fd < 0 ? fd : -ENOMEM;
    r = lookup_transfer(l, fd, size, 2, true, until);
    if (r == 0)
        r = lookup_transfer(l, fd, question, len, true, until);
    if (r == 0)
        r = lookup_transfer(l, fd, size, 2, false, until);
    if (r < 0)
        return r;
    answer = (size_t)size[0] << 8 | size[1];
    r = lookup_transfer(l, fd, data, answer, false, until);
    return r < 0 ? r : lookup_read(data, answer, question, len, ret);
}

/* One server, one kind of address. 0: it has answered. */
static int lookup_ask(struct lookup *l, const struct address *server, const char *name, int type,
                      struct lookup_answer *ret)
{
    auto_close int fd = server_connect(server, SOCK_DGRAM);
    const int64_t until = clock_mono_ms() + ROUND_MS;
    uint8_t question[LOOKUP_QUESTION_MAX], data[4096];
    uint16_t id = 0;
    int len, r;

    if (fd < 0)
        return fd;
    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        return -EIO;
    len = lookup_write(name, type, id, question);
    if (len < 0)
        return len;
    if (send(fd, question, (size_t)len, MSG_NOSIGNAL) != len)
        return -errno;
    for (;;) {
        ssize_t n;

        r = lookup_wait(l, fd, POLLIN, until);
        if (r <= 0)
            return r < 0 ? r : -ETIMEDOUT;
        n = recv(fd, data, sizeof(data), 0);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno; /* ECONNREFUSED: nothing listens */
        /* Other packets, of whatever sender, are ignored. */
        if (n > 0 && lookup_read(data, (size_t)n, question, (size_t)len, ret) == 0)
            break;
    }
    return ret->truncated ? lookup_by_tcp(l, server, question, (size_t)len, ret) : 0;
}

/* A full name at the name servers. 0: it has addresses or does not exist. */
static int lookup_by_dns(struct lookup *l, const char *name)
{
    static const int types[] = {LOOKUP_TYPE_A, LOOKUP_TYPE_AAAA};
    int r = -ETIMEDOUT;

    for (size_t i = 0; i < 2 * l->r->server_count; i++) {
        const struct address *server = &l->r->servers[i % l->r->server_count];
        bool answered = false;

        for (size_t t = 0; t < 2; t++) {
            struct lookup_answer a = {.count = 0};

            r = lookup_ask(l, server, name, types[t], &a);
            if (r == -ECANCELED)
                return r;
            if (r < 0 || (a.rcode != 0 && a.rcode != LOOKUP_NXDOMAIN)) {
                r = r < 0 ? r : -EREMOTEIO;
                break;
            }
            answered = t == 1 || a.rcode == LOOKUP_NXDOMAIN;
            for (size_t k = 0; k < a.count; k++)
                lookup_add(l, &a.addresses[k]);
            if (answered)
                break;
        }
        if (answered || l->count > 0)
            return 0;
        if (clock_mono_ms() >= l->due)
            return -ETIMEDOUT;
    }
    return r;
}

/* The name as it is, and with the domains of `search`, in the order of resolv.conf(5). */
static int lookup_by_search(struct lookup *l, const char *name)
{
    char whole[2 * NAME_ROOM];
    int dots = 0, r = 0;
    const char *c;

    for (c = name; *c != '\0'; c++)
        dots += *c == '.';
    if (dots >= l->r->ndots || l->r->search_count == 0) {
        r = lookup_by_dns(l, name);
        if (r < 0 || l->count > 0)
            return r;
    }
    for (size_t i = 0; i < l->r->search_count && dots < l->r->ndots + 1 && c[-1] != '.'; i++) {
        (void)snprintf(whole, sizeof(whole), "%s.%s", name, l->r->search[i]);
        r = lookup_by_dns(l, whole);
        if (r < 0 || l->count > 0)
            return r;
    }
    return dots < l->r->ndots && l->r->search_count > 0 ? lookup_by_dns(l, name) : r;
}

/* ---- kept answers ---- */

static size_t resolver_recall(struct resolver *r, const char *name,
                              struct address ret[RESOLVER_ADDRESSES_MAX])
{
    size_t count = 0;

    (void)pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (r->kept[i].count > 0 && r->kept[i].until > clock_mono_ms() &&
            strcmp(r->kept[i].name, name) == 0) {
            count = r->kept[i].count;
            (void)memcpy(ret, r->kept[i].addresses, count * sizeof(*ret));
        }
    (void)pthread_mutex_unlock(&r->lock);
    return count;
}

static void resolver_keep(struct resolver *r, const char *name, const struct address *addresses,
                          size_t count)
{
    struct kept_name *k;

    (void)pthread_mutex_lock(&r->lock);
    k = &r->kept[r->next++ % KEPT_MAX];
    (void)snprintf(k->name, sizeof(k->name), "%s", name);
    (void)memcpy(k->addresses, addresses, count * sizeof(*addresses));
    k->count = count;
    k->until = clock_mono_ms() + KEPT_MS;
    (void)pthread_mutex_unlock(&r->lock);
}

int resolver_find(struct resolver *r, const char *name, int most_ms, bool (*canceled)(void *data),
                  void *data, struct address ret[RESOLVER_ADDRESSES_MAX], struct err *err)
{
    struct lookup l = {
        .r = r, .due = clock_mono_ms() + most_ms, .canceled = canceled, .data = data, .found = ret};
    struct address a;
    int n;

    if (address_parse_host(name, &a) == 0) {
        ret[0] = a;
        return 1;
    }
    if (strlen(name) >= NAME_ROOM)
        return err_set(err, -ENOENT, "no such host");
    l.count = resolver_recall(r, name, ret);
    if (l.count > 0)
        return (int)l.count;
    lookup_in_hosts(&l, name);
    if (l.count == 0 &&
        (strcmp(name, "localhost") == 0 ||
         (strlen(name) > 10 && strcmp(name + strlen(name) - 10, ".localhost") == 0))) {
        (void)address_parse_host("127.0.0.1", &a);
        lookup_add(&l, &a);
        (void)address_parse_host("::1", &a);
        lookup_add(&l, &a);
    }
    n = l.count == 0 ? lookup_by_search(&l, name) : 0;
    if (n == -ECANCELED)
        return err_set(err, n, "canceled");
    if (l.count == 0)
        return n < 0 ? err_errno(err, n, "the name servers do not answer")
                     : err_set(err, -ENOENT, "no such host");
    resolver_keep(r, name, ret, l.count);
    return (int)l.count;
}
