#include "gateway/dns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "gateway/dns-message.h"
#include "gateway/endpoint.h"

enum {
    SOCKETS_MAX = 2, /* IPv4 and IPv6 */
    UDP_BATCH = 32,
    TCP_UNDER_WAY = 16, /* questions in progress per connection */
    /* Answered as if the name had no such record. HTTPS and SVCB hints (ECH, other names and
     * addresses, QUIC) lead clients to destinations that the rules deny, although the name
     * itself is allowed. */
    TYPE_SVCB = 64,
    TYPE_HTTPS = 65,
};

struct dns_query {
    struct dns *d;
    struct dns_query *next, **link;
    struct dns_question q;
    /* The asker: a datagram (socket, peer), a TCP client, or the supervisor (found). */
    int socket; /* the datagram's socket; -1: none */
    struct sockaddr_storage peer;
    socklen_t peer_len;
    struct dns_client *client; /* NULL: none, or already freed */
    dns_found_fn *found;
    void *who, **handle;

    enum egress_answer policy;
    struct fd_watch watch;
    int fd;        /* owned; connected to the name server */
    void *opening; /* handle of a pending ops->server */
    struct deadline clock;
    unsigned tries, index;
    bool udp, sent;
    uint16_t id;
    struct buf out, in; /* TCP messages include the length prefix */
    size_t out_at;
};

/* A TCP connection from inside the sandbox. */
struct dns_client {
    struct endpoint e;
    struct dns *d;
    struct dns_client *next, **link;
    struct deadline clock;
    unsigned under_way;
};

struct dns_cached {
    uint8_t *data; /* owned; NULL = free */
    size_t len;
    struct dns_question q;
    uint64_t since, until; /* ms */
    struct dns_answer answer;
};

struct dns_socket {
    struct fd_watch watch; /* first */
    struct dns *d;
    int fd; /* owned */
};

struct dns {
    struct evloop *evloop;
    const struct dns_ops *ops;
    void *data;
    struct dns_socket sockets[SOCKETS_MAX];
    unsigned socket_count;
    struct dns_query *queries;
    unsigned query_count;
    struct dns_client *clients;
    unsigned client_count;
    struct dns_cached *cache[DNS_CACHE];
    unsigned servers; /* number of name servers; 0 = not known yet */
    unsigned per_second, tokens;
    uint64_t refilled;
};

static uint64_t dns_now(const struct dns *d)
{
    return uv_now(evloop_uv(d->evloop));
}

/* ---- the end of a question ---- */

static void drop_server(struct dns_query *q)
{
    if (q->opening != NULL)
        q->d->ops->cancel(take(q->opening));
    watch_remove(&q->watch);
    if (q->fd >= 0)
        (void)close(take_fd(&q->fd));
    buf_done(&q->in);
    buf_done(&q->out);
    q->out_at = 0;
    q->sent = false;
}

static void client_step(struct dns_client *c);

static void query_free(struct dns_query *q)
{
    drop_server(q);
    deadline_clear(&q->clock);
    list_remove(q);
    q->d->query_count--;
    if (q->handle != NULL)
        *q->handle = NULL;
    free(q);
}

void dns_cancel(struct dns_query *q)
{
    if (q == NULL)
        return;
    q->handle = NULL;
    query_free(q);
}

static void client_queue(struct dns_client *c, const struct buf *answer)
{
    const uint8_t be[2] = {(uint8_t)(answer->len >> 8), (uint8_t)answer->len};

    if (buf_append(&c->e.out, be, 2) < 0 || buf_append(&c->e.out, answer->data, answer->len) < 0)
        c->e.failed = true;
}

static void query_found(struct dns_query *q, int r, const struct net_addr *a, size_t count)
{
    dns_found_fn *cb = q->found;
    void *who = q->who;

    query_free(q);
    cb(who, r, a, count);
}

/* Sends the answer to the asker and frees the query. */
static void query_deliver(struct dns_query *q, const struct buf *answer)
{
    struct dns_client *c = q->client;

    if (q->socket >= 0)
        (void)sendto(q->socket, answer->data, answer->len, MSG_DONTWAIT | MSG_NOSIGNAL,
                     (const struct sockaddr *)(const void *)&q->peer, q->peer_len);
    if (c != NULL) {
        c->under_way--;
        client_queue(c, answer);
    }
    query_free(q);
    if (c != NULL)
        client_step(c);
}

