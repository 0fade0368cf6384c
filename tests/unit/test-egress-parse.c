/* What egress reads of hostile bytes: DNS messages, TLS hellos, HTTP heads; and its certificates.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "gateway/ca.h"
#include "gateway/connect.h"
#include "gateway/dns-message.h"
#include "gateway/egress-internal.h"
#include "gateway/names.h"
#include "gateway/tls-client-hello.h"
#include "gateway/truststore.h"
#include "proto/rmtree.h"
#include "tap.h"

/* ---- DNS ---- */

/* id 0x1234, RD, one question: A of Www.Example.Com. */
static const uint8_t query[] = {0x12, 0x34, 1,   0,   0,   1,   0,   0,   0,   0,   0,
                                0,    3,    'W', 'w', 'w', 7,   'E', 'x', 'a', 'm', 'p',
                                'l',  'e',  3,   'C', 'o', 'm', 0,   0,   1,   0,   1};

TEST(a_question)
{
    struct dns_question q;

    CHECK_INT(dns_question_read(query, sizeof(query), &q), DNS_NOERROR);
    CHECK_STR(q.name, "www.example.com");
    CHECK_INT(q.id, 0x1234);
    CHECK_INT(q.type, DNS_TYPE_A);
    CHECK_INT(q.room, DNS_UDP_PLAIN);
    CHECK(q.recurse && !q.edns && !q.dnssec);
    for (size_t len = 0; len < sizeof(query); len++)
        CHECK_INT(dns_question_read(query, len, &q) != DNS_NOERROR, true);
}

TEST(questions_that_are_none)
{
    static const struct {
        size_t at;
        uint8_t value;
        int want;
    } rows[] = {
        {2, 0x81, -EBADMSG},    /* an answer */
        {2, 0x29, DNS_NOTIMP},  /* an update */
        {5, 2, -EBADMSG},       /* two questions, and one is there */
        {7, 1, -EBADMSG},       /* an answer that is not there */
        {12, 0xc0, -EBADMSG},   /* a pointer to behind */
        {12, 64, -EBADMSG},     /* a label that is too long */
        {30, 255, DNS_REFUSED}, /* ANY */
        {30, 252, DNS_REFUSED}, /* AXFR */
        {32, 3, DNS_REFUSED},   /* class CHAOS */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t data[sizeof(query)];
        struct dns_question q;
        int got;

        (void)memcpy(data, query, sizeof(query));
        data[rows[i].at] = rows[i].value;
        got = dns_question_read(data, sizeof(data), &q);
        if (got != rows[i].want)
            tap_fail("row %zu: %d, want %d", i, got, rows[i].want);
    }
    /* A name that no host has can be asked for, and is none that a rule knows. */
    uint8_t odd[sizeof(query)];
    struct dns_question q;

    (void)memcpy(odd, query, sizeof(query));
    odd[14] = '.';
    CHECK_INT(dns_question_read(odd, sizeof(odd), &q), DNS_NOERROR);
    CHECK_STR(q.name, "");
}

/* Reverse look-ups of IPv4 addresses, and names that only look like one. */
TEST(dns_reverse_names)
{
    static const char *const bad[] = {
        "1.0.0.in-addr.arpa",       "256.0.0.10.in-addr.arpa",
        "1.0.0.10.in-addr.arp",     "x.0.0.10.in-addr.arpa",
        "1.1.0.0.10.in-addr.arpa",  "1.0.0.10.in-addr.arpa.x",
        "0001.0.0.10.in-addr.arpa", "",
    };
    struct dns_question q = {.name = "7.0.168.192.in-addr.arpa", .type = DNS_TYPE_PTR};
    auto_buf struct buf b = BUF_INIT(DNS_MESSAGE_MAX);
    static const char wire[] = "\1"
                               "7\1"
                               "0\3"
                               "168\3"
                               "192\7in-addr\4arpa";
    struct net_addr a;

    CHECK(dns_question_address4(&q, &a) && a.family == 4);
    CHECK(a.bytes[0] == 192 && a.bytes[1] == 168 && a.bytes[2] == 0 && a.bytes[3] == 7);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(q.name, sizeof(q.name), "%s", bad[i]);
        CHECK(!dns_question_address4(&q, &a));
    }
    (void)memcpy(q.wire, wire, sizeof(wire));
    q.wire_len = sizeof(wire);
    CHECK_INT(dns_answer_name(&q, "web", 5, &b), 0);
    CHECK(b.len > 5 && memcmp(b.data + b.len - 5, "\3web", 5) == 0);
    b.len = 0;
    CHECK(dns_answer_name(&q, "..", 5, &b) < 0); /* no name */
}

