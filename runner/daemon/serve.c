#include "daemon/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/types.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "api/audit.h"
#include "api/docker/docker.h"
#include "api/native/native.h"
#include "base/address.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/confine.h"
#include "daemon/service.h"
#include "daemon/settings.h"
#include "daemon/supervisor.h"
#include "doctor/doctor-fork.h"
#include "gateway/listener.h"
#include "gateway/tls.h"
#include "http/route.h"
#include "http/server.h"
#include "image/embed.h"
#include "image/layer.h"
#include "launch/idrange.h"
#include "launch/launcher.h"
#include "policy/client.h"
#include "ports/gateway.h"
#include "ports/network.h"
#include "proto/syscalls.h"
#include "sandbox/host-rootfs.h"
#include "sandbox/paths.h"
#include "sandbox/policies.h"
#include "sys/users.h"

enum {
    BACKLOG = 1024, /* a unix socket's connect() fails at once when the backlog is full */
    STOP_GRACE_MS = 2000,
    STOP_WAITS_MS = 1500, /* before STOP_GRACE_MS, so that waiting clients still get the answer */
    FDS_WANTED = 65536,
    WAIT_MS = 2000, /* for the remains of a killed daemon */
    RETRY_MS = 20,
    SOCKET_PATH_MAX = sizeof(((struct sockaddr_un *)0)->sun_path),
};

static const char socket_group[] = "rind";

/* State that is opened before the fork of the supervisor. */
struct serve {
    const struct serve_config *config;
    struct settings settings; /* owned */
    struct network network;   /* owned */
    struct launcher *launcher;
    struct ready_policy *policies;
    struct client_policy *clients;
    struct host_rootfs *host;
    bool has_group;
    gid_t group;
    int tree_fd, shim_fd, listen_fd, lock_fd, notify_fd, doctor_fd, gateway_fd; /* owned */
    struct address gateway; /* address of gateway_fd */
    bool gateway_local;     /* a loopback address */
    char *chain, *key;      /* owned; PEM; NULL = no TLS */
    size_t chain_len, key_len;
    bool made_socket, cgroup_unified, io_weighs;
};

static void sleep_retry(void)
{
    const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000L};

    (void)nanosleep(&pause, NULL);
}

/* ---- the socket ---- */

static bool socket_has_listener(const struct sockaddr_un *name)
{
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* EAGAIN: the backlog is full */
    return fd >= 0 &&
           (connect(fd, (const struct sockaddr *)name, sizeof(*name)) == 0 || errno == EAGAIN);
}

/* A socket without listener is the remains of an earlier daemon and is unlinked; any other file
 * is an error. A daemon that was just killed may have released its lock but not yet its socket:
 * the kernel closes fds one by one. */
static int socket_clear_path(const struct sockaddr_un *name, struct err *err)
{
    const int64_t deadline = clock_mono_ms() + WAIT_MS;
    struct stat st;

    if (lstat(name->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "socket %s", name->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, -EEXIST, "socket %s: something that is no socket is there",
                       name->sun_path);
    while (socket_has_listener(name)) {
        if (clock_mono_ms() >= deadline)
            return err_set(err, -EADDRINUSE, "socket %s: a rind serve answers there already",
                           name->sun_path);
        sleep_retry();
    }
    return unlink(name->sun_path) < 0 ? err_errno(err, -errno, "socket %s", name->sun_path) : 0;
}

/* The umask makes the socket private from its first moment; the group gets access afterwards. */
static int socket_make(const struct serve *s, const char *path, struct err *err)
{
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    mode_t mask;
    int r;

    if (strlen(path) >= sizeof(name.sun_path))
        return err_set(err, -ENAMETOOLONG, "socket %s: longer than %zu bytes", path,
                       sizeof(name.sun_path) - 1);
    (void)memcpy(name.sun_path, path, strlen(path) + 1);
    r = socket_clear_path(&name, err);
    if (r < 0)
        return r;
    mask = umask(0177);
    r = fd < 0 || bind(fd, (const struct sockaddr *)&name, sizeof(name)) < 0 ? -errno : 0;
    (void)umask(mask);
    if (r == 0 && listen(fd, BACKLOG) < 0)
        r = -errno;
    if (r == 0 && s->has_group && (lchown(path, 0, s->group) < 0 || chmod(path, 0660) < 0))
        r = -errno;
    return r < 0 ? err_errno(err, r, "socket %s", path) : take_fd(&fd);
}

/* ---- opening ---- */

static int make_dir(int at, const char *path, mode_t mode, uid_t owner, struct err *err)
{
    auto_close int fd = FD_NONE;

    if (mkdirat(at, path, mode) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "make directory %s", path);
    fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fchown(fd, owner, owner) < 0)
        return err_errno(err, -errno, "directory %s", path);
    return take_fd(&fd);
}