static void query_fail(struct dns_query *q, enum dns_rcode rcode)
{
    auto_buf struct buf out = BUF_INIT(DNS_MESSAGE_MAX);

    if (q->found != NULL) {
        query_found(q, rcode == DNS_NXDOMAIN ? -ENOENT : -ETIMEDOUT, NULL, 0);
        return;
    }
    (void)dns_answer_make(&q->q, rcode, NULL, 0, 0, &out);
    query_deliver(q, &out);
}

static void query_stand_in(struct dns_query *q)
{
    auto_buf struct buf out = BUF_INIT(DNS_MESSAGE_MAX);
    struct net_addr a;
    bool has = (q->q.type == DNS_TYPE_A || q->q.type == DNS_TYPE_AAAA) &&
               q->d->ops->stand_in(q->d->data, q->q.name, q->q.type == DNS_TYPE_A ? 4 : 6, &a);

    if (has)
        q->d->ops->learned(q->d->data, q->q.name, &a, DNS_STAND_TTL_S);
    if (q->found != NULL) {
        query_found(q, has ? 0 : -ENOENT, &a, has ? 1 : 0);
        return;
    }
    (void)dns_answer_make(&q->q, DNS_NOERROR, &a, has ? 1 : 0, DNS_STAND_TTL_S, &out);
    query_deliver(q, &out);
}

/* No name server has answered. */
static void query_unanswered(struct dns_query *q)
{
    if (q->policy == EGRESS_ANSWER_STAND)
        query_stand_in(q);
    else
        query_fail(q, DNS_SERVFAIL);
}

static void query_answered(struct dns_query *q, const uint8_t *data, size_t len,
                           const struct dns_answer *a, uint32_t age)
{
    auto_buf struct buf out = BUF_INIT(DNS_MESSAGE_MAX);
    uint32_t ttl = a->ttl > age ? a->ttl - age : 0;

    if (q->policy == EGRESS_ANSWER_STAND && a->rcode == DNS_NXDOMAIN) {
        query_stand_in(q);
        return;
    }
    for (size_t i = 0; q->q.name[0] != '\0' && i < a->count; i++)
        q->d->ops->learned(q->d->data, q->q.name, &a->addresses[i], ttl);
    if (q->found != NULL) {
        query_found(q, a->count > 0 ? 0 : -ENOENT, a->addresses, a->count);
        return;
    }
    if (dns_answer_write(data, len, &q->q, age, q->socket >= 0, &out) < 0)
        query_fail(q, DNS_SERVFAIL);
    else
        query_deliver(q, &out);
}

/* ---- what is kept ---- */

static struct dns_cached **dns_cache_slot(struct dns *d, const struct dns_question *q)
{
    uint32_t h = hash_bytes(HASH_BEGIN ^ q->type, q->name, strlen(q->name));

    return &d->cache[(h ^ h >> 16) % DNS_CACHE];
}

static void cached_free(struct dns_cached *c)
{
    if (c == NULL)
        return;
    free(c->data);
    free(c);
}

static bool query_from_cache(struct dns_query *q)
{
    struct dns_cached *c = *dns_cache_slot(q->d, &q->q);
    uint64_t now = dns_now(q->d);

    if (c == NULL || q->q.name[0] == '\0' || c->until <= now || c->q.type != q->q.type ||
        c->q.dnssec != q->q.dnssec || c->q.no_check != q->q.no_check ||
        strcmp(c->q.name, q->q.name) != 0)
        return false;
    query_answered(q, c->data, c->len, &c->answer, (uint32_t)((now - c->since) / 1000));
    return true;
}

