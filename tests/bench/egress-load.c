/*
 * Servers and clients for what egress costs. Each connection is one request, as far as the last
 * byte of its answer.
 *
 *   egress-load serve ADDRESS PORT [CERT KEY]      answers HTTP, over TLS with a certificate
 *   egress-load handler PATH                       takes connections by CONNECT, and answers HTTP
 *   egress-load load ADDRESS PORT HOST COUNT [tls] prints the microseconds of each, one a line
 *   egress-load rate ADDRESS PORT HOST COUNT [tls] so many by each of four at a time: how many a
 *                                                  second
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char answer[] =
    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static struct sockaddr_in address(const char *host, const char *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

    if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
        die(host);
    return a;
}

/* To the end of a head; nothing follows one before it has been answered. */
static int read_head(int fd, SSL *ssl)
{
    char text[4096];
    size_t len = 0;

    while (len + 1 < sizeof(text)) {
        int n = ssl != NULL ? SSL_read(ssl, text + len, (int)(sizeof(text) - len - 1))
                            : (int)read(fd, text + len, sizeof(text) - len - 1);

        if (n <= 0)
            return -1;
        len += (size_t)n;
        text[len] = '\0';
        if (strstr(text, "\r\n\r\n") != NULL)
            return 0;
    }
    return -1;
}

static void say(int fd, SSL *ssl, const char *text)
{
    if (ssl != NULL)
        (void)SSL_write(ssl, text, (int)strlen(text));
    else if (write(fd, text, strlen(text)) < 0)
        return;
}

static void serve_one(int fd, SSL_CTX *tls, int handler)
{
    const int on = 1;
    SSL *ssl = NULL;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (tls != NULL) {
        ssl = SSL_new(tls);
        (void)SSL_set_fd(ssl, fd);
        if (SSL_accept(ssl) != 1)
            goto out;
    }
    if (handler) {
        if (read_head(fd, NULL) < 0)
            goto out;
        say(fd, NULL, "HTTP/1.1 200 OK\r\n\r\n");
    }
    if (read_head(fd, ssl) == 0)
        say(fd, ssl, answer);
out:
    if (ssl != NULL)
        (void)SSL_shutdown(ssl);
    SSL_free(ssl);
    (void)close(fd);
}

static _Noreturn void serve(int fd, SSL_CTX *tls, int handler)
{
    if (listen(fd, 256) < 0)
        die("listen");
    puts("ready");
    (void)fflush(stdout);
    for (;;) {
        int c = accept(fd, NULL, NULL);

        if (c >= 0)
            serve_one(c, tls, handler);
    }
}

static _Noreturn void main_serve(char **argv)
{
    const struct sockaddr_in a = address(argv[0], argv[1]);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    SSL_CTX *tls = NULL;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
        die("bind");
    if (argv[2] != NULL) {
        tls = SSL_CTX_new(TLS_server_method());
        if (SSL_CTX_use_certificate_file(tls, argv[2], SSL_FILETYPE_PEM) != 1 ||
            SSL_CTX_use_PrivateKey_file(tls, argv[3], SSL_FILETYPE_PEM) != 1)
            die("certificate");
    }
    serve(fd, tls, 0);
}

static _Noreturn void main_handler(char **argv)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", argv[0]);
    if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
        die("bind");
    serve(fd, NULL, 1);
}

static void load_one(const struct sockaddr_in *to, const char *request, SSL_CTX *tls,
                     const char *host)
{
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0), n;
    char text[512];
    size_t len = 0;
    SSL *ssl = NULL;

    if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0)
        die("connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (tls != NULL) {
        ssl = SSL_new(tls);
        (void)SSL_set_fd(ssl, fd);
        (void)SSL_set_tlsext_host_name(ssl, host);
        if (SSL_connect(ssl) != 1)
            die("TLS");
    }
    say(fd, ssl, request);
    while (len + 1 < sizeof(text) &&
           (n = ssl != NULL ? SSL_read(ssl, text + len, (int)(sizeof(text) - len - 1))
                            : (int)read(fd, text + len, sizeof(text) - len - 1)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    if (strstr(text, "hello\n") == NULL) {
        (void)fprintf(stderr, "answer: %s\n", text);
        exit(1);
    }
    SSL_free(ssl);
    (void)close(fd);
}

static int main_load(char **argv)
{
    const struct sockaddr_in to = address(argv[0], argv[1]);
    SSL_CTX *tls = argv[4] != NULL ? SSL_CTX_new(TLS_client_method()) : NULL;
    char request[512];

    (void)snprintf(request, sizeof(request),
                   "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", argv[2]);
    for (int i = atoi(argv[3]); i > 0; i--) {
        struct timespec a, b;

        (void)clock_gettime(CLOCK_MONOTONIC, &a);
        load_one(&to, request, tls, argv[2]);
        (void)clock_gettime(CLOCK_MONOTONIC, &b);
        (void)printf("%.1f\n",
                     (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3);
    }
    return 0;
}

static int main_rate(char **argv)
{
    enum { CLIENTS = 4 };
    struct timespec a, b;
    int count = atoi(argv[3]), status;

    (void)clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < CLIENTS; i++) {
        pid_t pid = fork();

        if (pid < 0)
            die("fork");
        if (pid == 0) {
            if (freopen("/dev/null", "w", stdout) == NULL)
                die("/dev/null");
            exit(main_load(argv));
        }
    }
    for (int i = 0; i < CLIENTS; i++)
        if (wait(&status) < 0 || status != 0)
            return 1;
    (void)clock_gettime(CLOCK_MONOTONIC, &b);
    (void)printf("%.1f\n",
                 CLIENTS * count /
                     ((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9));
    return 0;
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc >= 4 && strcmp(argv[1], "serve") == 0)
        main_serve(argv + 2);
    if (argc == 3 && strcmp(argv[1], "handler") == 0)
        main_handler(argv + 2);
    if (argc >= 6 && strcmp(argv[1], "load") == 0)
        return main_load(argv + 2);
    if (argc >= 6 && strcmp(argv[1], "rate") == 0)
        return main_rate(argv + 2);
    return 2;
}