/* One daemon per state directory. Launcher and supervisor both hold the lock: a supervisor that
 * has not yet noticed its launcher's death must not write what its successor reads. It exits
 * soon, so a taken lock is retried for WAIT_MS. */
static int state_dir_lock(int state_fd, struct err *err)
{
    const int64_t deadline = clock_mono_ms() + WAIT_MS;
    auto_close int fd =
        openat(state_fd, "serve.lock", O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_errno(err, -errno, "serve.lock");
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (clock_mono_ms() >= deadline)
            return err_set(err, -EBUSY,
                           "another rind serve works in this state directory; end that one first, "
                           "its sandboxes go on");
        sleep_retry();
    }
    return take_fd(&fd);
}

/* Loads the rights of clients other than the owner: from the installed file, or from the binary. */
static int serve_load_clients(struct serve *s, struct err *err)
{
    auto_free char *text = NULL;
    size_t len = 0;
    int r;

    r = file_read_at(AT_FDCWD, s->settings.client_policy, CLIENT_POLICY_TEXT_MAX, &text, &len, err);
    if (r == 0)
        return client_policy_parse(text, len, s->settings.client_policy, &s->clients, err);
    if (r != -ENOENT)
        return r;

    const char *builtin = client_policy_builtin(&len);

    return client_policy_parse(builtin, len, "client.json", &s->clients, err);
}

/* ---- the gateway ---- */

/* Retries while a daemon that was just killed still listens at the address. */
static int gateway_bind(int fd, const struct sockaddr *name, socklen_t len)
{
    const int64_t deadline = clock_mono_ms() + WAIT_MS;
    const int on = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        (name->sa_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0))
        return -errno;
    while (bind(fd, name, len) < 0 || listen(fd, BACKLOG) < 0) {
        if (errno != EADDRINUSE || clock_mono_ms() >= deadline)
            return -errno;
        sleep_retry();
    }
    return 0;
}

/* Called before any process is confined: an address in use fails the start, and ports below 1024
 * need CAP_NET_BIND_SERVICE. */
static int serve_open_gateway(struct serve *s, struct err *err)
{
    const char *text = s->config->gateway != NULL ? s->config->gateway : s->settings.gateway;
    auto_close int fd = FD_NONE;
    struct sockaddr_storage name;
    socklen_t len;
    int r;

    if (text == NULL)
        return 0;
    if (address_parse(text, &s->gateway) < 0)
        return err_set(err, -EINVAL, "gateway \"%.64s\": must be ADDRESS:PORT, as 127.0.0.1:8080",
                       text);
    len = address_socket(&s->gateway, &name);
    fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    r = fd < 0 ? -errno : gateway_bind(fd, (struct sockaddr *)(void *)&name, len);
    if (r < 0)
        return err_errno(err, r, "gateway %s", text);
    len = sizeof(name);
    if (getsockname(fd, (struct sockaddr *)(void *)&name, &len) == 0)
        (void)address_from_socket((struct sockaddr *)(void *)&name, &s->gateway);
    s->gateway_local = address_is_loopback((struct sockaddr *)(void *)&name);
    s->gateway_fd = take_fd(&fd);
    return 0;
}

static int read_pem(const char *what, const char *path, char **ret, size_t *ret_len,
                    struct err *err)
{
    int r = 0;

    if (path == NULL)
        return 0;
    r = file_read_at(AT_FDCWD, path, TLS_PEM_MAX, ret, ret_len, err);
    return r < 0 ? err_wrap(err, r, "%s", what) : 0;
}

static void serve_find_group(struct serve *s)
{
    s->has_group = geteuid() == 0 && host_group(socket_group, &s->group);
}