static void query_cache(struct dns_query *q, const uint8_t *data, size_t len,
                        const struct dns_answer *a)
{
    struct dns_cached **at = dns_cache_slot(q->d, &q->q), *c;
    uint32_t ttl = a->ttl < DNS_TTL_MOST_S ? a->ttl : DNS_TTL_MOST_S;

    if (ttl == 0 || len > DNS_CACHED_MAX || q->q.name[0] == '\0' ||
        (a->rcode != DNS_NOERROR && a->rcode != DNS_NXDOMAIN))
        return;
    c = calloc(1, sizeof(*c));
    if (c == NULL || (c->data = malloc(len)) == NULL) {
        free(c);
        return;
    }
    (void)memcpy(c->data, data, len);
    c->len = len;
    c->q = q->q;
    c->answer = *a;
    c->since = dns_now(q->d);
    c->until = c->since + ttl * UINT64_C(1000);
    cached_free(*at);
    *at = c;
}

/* ---- asking name servers ---- */

static void query_ask(struct dns_query *q);

static void query_try_next(struct dns_query *q)
{
    drop_server(q);
    q->tries++;
    q->index++;
    q->udp = true;
    if (q->tries >= DNS_TRIES)
        query_unanswered(q);
    else
        query_ask(q);
}

static void on_query_timeout(struct deadline *c)
{
    query_try_next((struct dns_query *)(void *)((char *)c - offsetof(struct dns_query, clock)));
}

/* Returns false if q was freed or sent to a server again. */
static bool query_take_answer(struct dns_query *q, const uint8_t *data, size_t len)
{
    struct dns_answer a;

    if (dns_answer_read(data, len, &q->q, q->id, &a) < 0)
        return true; /* stray or forged: the real answer may still come */
    if (a.truncated && q->udp) {
        drop_server(q);
        q->udp = false;
        query_ask(q);
        return false;
    }
    if (a.rcode == DNS_SERVFAIL || a.rcode == DNS_REFUSED || a.rcode == DNS_NOTIMP ||
        a.rcode == DNS_FORMERR) {
        if (q->tries + 1 < DNS_TRIES) {
            query_try_next(q);
            return false;
        }
    }
    query_cache(q, data, len, &a);
    query_answered(q, data, len, &a, 0);
    return false;
}