TEST(dns_answers_are_parsed)
{
    const struct net_addr a[2] = {{.family = 4, .bytes = {192, 0, 2, 1}},
                                  {.family = 4, .bytes = {192, 0, 2, 2}}};
    struct dns_question q, other;
    auto_buf struct buf b = BUF_INIT(DNS_MESSAGE_MAX), again = BUF_INIT(DNS_MESSAGE_MAX);
    struct dns_answer got;

    CHECK_INT(dns_question_read(query, sizeof(query), &q), DNS_NOERROR);
    CHECK_INT(dns_answer_make(&q, DNS_NOERROR, a, 2, 300, &b), 0);
    CHECK_INT(dns_answer_read((const uint8_t *)b.data, b.len, &q, 0x1234, &got), 0);
    CHECK_INT(got.count, 2);
    CHECK_INT(got.ttl, 300);
    CHECK(memcmp(got.addresses[1].bytes, a[1].bytes, 4) == 0);
    /* Another id, another question, a question that is no answer. */
    CHECK_INT(dns_answer_read((const uint8_t *)b.data, b.len, &q, 0x1235, &got), -EBADMSG);
    other = q;
    other.wire[1] = 'x';
    CHECK_INT(dns_answer_read((const uint8_t *)b.data, b.len, &other, 0x1234, &got), -EBADMSG);
    CHECK_INT(dns_answer_read(query, sizeof(query), &q, 0x1234, &got), -EBADMSG);
    /* As a client gets it from what was kept: its own id, and less time. */
    q.id = 7;
    CHECK_INT(dns_answer_write((const uint8_t *)b.data, b.len, &q, 100, true, &again), 0);
    CHECK_INT(dns_answer_read((const uint8_t *)again.data, again.len, &q, 7, &got), 0);
    CHECK_INT(got.ttl, 200);
    CHECK_INT(got.count, 2);
}

TEST(answers_that_do_not_fit)
{
    struct net_addr a[40];
    struct dns_question q;
    auto_buf struct buf b = BUF_INIT(DNS_MESSAGE_MAX), cut = BUF_INIT(DNS_MESSAGE_MAX),
                        whole = BUF_INIT(DNS_MESSAGE_MAX);
    struct dns_answer got;

    for (size_t i = 0; i < 40; i++)
        a[i] = (struct net_addr){.family = 4, .bytes = {192, 0, 2, (uint8_t)i}};
    CHECK_INT(dns_question_read(query, sizeof(query), &q), DNS_NOERROR);
    CHECK_INT(dns_answer_make(&q, DNS_NOERROR, a, 40, 60, &b), 0);
    CHECK_INT(dns_answer_write((const uint8_t *)b.data, b.len, &q, 0, true, &cut), 0);
    CHECK(cut.len <= DNS_UDP_PLAIN);
    CHECK_INT(dns_answer_read((const uint8_t *)cut.data, cut.len, &q, q.id, &got), 0);
    CHECK(got.truncated && got.count == 0);
    CHECK_INT(dns_answer_write((const uint8_t *)b.data, b.len, &q, 0, false, &whole), 0);
    CHECK_INT(dns_answer_read((const uint8_t *)whole.data, whole.len, &q, q.id, &got), 0);
    CHECK(!got.truncated && got.count == 40);
}

TEST(a_query_of_our_own)
{
    struct dns_question q, back;
    auto_buf struct buf b = BUF_INIT(DNS_MESSAGE_MAX);

    CHECK_INT(dns_question_read(query, sizeof(query), &q), DNS_NOERROR);
    CHECK_INT(dns_query_write(&q, 99, &b), 0);
    CHECK_INT(dns_question_read((const uint8_t *)b.data, b.len, &back), DNS_NOERROR);
    CHECK_INT(back.id, 99);
    CHECK_STR(back.name, q.name);
    CHECK(back.edns && back.room == DNS_UDP_MOST);
}

/* ---- TLS ---- */