static int serve_open_socket(struct serve *s, struct err *err)
{
    s->made_socket = !service_has_socket();
    if (!s->made_socket)
        s->listen_fd = service_socket(s->has_group ? s->group : (gid_t)-1, err);
    else if (mkdir(s->config->runtime_dir, 0755) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "make directory %s", s->config->runtime_dir);
    else
        s->listen_fd = socket_make(s, s->config->socket, err);
    return s->listen_fd < 0 ? s->listen_fd : 0;
}

static int serve_open(struct serve *s, struct err *err)
{
    struct launcher_config config = {.state_dir = s->config->state_dir,
                                     .ids_dir = CORE_IDS_DIR,
                                     .bind_prefixes =
                                         (const char *const *)s->settings.bind_prefixes,
                                     .publish = &s->settings.publish,
                                     .disk_reserve = s->settings.limits.disk_reserve,
                                     .certificate = s->settings.certificate,
                                     .key = s->settings.key,
                                     .terminals = s->settings.limits.terminals,
                                     .volume_makers = s->settings.limits.volume_makers,
                                     .volume_make_ms = s->settings.limits.volume_make_ms,
                                     .init_image = embed_init().data,
                                     .init_size = embed_init().len,
                                     .worker_image = embed_rootfs().data,
                                     .worker_size = embed_rootfs().len};
    int base = FD_NONE, root = FD_NONE, state, r;

    const struct net_config net = {.pools4 = (const char *const *)s->settings.pools4,
                                   .pools6 = (const char *const *)s->settings.pools6,
                                   .dns = s->settings.dns,
                                   .dns_count = s->settings.dns_count,
                                   .flows = s->settings.flows,
                                   .flows_per_second = s->settings.flows_per_second,
                                   .all_flows = s->settings.all_flows,
                                   .all_flows_per_second = s->settings.all_flows_per_second};

    r = network_open(&s->network, &net, NULL, err);
    if (r == 0)
        r = host_rootfs_load(s->settings.host_rootfs, &s->host, err);
    if (r < 0)
        return r;
    config.host = s->host;
    config.net = &s->network.ops;
    r = launcher_open(&config, &s->launcher, err);
    if (r < 0)
        return r;
    s->cgroup_unified = launcher_cgroup_unified(s->launcher);
    s->io_weighs = launcher_weighs_disks(s->launcher);
    state = launcher_state_fd(s->launcher);
    s->lock_fd = state_dir_lock(state, err);
    if (s->lock_fd < 0)
        return s->lock_fd;
    r = launcher_find_survivors(s->launcher, err);
    if (r < 0)
        return r;
    (void)launcher_sweep_aside(s->launcher);
    launcher_layers_sweep(s->launcher);
    r = launcher_recover(s->launcher, err);
    if (r == 0)
        r = image_default_layers(state, &base, &root, err);
    if (r == 0)
        r = image_docker_layer(state, err);
    if (r == 0)
        r = policies_load(state, s->settings.policies_dir, &s->policies, err);
    if (base >= 0)
        (void)close(base);
    if (root >= 0)
        (void)close(root);
    if (r < 0)
        return r;
    s->tree_fd = make_dir(state, "supervisor", 0700, IDRANGE_SUPERVISOR, err);
    if (s->tree_fd < 0)
        return s->tree_fd;
    s->shim_fd = memfd_program("sandbox-shim", embed_shim().data, embed_shim().len);
    if (s->shim_fd < 0)
        return err_errno(err, s->shim_fd, "load sandbox-shim");
    r = serve_load_clients(s, err);
    if (r == 0)
        r = doctor_fork(s->config->state_dir, &s->doctor_fd, err);
    if (r < 0)
        return r;
    r = serve_open_gateway(s, err);
    if (r == 0)
        r = read_pem("gateway.certificate", s->settings.certificate, &s->chain, &s->chain_len, err);
    if (r == 0)
        r = read_pem("gateway.key", s->settings.key, &s->key, &s->key_len, err);
    if (r < 0)
        return r;
    serve_find_group(s);
    s->notify_fd = service_notify_socket();
    return serve_open_socket(s, err);
}