static int query_send(struct dns_query *q)
{
    ssize_t n;

    while (q->out_at < q->out.len) {
        n = send(q->fd, q->out.data + q->out_at, q->out.len - q->out_at,
                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN ? 0 : -errno;
        q->out_at += (size_t)n;
    }
    q->sent = true;
    return 0;
}

static void query_read_udp(struct dns_query *q)
{
    uint8_t data[4096];
    ssize_t n;

    while ((n = recv(q->fd, data, sizeof(data), MSG_DONTWAIT)) >= 0)
        if (!query_take_answer(q, data, (size_t)n))
            return;
    if (errno != EAGAIN && errno != EINTR)
        query_try_next(q); /* ICMP: no server listens there */
}

static void query_read_tcp(struct dns_query *q)
{
    static char scratch[16384];
    size_t want;
    ssize_t n;

    for (;;) {
        n = recv(q->fd, scratch, sizeof(scratch), MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0 || buf_append(&q->in, scratch, (size_t)n) < 0) {
            query_try_next(q);
            return;
        }
        if (q->in.len < 2)
            continue;
        want = (size_t)(uint8_t)q->in.data[0] << 8 | (uint8_t)q->in.data[1];
        if (q->in.len < want + 2)
            continue;
        if (query_take_answer(q, (const uint8_t *)q->in.data + 2, want))
            query_try_next(q);
        return;
    }
}

static void on_query_server_event(struct fd_watch *w, unsigned events)
{
    struct dns_query *q =
        (struct dns_query *)(void *)((char *)w - offsetof(struct dns_query, watch));

    if ((events & EPOLLERR) != 0 && !q->udp) {
        query_try_next(q);
        return;
    }
    if (!q->sent && query_send(q) < 0) {
        query_try_next(q);
        return;
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0 || !q->sent)
        return;
    if (q->udp)
        query_read_udp(q);
    else
        query_read_tcp(q);
}

static int query_prepare(struct dns_query *q)
{
    auto_buf struct buf message = BUF_INIT(DNS_MESSAGE_MAX);
    uint8_t be[2];
    int r;

    if (getrandom(&q->id, sizeof(q->id), 0) != (ssize_t)sizeof(q->id))
        return -EIO;
    q->out = (struct buf)BUF_INIT(DNS_MESSAGE_MAX + 2);
    q->in = (struct buf)BUF_INIT(DNS_MESSAGE_MAX + 2 + 16384);
    r = dns_query_write(&q->q, q->id, &message);
    be[0] = (uint8_t)(message.len >> 8);
    be[1] = (uint8_t)message.len;
    if (r == 0 && !q->udp)
        r = buf_append(&q->out, be, 2);
    return r < 0 ? r : buf_append(&q->out, message.data, message.len);
}

static void on_query_socket(void *who, int r, int fd, const struct err *err)
{
    struct dns_query *q = who;

    (void)err;
    q->opening = NULL;
    if (r == -ENOENT && q->index > 0) {
        q->d->servers = q->index;
        q->index = 0;
        query_ask(q);
        return;
    }
    if (r == 0) {
        q->fd = fd;
        r = query_prepare(q);
    }
    if (r == 0)
        r = watch_add(q->d->evloop, &q->watch, q->fd, on_query_server_event);
    if (r < 0)
        query_try_next(q);
}

static void query_ask(struct dns_query *q)
{
    struct err err = ERR_NONE;
    int r;

    if (q->d->servers > 0)
        q->index %= q->d->servers;
    deadline_set(q->d->evloop, &q->clock, DNS_TRY_MS, on_query_timeout);
    r = q->d->ops->server(q->d->data, q->index, q->udp, on_query_socket, q, &q->opening, &err);
    if (r == -ENOENT && q->index > 0) {
        q->d->servers = q->index;
        q->index = 0;
        r = q->d->ops->server(q->d->data, 0, q->udp, on_query_socket, q, &q->opening, &err);
    }
    if (r < 0)
        query_unanswered(q);
}

/* ---- questions ---- */

/* Not for the supervisor's own lookups, which are for destinations under rules. */
static bool query_from_local(struct dns_query *q)
{
    auto_buf struct buf out = BUF_INIT(DNS_MESSAGE_MAX);
    struct dns_local local = {.count = 0};
    int r;

    if (q->found != NULL || q->d->ops->local == NULL || q->q.name[0] == '\0' ||
        !q->d->ops->local(q->d->data, &q->q, &local))
        return false;
    if (local.name[0] != '\0')
        r = dns_answer_name(&q->q, local.name, DNS_LOCAL_TTL_S, &out);
    else
        r = dns_answer_make(&q->q, DNS_NOERROR, local.addresses, local.count, DNS_LOCAL_TTL_S,
                            &out);
    /* By UDP as many addresses as the client has room for; each is as good as another. */
    while (r == 0 && q->socket >= 0 && out.len > q->q.room && local.count > 1) {
        local.count /= 2;
        out.len = 0;
        r = dns_answer_make(&q->q, DNS_NOERROR, local.addresses, local.count, DNS_LOCAL_TTL_S,
                            &out);
    }
    if (r < 0)
        query_fail(q, DNS_SERVFAIL);
    else
        query_deliver(q, &out);
    return true;
}

static void query_begin(struct dns_query *q)
{
    if (query_from_local(q))
        return;
    q->policy = q->d->ops->policy(q->d->data, q->q.name);
    if (q->policy == EGRESS_ANSWER_NO)
        query_fail(q, DNS_NXDOMAIN);
    else if (q->policy == EGRESS_ANSWER_OWN)
        query_stand_in(q);
    else if (!q->d->ops->plain && (q->q.type == TYPE_HTTPS || q->q.type == TYPE_SVCB))
        query_fail(q, DNS_NOERROR);
    else if (!query_from_cache(q))
        query_ask(q);
}

/* Called before a question is parsed, which may take longer than to send it: what is malformed
 * counts, too. */
static bool dns_admit(struct dns *d)
{
    uint64_t now = dns_now(d);

    if (now - d->refilled >= 1000) {
        d->refilled = now;
        d->tokens = d->per_second;
    }
    if (d->query_count >= DNS_QUERIES) {
        d->ops->trouble(d->data, "questions for names under way");
        return false;
    }
    if (d->tokens == 0) {
        d->ops->trouble(d->data, "questions for names in a second");
        return false;
    }
    d->tokens--;
    return true;
}

static struct dns_query *query_new(struct dns *d)
{
    struct dns_query *q = calloc(1, sizeof(*q));

    if (q == NULL)
        return NULL;
    q->d = d;
    q->fd = q->socket = FD_NONE;
    q->udp = true;
    list_add(&d->queries, q);
    d->query_count++;
    return q;
}

static void socket_answer(int fd, const struct sockaddr_storage *peer, socklen_t len,
                          const struct dns_question *question, enum dns_rcode rcode)
{
    auto_buf struct buf out = BUF_INIT(DNS_MESSAGE_MAX);

    if (dns_answer_make(question, rcode, NULL, 0, 0, &out) == 0)
        (void)sendto(fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL,
                     (const struct sockaddr *)(const void *)peer, len);
}

static void on_socket_datagram(struct dns *d, int fd, const uint8_t *data, size_t len,
                               const struct sockaddr_storage *peer, socklen_t peer_len)
{
    struct dns_question question;
    struct dns_query *q;
    int rcode;

    if (!dns_admit(d))
        return;
    rcode = dns_question_read(data, len, &question);
    if (rcode < 0)
        return;
    if (rcode != DNS_NOERROR) {
        socket_answer(fd, peer, peer_len, &question, (enum dns_rcode)rcode);
        return;
    }
    q = query_new(d);
    if (q == NULL)
        return;
    q->q = question;
    q->socket = fd;
    q->peer = *peer;
    q->peer_len = peer_len;
    query_begin(q);
}

static void on_socket_readable(struct fd_watch *w, unsigned events)
{
    struct dns *d = ((struct dns_socket *)(void *)w)->d;
    uint8_t data[4096];

    (void)events;
    for (int i = 0; i < UDP_BATCH; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        ssize_t n = recvfrom(w->fd, data, sizeof(data), MSG_DONTWAIT,
                             (struct sockaddr *)(void *)&peer, &len);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n >= 0)
            on_socket_datagram(d, w->fd, data, (size_t)n, &peer, len);
    }
    watch_again(w);
}