/* A client's hello for this name, NULL: none. */
static size_t hello_of(const char *name, uint8_t *data, size_t size)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    int n;

    SSL_set_bio(ssl, in, out);
    if (name != NULL)
        CHECK_INT(SSL_set_tlsext_host_name(ssl, name), 1);
    (void)SSL_connect(ssl);
    n = BIO_read(out, data, (int)size);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    CHECK(n > 100);
    return n > 0 ? (size_t)n : 0;
}

TEST(the_name_in_a_hello_is_found)
{
    SSL_CTX *probe = client_hello_context();
    static uint8_t data[CLIENT_HELLO_MAX], split[CLIENT_HELLO_MAX];
    struct hello h;
    size_t len = hello_of("Api.Example.com", data, sizeof(data)), body = len - 5;

    CHECK_INT(client_hello_read(probe, data, len, &h), 1);
    CHECK(h.has_name && !h.encrypted);
    CHECK_STR(h.name, "api.example.com");
    for (size_t n = 0; n < len; n++)
        if (client_hello_read(probe, data, n, &h) != 0)
            tap_fail("the first %zu bytes are said to be all, or nonsense", n);
    /* In records of 100 bytes each. */
    size_t at = 0;
    for (size_t done = 0; done < body;) {
        size_t piece = body - done < 100 ? body - done : 100;

        (void)memcpy(split + at, data, 3);
        split[at + 3] = (uint8_t)(piece >> 8);
        split[at + 4] = (uint8_t)piece;
        (void)memcpy(split + at + 5, data + 5 + done, piece);
        at += piece + 5;
        done += piece;
    }
    CHECK_INT(client_hello_read(probe, split, at, &h), 1);
    CHECK_STR(h.name, "api.example.com");
    CHECK_INT(client_hello_read(probe, split, at - 1, &h), 0);
    len = hello_of(NULL, data, sizeof(data));
    CHECK_INT(client_hello_read(probe, data, len, &h), 1);
    CHECK(!h.has_name);
    SSL_CTX_free(probe);
}

TEST(hellos_that_are_none)
{
    SSL_CTX *probe = client_hello_context();
    static uint8_t data[CLIENT_HELLO_MAX];
    static const uint8_t long_record[5] = {22, 3, 1, 0xff, 0xff};
    struct hello h;
    size_t len = hello_of("a.b", data, sizeof(data));

    data[5] = 2; /* a server's */
    CHECK_INT(client_hello_read(probe, data, len, &h), -EBADMSG);
    CHECK_INT(client_hello_read(probe, (const uint8_t *)"GET / HTTP/1.1\r\n\r\n", 18, &h),
              -EBADMSG);
    (void)memset(data, 0, sizeof(data));
    (void)memcpy(data, long_record, sizeof(long_record));
    CHECK_INT(client_hello_read(probe, data, 100, &h), 0);
    CHECK_INT(client_hello_read(probe, data, sizeof(data), &h), -EBADMSG);
    SSL_CTX_free(probe);
}

/* ---- HTTP ---- */