static void serve_done(struct serve *s)
{
    const int fds[] = {s->tree_fd,   s->shim_fd,   s->listen_fd, s->lock_fd,
                       s->notify_fd, s->doctor_fd, s->gateway_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    policies_free(s->policies);
    client_policy_free(s->clients);
    host_rootfs_free(s->host);
    launcher_free(s->launcher);
    network_close(&s->network);
    free(s->chain);
    free(s->key);
    settings_done(&s->settings);
}

/* ---- the supervisor ---- */

struct daemon {
    uv_loop_t loop;
    uv_signal_t term, interrupt, hangup;
    uv_timer_t grace; /* of a stop: afterwards pending waits are answered */
    struct supervisor *supervisor;
    struct http_server *server;
    struct native native;
    struct route_set sets[NATIVE_SETS_MAX + DOCKER_SETS_MAX + 1];
    int listen_fd, notify_fd, gateway_fd;
    char socket[SOCKET_PATH_MAX + 1];
    SSL_CTX *tls; /* owned; NULL = none */
    bool stop_sandboxes, closing, lost;
    bool served; /* all client connections are closed */
};

static void daemon_stop(struct daemon *d);

static void daemon_close_supervisor(void *data)
{
    struct daemon *d = data;

    if (uv_is_closing((uv_handle_t *)&d->term))
        return; /* stopped twice */
    supervisor_close(d->supervisor);
    uv_close((uv_handle_t *)&d->term, NULL);
    uv_close((uv_handle_t *)&d->interrupt, NULL);
    uv_close((uv_handle_t *)&d->hangup, NULL);
    uv_close((uv_handle_t *)&d->grace, NULL);
}

static void on_server_closed(void *data)
{
    struct daemon *d = data;

    docker_done(&d->native);
    native_done(&d->native);
    d->served = true;
    if (!d->stop_sandboxes || !supervisor_end_sandboxes(d->supervisor, daemon_close_supervisor, d))
        daemon_close_supervisor(d);
}

static void on_stop_grace(uv_timer_t *h)
{
    struct daemon *d = h->data;

    supervisor_end_waits(d->supervisor);
}

static void daemon_close_server(struct daemon *d)
{
    (void)uv_timer_start(&d->grace, on_stop_grace, STOP_WAITS_MS, 0);
    http_server_close(d->server, STOP_GRACE_MS, on_server_closed, d);
}

static void daemon_stop(struct daemon *d)
{
    if (d->closing && d->served)
        daemon_close_supervisor(d); /* a second stop does not wait for sandboxes */
    if (d->closing)
        return;
    d->closing = true;
    log_info("serve", "stops");
    service_tell(d->notify_fd, d->stop_sandboxes ? "STOPPING=1\nSTATUS=stopping with all sandboxes"
                                                 : "STOPPING=1\nSTATUS=stopping; sandboxes go on");
    daemon_close_server(d);
}

static void on_stop_signal(uv_signal_t *h, int signo)
{
    (void)signo;
    daemon_stop(h->data);
}

static void on_sighup(uv_signal_t *h, int signo)
{
    struct daemon *d = h->data;

    (void)signo;
    if (!d->closing)
        gateway_renew(supervisor_gateway(d->supervisor));
}

static void on_launcher_gone(void *data)
{
    struct daemon *d = data;

    d->lost = true;
    log_error("serve", "the launcher is gone");
    audit_log_save(d->native.audit);
    /* A successor may reattach the sandboxes now: this process must not observe or report
     * anything of that. Clients see their connections end. */
    _exit(1);
}

static int daemon_open_gateway(struct daemon *d, struct err *err)
{
    int r;

    d->listen_fd = FD_NONE;
    if (d->gateway_fd < 0)
        return 0;
    r = gateway_listen(supervisor_gateway(d->supervisor), d->gateway_fd, take(d->tls), err);
    if (r == 0)
        d->gateway_fd = FD_NONE;
    return r;
}

/* For the starting shell or user. A service manager gets READY instead, unless stderr is a
 * terminal. */
static void daemon_print_ready(const struct daemon *d)
{
    if (d->notify_fd < 0 || isatty(STDERR_FILENO))
        (void)fprintf(stderr, "rind: serving on %s\n", d->socket);
}

/* Listens only now, so that clients find every surviving sandbox. */
static void on_supervisor_ready(void *data)
{
    struct daemon *d = data;
    struct err err = ERR_NONE;

    if (d->closing)
        return;
    docker_ready(&d->native);
    if (http_server_listen(d->server, d->listen_fd, &err) < 0 || daemon_open_gateway(d, &err) < 0) {
        log_error("serve", "%s", err.msg);
        d->lost = true;
        daemon_stop(d);
        return;
    }
    service_tell(d->notify_fd, "READY=1\nSTATUS=serving");
    daemon_print_ready(d);
    log_info("serve", "ready");
}

/* Also of an inherited socket. Called before the process is confined. */
static void socket_path(int fd, char ret[SOCKET_PATH_MAX + 1])
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(name);

    ret[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&name, &len) == 0)
        (void)snprintf(ret, SOCKET_PATH_MAX + 1, "%.*s", SOCKET_PATH_MAX, name.sun_path);
}