void dns_lookup(struct dns *d, const char *name, int family, dns_found_fn *cb, void *who,
                struct dns_query **ret)
{
    struct dns_query *q = dns_admit(d) ? query_new(d) : NULL;
    char *at;

    *ret = NULL;
    if (q == NULL) {
        cb(who, -EAGAIN, NULL, 0);
        return;
    }
    q->found = cb;
    q->who = who;
    q->q = (struct dns_question){.type = family == 4 ? DNS_TYPE_A : DNS_TYPE_AAAA, .recurse = true};
    /* `name` comes from egress_name. On the wire a length byte takes the place of each dot. */
    (void)snprintf(q->q.name, sizeof(q->q.name), "%s", name);
    at = q->q.wire;
    for (const char *label = name; *label != '\0';) {
        size_t len = strcspn(label, ".");

        *at++ = (char)len;
        (void)memcpy(at, label, len);
        at += len;
        label += len + (label[len] == '.');
    }
    *at++ = '\0';
    q->q.wire_len = (size_t)(at - q->q.wire);
    q->handle = (void **)(void *)ret;
    *ret = q;
    query_begin(q);
}

/* ---- connections from inside ---- */

static void client_free(struct dns_client *c)
{
    struct dns *d = c->d;

    for (struct dns_query *q = d->queries, *next; q != NULL; q = next) {
        next = q->next;
        if (q->client == c)
            query_free(q);
    }
    endpoint_close(&c->e, c->e.failed);
    deadline_clear(&c->clock);
    list_remove(c);
    d->client_count--;
    free(c);
}

/* Returns false if the connection must be closed. */
static bool client_question(struct dns_client *c, const uint8_t *data, size_t len)
{
    auto_buf struct buf out = BUF_INIT(DNS_MESSAGE_MAX);
    struct dns_question question;
    struct dns_query *q;
    int rcode;

    if (!dns_admit(c->d))
        return false;
    rcode = dns_question_read(data, len, &question);
    if (rcode < 0)
        return false;
    if (rcode != DNS_NOERROR) {
        if (dns_answer_make(&question, (enum dns_rcode)rcode, NULL, 0, 0, &out) == 0)
            client_queue(c, &out);
        return true;
    }
    q = query_new(c->d);
    if (q == NULL)
        return false;
    q->q = question;
    q->client = c;
    c->under_way++;
    query_begin(q);
    return true;
}