TEST(the_first_bytes_tell_the_protocol)
{
    static const struct {
        const char *text;
        enum connect_looks want;
    } rows[] = {{"", LOOKS_UNKNOWN},
                {"G", LOOKS_UNKNOWN},
                {"GET / HTTP/1.1", LOOKS_UNKNOWN},
                {"GET / HTTP/1.1\r\n", LOOKS_HTTP},
                {"get / HTTP/1.1\n", LOOKS_HTTP},
                {"\r\n\nGET / HTTP/1.1\r\n", LOOKS_HTTP},
                {"PRI * HTTP/2.0\r\n", LOOKS_HTTP},
                {"CONNECT a:80 HTTP/1.1\r\n", LOOKS_CONNECT},
                {"CONNECT {}\r\n", LOOKS_OTHER},
                {"\x16\x03", LOOKS_TLS},
                {"SSH-2.0-OpenSSH\r\n", LOOKS_OTHER},
                {"EHLO x\r\n", LOOKS_OTHER},
                {"NICK someone\r\n", LOOKS_OTHER},
                {"AMQP\1\1", LOOKS_OTHER},
                {"OPTIONS rtsp://a RTSP/1.0\r\n", LOOKS_OTHER}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (connect_look(rows[i].text, strlen(rows[i].text)) != rows[i].want)
            tap_fail("\"%s\"", rows[i].text);
}

static long head_of(const char *text, struct connect_head *h)
{
    return connect_head(text, strlen(text), h, NULL);
}

TEST(the_host_of_a_head_is_found)
{
    struct connect_head h;

    CHECK(head_of("CONNECT 127.0.0.1:80 HTTP/1.1\r\nX-Dst-Addr: 127.0.0.1:80\r\n\r\n", &h) > 0);
    CHECK_STR(h.method, "CONNECT");
    CHECK_STR(h.to, "127.0.0.1:80");
    CHECK_STR(h.host, "");
    CHECK(head_of("GET / HTTP/1.1\r\nHost: A.b:80\r\nContent-Length: 5\r\n\r\nhello", &h) > 0);
    CHECK_STR(h.host, "a.b");
    CHECK_INT(h.length, 5);
    CHECK(head_of("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", &h) > 0);
    CHECK_STR(h.host, "");
    CHECK_INT(head_of("GET / HTTP/1.1\r\nHost: a", &h), 0);
    CHECK(head_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", &h) < 0);
    CHECK(head_of("GET / HTTP/1.1\nHost: a\n\n", &h) < 0);
    CHECK(head_of("GET /\r\n\r\n", &h) < 0);
    CHECK(head_of("GET / HTTP/2.0\r\n\r\n", &h) < 0);
    CHECK(head_of("PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", &h) < 0);
    CHECK(head_of("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", &h) > 0);
    CHECK(h.length > 1 << 30);
}

TEST(replies_of_handlers)
{
    static const struct {
        const char *text;
        long want;
        int status;
    } rows[] = {{"HTTP/1.1 200 OK\r\n\r\nmore", 19, 200},
                {"HTTP/1.0 202 x\r\nA: b\r\n\r\n", 24, 202},
                {"HTTP/1.1 200\r\n\r\n", 16, 200},
                {"HTTP/1.1 200 OK\r\n", 0, 0},
                {"HTTP/1.1 20 OK\r\n\r\n", -EBADMSG, 0},
                {"SSH-2.0-OpenSSH\r\n\r\n", -EBADMSG, 0},
                {"HTTP/1.1 099 x\r\n\r\n", -EBADMSG, 0},
                {"HTTP/2.1 200 OK\r\n\r\n", -EBADMSG, 0},
                {"\r\n\r\n", -EBADMSG, 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int status = 0;
        long got = connect_reply(rows[i].text, strlen(rows[i].text), &status, NULL);

        if (got != rows[i].want || (got > 0 && status != rows[i].status))
            tap_fail("\"%s\": %ld, status %d", rows[i].text, got, status);
    }
}

TEST(a_connect_target_is_parsed)
{
    char name[EGRESS_NAME_MAX + 1];
    struct address a;

    CHECK_INT(connect_target("Example.com:443", name, &a), 0);
    CHECK_STR(name, "example.com");
    CHECK_INT(a.port, 443);
    CHECK_INT(a.family, 0);
    CHECK_INT(connect_target("[2001:db8::1]:80", name, &a), 0);
    CHECK_STR(name, "");
    CHECK_INT(a.family, 6);
    static const char *const bad[] = {"",       "a",       "a:",        "a:0",  "a:99999",
                                      "a b:80", "1.2.3.4", "1.2.3.4:0", "::1:", "a:8x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (connect_target(bad[i], name, &a) == 0)
            tap_fail("\"%s\" was accepted", bad[i]);
}

/* ---- how many connections ---- */

TEST(shares_of_sandboxes)
{
    struct egress_hub hub = {.limits = {.connections = EGRESS_CONNECTIONS}};
    struct egress_ctx one = {.hub = &hub}, other = {.hub = &hub};

    egress_count(&one, EGRESS_CONNECTIONS - 1);
    CHECK(!egress_is_full(&one));
    egress_count(&one, 1);
    CHECK(egress_is_full(&one) && !egress_is_full(&other));
    hub.count = EGRESS_CONNECTIONS_ALL; /* of many others, too */
    CHECK(!egress_is_full(&other));
    egress_count(&other, EGRESS_CONNECTIONS_SHARE);
    CHECK(egress_is_full(&other));
    egress_count(&one, -EGRESS_CONNECTIONS);
    CHECK(!egress_is_full(&other));
}

/* ---- names and addresses ---- */

static void count_name(void *data, const char *name)
{
    (void)name;
    (*(int *)data)++;
}

TEST(names_of_addresses)
{
    struct names *n = names_new();
    struct net_addr a = {.family = 4, .bytes = {1, 2, 3, 4}};
    int count = 0;

    names_add(n, "a", &a, 0, 100);
    names_add(n, "b", &a, 0, 200);
    names_add(n, "a", &a, 0, 50); /* an answer that was given stays good */
    CHECK(names_has(n, "a", &a, 99) && !names_has(n, "a", &a, 100) && names_has(n, "b", &a, 199));
    CHECK(!names_has(n, "c", &a, 0));
    names_each(n, &a, 150, count_name, &count);
    CHECK_INT(count, 1);
    for (unsigned i = 0; i < 3 * NAMES_MAX; i++) {
        const struct net_addr many = {
            .family = 4, .bytes = {9, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}};

        names_add(n, "x", &many, 0, 1000);
        CHECK(names_has(n, "x", &many, 0));
    }
    CHECK(!names_has(n, "b", &a, 0)); /* the oldest have gone */
    for (unsigned i = 0; i < 2 * NAMES_EACH; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "n%u", i);
        names_add(n, name, &a, 0, 1000);
        CHECK(names_has(n, name, &a, 0));
    }
    count = 0;
    names_each(n, &a, 0, count_name, &count);
    CHECK_INT(count, NAMES_EACH); /* and the oldest of one address */
    CHECK(!names_has(n, "n0", &a, 0));
    names_free(n);
}

/* ---- certificates ---- */

TEST(a_certificate_is_made_for_the_name)
{
    char dir[] = "/tmp/rind-ca-XXXXXX";
    struct err err = ERR_NONE;
    struct ca *ca = NULL, *again = NULL;
    struct stat st;
    int fd;

    CHECK(mkdtemp(dir) != NULL);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(ca_open(fd, "ca.pem", &ca, &err), 0);
    CHECK_INT(fstatat(fd, "ca.pem", &st, 0), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK_INT(ca_open(fd, "ca.pem", &again, &err), 0);
    CHECK_STR(ca_pem(again), ca_pem(ca));
    CHECK(strstr(ca_pem(ca), "PRIVATE") == NULL);

    SSL *a = ca_accept(ca, "a.example.com", &err), *b = ca_accept(ca, "a.example.com", &err),
        *c = ca_accept(ca, "192.0.2.7", &err);
    CHECK_INT(X509_check_host(SSL_get_certificate(a), "a.example.com", 0, 0, NULL), 1);
    CHECK_INT(X509_check_host(SSL_get_certificate(a), "b.example.com", 0, 0, NULL), 0);
    CHECK(SSL_get_certificate(a) == SSL_get_certificate(b));
    CHECK_INT(X509_check_ip_asc(SSL_get_certificate(c), "192.0.2.7", 0), 1);
    CHECK_INT(ca_made(ca), 2);
    SSL_free(b);
    SSL_free(c);
    for (int i = 0; i < CA_CACHE + 50; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "n%d.example.com", i);
        SSL_free(ca_accept(ca, name, &err));
    }
    CHECK_INT(ca_made(ca), CA_CACHE + 52);
    SSL_free(ca_accept(ca, "n300.example.com", &err));
    CHECK_INT(ca_made(ca), CA_CACHE + 52); /* is kept */
    SSL_free(ca_accept(ca, "a.example.com", &err));
    CHECK_INT(ca_made(ca), CA_CACHE + 53); /* has gone */
    CHECK_INT(X509_check_host(SSL_get_certificate(a), "a.example.com", 0, 0, NULL), 1); /* in use */
    SSL_free(a);

    auto_buf struct buf jks = BUF_INIT(TRUSTSTORE_MAX);
    const char *pems[] = {ca_pem(ca), "nonsense"};
    CHECK_INT(truststore_jks(pems, 2, 0, &jks, &err), 0);
    CHECK(jks.len > 300 && memcmp(jks.data, "\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1", 12) == 0);
    ca_free(ca);
    ca_free(again);
    /* What is damaged is said, and not replaced. */
    int file = openat(fd, "ca.pem", O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK_INT(write(file, "x", 1), 1);
    (void)close(file);
    CHECK(ca_open(fd, "ca.pem", &ca, &err) < 0);
    (void)close(fd);
    CHECK_INT(rmtree_at(AT_FDCWD, dir, 0), 0);
}

TAP_MAIN