/* A disk that takes no record keeps no sandbox from being managed. Called when confined: / is the
 * supervisor's own directory. */
static void daemon_open_audit(struct daemon *d)
{
    auto_close int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err err = ERR_NONE;

    if (root < 0)
        (void)err_errno(&err, -errno, "audit");
    if (root < 0 || native_open_audit(&d->native, root, &err) < 0)
        log_error("serve", "%s; no record of requests is kept", err.msg);
}

static int daemon_open(struct daemon *d, struct serve *s, int sock, struct err *err)
{
    struct supervisor_config config = {.loop = &d->loop,
                                       .launcher = sock,
                                       .dir_fd = take_fd(&s->tree_fd),
                                       .shim_fd = take_fd(&s->shim_fd),
                                       .tree = "",
                                       .clients = s->clients,
                                       .limits = s->settings.limits,
                                       .proxy = &s->settings.proxy,
                                       .front = {.port = s->gateway.port,
                                                 .tls = s->key != NULL,
                                                 .loopback = s->gateway_local,
                                                 .min_token = s->settings.min_token},
                                       .on_ready = on_supervisor_ready,
                                       .on_gone = on_launcher_gone,
                                       .data = d};
    struct native_config native = {.owner = geteuid(),
                                   .clients = s->clients,
                                   .has_group = s->has_group,
                                   .group = s->group,
                                   .state_dir = s->config->state_dir,
                                   .cgroup_unified = s->cgroup_unified,
                                   .io_weighs = s->io_weighs,
                                   .sidecar_image = s->settings.sidecar_image,
                                   .reaper_image = s->settings.reaper_image,
                                   .doctor_fd = take_fd(&s->doctor_fd)};
    int r;

    config.policies = take(s->policies);
    config.owner = native.owner;
    d->listen_fd = take_fd(&s->listen_fd);
    socket_path(d->listen_fd, d->socket);
    d->notify_fd = take_fd(&s->notify_fd);
    d->gateway_fd = take_fd(&s->gateway_fd);
    d->stop_sandboxes = s->config->stop_sandboxes;
    r = uv_loop_init(&d->loop);
    if (r < 0)
        return err_errno(err, r, "event loop");
    if (s->key != NULL) {
        r = tls_context(s->chain, s->chain_len, s->key, s->key_len, &d->tls, err);
        if (r < 0)
            return err_wrap(err, r, "gateway");
    }
    r = confine_supervisor(config.dir_fd, IDRANGE_SUPERVISOR, err);
    if (r == 0)
        r = supervisor_new(&config, &d->supervisor, err);
    if (r < 0)
        return r;
    native.supervisor = d->supervisor;
    r = native_init(&d->native, &native);
    if (r < 0)
        return err_errno(err, r, "API");
    r = docker_init(&d->native);
    if (r < 0)
        return err_errno(err, r, "API");
    daemon_open_audit(d);
    (void)docker_route_sets(&d->native, d->sets + native_route_sets(&d->native, d->sets));
    r = native_bind_rights(&d->native, d->sets, err);
    if (r < 0)
        return r;
    r = http_server_new(&d->loop, &s->settings.http, d->sets, &d->server, err);
    if (r < 0)
        return r;
    (void)uv_signal_init(&d->loop, &d->term);
    (void)uv_signal_init(&d->loop, &d->interrupt);
    (void)uv_signal_init(&d->loop, &d->hangup);
    (void)uv_timer_init(&d->loop, &d->grace);
    d->term.data = d->interrupt.data = d->hangup.data = d->grace.data = d;
    (void)uv_signal_start(&d->hangup, on_sighup, SIGHUP);
    (void)uv_signal_start(&d->term, on_stop_signal, SIGTERM);
    (void)uv_signal_start(&d->interrupt, on_stop_signal, SIGINT);
    return 0;
}

