#include "daemon/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

bool service_has_socket(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    char *end;

    if (pid == NULL || count == NULL || *pid == '\0')
        return false;
    return strtol(pid, &end, 10) == (long)getpid() && *end == '\0';
}

/* Returns the path of a socket in the file system, "" for others. */
static void socket_file_path(int fd, char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1])
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(name);

    path[0] = '\0';
    if (getsockname(fd, (struct sockaddr *)&name, &len) == 0 && name.sun_path[0] == '/')
        (void)memcpy(path, name.sun_path, sizeof(name.sun_path));
    path[sizeof(name.sun_path)] = '\0';
}

static int socket_open_to_group(int fd, gid_t group, struct err *err)
{
    char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
    struct stat st;

    socket_file_path(fd, path);
    if (path[0] == '\0' || lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return 0;
    if (st.st_uid != 0 || st.st_gid != 0 || (st.st_mode & 0777) != 0600)
        return 0; /* the administrator has changed owner or mode */
    if (lchown(path, 0, group) < 0 || chmod(path, 0660) < 0)
        return err_errno(err, -errno, "socket %s", path);
    return 0;
}

static int socket_option(int fd, int option, int *ret)
{
    socklen_t len = sizeof(*ret);

    return getsockopt(fd, SOL_SOCKET, option, ret, &len) < 0 ? -errno : 0;
}

int service_socket(gid_t group, struct err *err)
{
    const char *count = getenv("LISTEN_FDS");
    const int fd = SERVICE_FDS_START;
    int domain = 0, type = 0, listens = 0, r;

    if (count == NULL || strcmp(count, "1") != 0)
        return err_set(err, -EINVAL, "LISTEN_FDS=%.16s: rind serves one socket",
                       count != NULL ? count : "");
    r = socket_option(fd, SO_DOMAIN, &domain);
    if (r == 0)
        r = socket_option(fd, SO_TYPE, &type);
    if (r == 0)
        r = socket_option(fd, SO_ACCEPTCONN, &listens);
    if (r < 0)
        return err_errno(err, r, "the socket of LISTEN_FDS");
    if (domain != AF_UNIX || type != SOCK_STREAM || listens == 0)
        return err_set(err, -EINVAL,
                       "the socket of LISTEN_FDS: must be a unix stream socket that listens");
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return err_errno(err, -errno, "the socket of LISTEN_FDS");
    r = group == (gid_t)-1 ? 0 : socket_open_to_group(fd, group, err);
    return r < 0 ? r : fd;
}

int service_notify_socket(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    auto_close int fd = FD_NONE;
    socklen_t len;

    if (path == NULL || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(name.sun_path))
        return FD_NONE;
    (void)memcpy(name.sun_path, path, strlen(path) + 1);
    len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (path[0] == '@')
        name.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&name, len) < 0)
        return FD_NONE;
    return take_fd(&fd);
}

void service_tell(int fd, const char *state)
{
    if (fd >= 0)
        (void)!send(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT);
}