/* Consumes one message. Returns false if none is complete; sets *bad if the connection must be
 * closed. */
static bool client_take_message(struct dns_client *c, bool *bad)
{
    uint8_t message[DNS_UDP_MOST * 2];
    size_t len;

    if (c->e.in.len < 2 || c->under_way >= TCP_UNDER_WAY)
        return false;
    len = (size_t)(uint8_t)c->e.in.data[0] << 8 | (uint8_t)c->e.in.data[1];
    if (len > sizeof(message)) {
        *bad = true; /* larger than any valid question */
        return false;
    }
    if (c->e.in.len < len + 2)
        return false;
    (void)memcpy(message, c->e.in.data + 2, len);
    endpoint_used(&c->e, len + 2);
    *bad = !client_question(c, message, len);
    return !*bad;
}

static void client_step(struct dns_client *c)
{
    static struct dns_client *inside; /* query_deliver calls back here from within query_begin */
    bool bad = false;

    if (inside == c)
        return;
    inside = c;
    do {
        while (client_take_message(c, &bad))
            ;
    } while (!bad && endpoint_read(&c->e, DNS_UDP_MOST * 2 + 2) && !c->e.failed);
    (void)endpoint_write(&c->e);
    inside = NULL;
    if (bad || c->e.failed || c->e.hung ||
        (c->e.eof && c->under_way == 0 && endpoint_queued(&c->e) == 0))
        client_free(c);
}

static void on_client_event(struct fd_watch *w, unsigned events)
{
    struct endpoint *e = (struct endpoint *)(void *)w;
    struct dns_client *c = e->owner;

    endpoint_event(e, events);
    client_step(c);
}

static void on_client_timeout(struct deadline *d)
{
    client_free((struct dns_client *)(void *)((char *)d - offsetof(struct dns_client, clock)));
}

void dns_adopt(struct dns *d, int fd)
{
    struct dns_client *c = NULL;

    if (d->client_count >= DNS_TCP_CLIENTS)
        d->ops->trouble(d->data, "connections that ask for names");
    else
        c = calloc(1, sizeof(*c));
    if (c == NULL || endpoint_open(&c->e, d->evloop, fd, NULL, on_client_event, c) < 0) {
        free(c);
        (void)close(fd);
        return;
    }
    c->d = d;
    list_add(&d->clients, c);
    d->client_count++;
    deadline_set(d->evloop, &c->clock, DNS_TCP_MS, on_client_timeout);
}

/* ---- life ---- */

int dns_serve(struct dns *d, int fd, struct err *err)
{
    int r;

    if (d->socket_count == SOCKETS_MAX)
        return err_set(err, -E2BIG, "dns: a third socket");
    r = watch_add(d->evloop, &d->sockets[d->socket_count].watch, fd, on_socket_readable);
    if (r < 0)
        return err_errno(err, r, "dns");
    d->sockets[d->socket_count].d = d;
    d->sockets[d->socket_count].fd = fd;
    d->socket_count++;
    return 0;
}

int dns_new(struct evloop *evloop, const struct dns_ops *ops, void *data, unsigned per_second,
            struct dns **ret, struct err *err)
{
    struct dns *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return err_errno(err, -ENOMEM, "dns");
    d->evloop = evloop;
    d->ops = ops;
    d->data = data;
    d->per_second = d->tokens = per_second;
    d->refilled = dns_now(d);
    *ret = d;
    return 0;
}

void dns_close(struct dns *d)
{
    if (d == NULL)
        return;
    while (d->clients != NULL)
        client_free(d->clients);
    while (d->queries != NULL)
        if (d->queries->found != NULL)
            query_found(d->queries, -ECANCELED, NULL, 0);
        else
            query_free(d->queries);
    for (unsigned i = 0; i < d->socket_count; i++) {
        watch_remove(&d->sockets[i].watch);
        (void)close(d->sockets[i].fd);
    }
    for (size_t i = 0; i < DNS_CACHE; i++)
        cached_free(d->cache[i]);
    free(d);
}