static int supervisor_main(struct serve *s, int sock)
{
    static struct daemon d;
    struct rlimit files = {.rlim_cur = FDS_WANTED, .rlim_max = FDS_WANTED};
    struct err err = ERR_NONE;

    (void)prctl(PR_SET_NAME, "rind-supervisor");
    (void)signal(SIGPIPE, SIG_IGN);
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 && getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    /* The launcher's resources do not belong to the supervisor. */
    launcher_free(take(s->launcher));
    network_close(&s->network);
    if (daemon_open(&d, s, sock, &err) < 0) {
        log_error("serve", "%s", err.msg);
        return 1;
    }
    (void)uv_run(&d.loop, UV_RUN_DEFAULT);
    supervisor_free(d.supervisor);
    if (uv_loop_close(&d.loop) != 0) {
        log_error("serve", "handles are left open");
        return 1;
    }
    return d.lost ? 1 : 0;
}

/* ---- the launcher ---- */

static volatile sig_atomic_t supervisor_pid;

/* Stop signals are forwarded to the supervisor; its exit ends the launcher. */
static void on_signal_forward(int signo)
{
    if (supervisor_pid > 0)
        (void)kill(supervisor_pid, signo);
}

static int launcher_main(struct serve *s, int sock, pid_t child, struct err *err)
{
    struct sigaction forward = {.sa_handler = on_signal_forward, .sa_flags = SA_RESTART};
    int status = 0, r;

    supervisor_pid = child;
    (void)prctl(PR_SET_NAME, "rind-launcher");
    (void)sigaction(SIGTERM, &forward, NULL);
    (void)sigaction(SIGINT, &forward, NULL);
    (void)sigaction(SIGHUP, &forward, NULL);
    r = launcher_serve(s->launcher, sock, err);
    (void)close(sock); /* should it be the launcher that failed: the supervisor ends now */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    supervisor_pid = 0;
    if (s->made_socket && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        (void)unlink(s->config->socket);
    if (r < 0)
        return r;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(err, -ECHILD,
                   "the supervisor ended with %s %d; sandboxes go on, start rind serve again",
                   WIFSIGNALED(status) ? "signal" : "status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

int serve_run(const struct serve_config *config, struct err *err)
{
    struct serve s = {.config = config,
                      .network = {.lock_dir = FD_NONE},
                      .tree_fd = FD_NONE,
                      .shim_fd = FD_NONE,
                      .listen_fd = FD_NONE,
                      .lock_fd = FD_NONE,
                      .notify_fd = FD_NONE,
                      .doctor_fd = FD_NONE,
                      .gateway_fd = FD_NONE};
    int pair[2], r;
    pid_t child;

    if (config->debug)
        log_set_level(LOG_LEVEL_DEBUG);
    /* Inherited fds are closed: they must not get into a sandbox. */
    (void)sys_close_range(SERVICE_FDS_START + (service_has_socket() ? 1U : 0U), ~0U, 0);
    r = settings_init(&s.settings);
    if (r < 0)
        (void)err_errno(err, r, "settings");
    if (r == 0 && config->config_file != NULL)
        r = settings_load(&s.settings, config->config_file, err);
    if (r == 0)
        r = serve_open(&s, err);
    if (r == 0)
        r = launcher_serve_clients_of(s.launcher, s.listen_fd, err);
    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = err_errno(err, -errno, "launcher socket");
    if (r < 0) {
        serve_done(&s);
        return r;
    }
    child = fork();
    if (child == 0) {
        (void)close(pair[0]);
        _exit(supervisor_main(&s, pair[1]));
    }
    (void)close(pair[1]);
    if (child < 0) {
        r = err_errno(err, -errno, "fork the supervisor");
        (void)close(pair[0]);
    } else {
        (void)close(take_fd(&s.listen_fd));
        if (s.gateway_fd >= 0)
            (void)close(take_fd(&s.gateway_fd));
        r = launcher_main(&s, pair[0], child, err);
    }
    serve_done(&s);
    return r;
}
