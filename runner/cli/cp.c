/* rind cp: copies files into and out of sandboxes. */

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "cli/pack.h"
#include "cli/remote.h"
#include "cli/unpack.h"
#include "cli/url.h"
#include "json/parse.h"

struct cp_args {
    struct remote remote; /* first */
    bool follow;
};

static const struct opt cp_options[] = {
    {.name = "follow-link",
     .letter = 'L',
     .set = opt_flag,
     .off = offsetof(struct cp_args, follow),
     .help = "Where the source is a link, copy what it leads to"},
    {0},
};
static const struct opt_group groups[] = {
    {.title = "Options", .rows = cp_options}, {.title = "Daemon", .rows = socket_options}, {0}};

static const char *const details[] = {
    "Copies a file or a tree between this machine and a sandbox; it need not run. Where the target "
    "is a directory the copy is put into it, else it is called so. A source that ends in /. stands "
    "for what is in the directory. With - an archive (tar) is read from standard input and "
    "unpacked "
    "in the directory PATH, or written to standard output.",
    "What comes from a sandbox is not trusted: nothing is written outside the target, no link is "
    "followed, there are no devices and no set-id bits, and all belongs to who copies. What goes "
    "into a sandbox belongs to its root.",
    NULL,
};

static const struct example examples[] = {
    {"rind cp ./site/. web:/srv", "what is in a directory"},
    {"rind cp web:/var/log/app.log .", "one file"},
    {"rind cp web:/etc - | tar t", "as an archive"},
    {0},
};

enum { NAME_LEN_MAX = 255, PATH_LEN_MAX = 4096 };

/* True for "NAME:PATH"; a text with a slash before the colon is a local path. */
static bool is_remote(const char *text)
{
    const char *colon = strchr(text, ':');

    return colon != NULL && colon != text && text[0] != '.' &&
           memchr(text, '/', (size_t)(colon - text)) == NULL;
}

struct place {
    char name[NAME_LEN_MAX + 1]; /* the sandbox's name */
    const char *path;
};

static int split_place(const char *text, struct place *ret, struct err *err)
{
    size_t len = strcspn(text, ":");

    ret->path = text + len + 1;
    if (len > NAME_LEN_MAX || strlen(ret->path) >= PATH_LEN_MAX)
        return err_set(err, -ENAMETOOLONG, "%.64s...: too long", text);
    if (ret->path[0] != '/')
        return err_set(err, -EINVAL, "%.200s: a path in a sandbox is absolute: NAME:/PATH", text);
    (void)snprintf(ret->name, sizeof(ret->name), "%.*s", (int)len, text);
    return 0;
}

/*
 * The last component: ".../x", ".../x/" -> "x"; "" for "/", "." and "..". *ret_parent: the part
 * before it.
 */
static int last_name(const char *path, char name[NAME_LEN_MAX + 1], char parent[PATH_LEN_MAX],
                     struct err *err)
{
    size_t end = strlen(path), start;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        ;
    if (end - start > NAME_LEN_MAX || start >= PATH_LEN_MAX)
        return err_set(err, -ENAMETOOLONG, "%.64s...: too long", path);
    (void)snprintf(name, NAME_LEN_MAX + 1, "%.*s", (int)(end - start), path + start);
    (void)snprintf(parent, PATH_LEN_MAX, "%.*s", start > 0 ? (int)start : 1,
                   start > 0        ? path
                   : path[0] == '/' ? "/"
                                    : ".");
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        name[0] = '\0';
    return 0;
}

/* True for "/srv/.", which means the directory's contents. */
static bool is_contents(const char *path)
{
    size_t len = strlen(path);

    while (len > 0 && path[len - 1] == '/')
        len--;
    return len == 0 ? path[0] == '/' : path[len - 1] == '.' && (len == 1 || path[len - 2] == '/');
}

/* ---- copying out of a sandbox ---- */

static int get_archive(struct client *c, const struct cp_args *args, const struct place *from,
                       const char *name, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    struct client_request request = {.method = "GET"};
    int r = url_make(&url, "/v1/sandboxes/%s/files/archive?path=%s&follow=%s", from->name,
                     from->path, args->follow || is_contents(from->path) ? "true" : "false");

    if (r == 0 && name != NULL && name[0] != '\0')
        r = url_make(&url, "&name=%s", name);
    if (r < 0)
        return err_errno(err, r, "%s", from->path);
    request.target = url.data;
    r = client_send(c, &request, err);
    return r < 0 ? r : client_head(c, err);
}

struct source {
    struct client *client;
    struct err err; /* error of the connection */
};

/* Reads full buffers, except at the end, as unpack requires. */
static ssize_t read_source(void *data, void *buf, size_t len)
{
    struct source *s = data;
    size_t done = 0;

    while (done < len) {
        ssize_t n = client_read(s->client, (char *)buf + done, len - done, &s->err);

        if (n < 0)
            return n;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int to_stdout(struct client *c, struct err *err)
{
    char piece[CLIENT_PIECE_MAX];
    ssize_t n;

    while ((n = client_read(c, piece, sizeof(piece), err)) > 0) {
        int r = write_all(STDOUT_FILENO, piece, (size_t)n);

        if (r < 0)
            return err_errno(err, r, "standard output");
    }
    return (int)n;
}

/* Opens the target directory. name: the one name to create in it; "" = any names of the archive. */
static int open_target(const char *target, const struct place *from, char name[NAME_LEN_MAX + 1],
                       int *ret_fd, struct err *err)
{
    char parent[PATH_LEN_MAX], own[NAME_LEN_MAX + 1];
    struct stat st;
    const char *dir = target;
    bool contents = is_contents(from->path);
    int r = last_name(from->path, own, parent, err);

    if (r < 0)
        return r;
    if (contents && mkdir(target, 0777) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "'%s'", target);
    if (stat(target, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)snprintf(name, NAME_LEN_MAX + 1, "%s", contents ? "" : own);
    } else if (contents) {
        return err_errno(err, -ENOTDIR, "'%s'", target);
    } else {
        r = last_name(target, name, parent, err);
        if (r < 0)
            return r;
        dir = parent;
    }
    *ret_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd < 0 ? err_errno(err, -errno, "'%s'", dir) : 0;
}

static int copy_out(struct client *c, const struct cp_args *args, const struct place *from,
                    const char *target, size_t *ret_skipped, struct err *err)
{
    struct source source = {.client = c, .err = ERR_NONE};
    char name[NAME_LEN_MAX + 1] = "";
    auto_close int dir = FD_NONE;
    int r;

    if (strcmp(target, "-") == 0) {
        r = get_archive(c, args, from, NULL, err);
        return r < 0 ? r : to_stdout(c, err);
    }
    r = open_target(target, from, name, &dir, err);
    if (r == 0)
        r = get_archive(c, args, from, name, err);
    if (r == 0)
        r = unpack(dir, name[0] != '\0' ? name : NULL, read_source, &source, ret_skipped, err);
    if (source.err.code != 0)
        *err = source.err;
    return r;
}

/* ---- copying into a sandbox ---- */

static int begin_put(struct client *c, const struct place *to, const char *dir, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    struct client_request request = {
        .method = "PUT", .type = "application/x-tar", .flags = CLIENT_CHUNKED};
    int r = url_make(&url, "/v1/sandboxes/%s/files/archive?path=%s&owners=false", to->name, dir);

    if (r < 0)
        return err_errno(err, r, "%s", dir);
    request.target = url.data;
    return client_send(c, &request, err);
}

static int put_piece(void *data, const void *bytes, size_t len, struct err *err)
{
    return client_put(data, bytes, len, err);
}

static int from_stdin(struct client *c, struct err *err)
{
    char piece[CLIENT_PIECE_MAX];
    int r = 0;

    while (r == 0) {
        ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, -errno, "standard input");
        if (n == 0)
            break;
        r = client_put(c, piece, (size_t)n, err);
    }
    return r;
}

/* Determines whether the target in the sandbox is a directory. */
static int is_directory(struct client *c, const struct place *to, bool *ret, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    auto_ptr(json_decref) json_t *root = NULL;
    int r = url_make(&url, "/v1/sandboxes/%s/files/stat?path=%s", to->name, to->path);

    if (r < 0)
        return err_errno(err, r, "%s", to->path);
    r = client_json(c, "GET", url.data, NULL, &root, err);
    *ret = r == 0 && strcmp(member(root, "type"), "directory") == 0;
    return 0; /* other errors are reported by the write */
}

static int copy_in(struct client *c, const struct cp_args *args, const char *source,
                   const struct place *to, size_t *ret_skipped, struct err *err)
{
    char name[NAME_LEN_MAX + 1], own[NAME_LEN_MAX + 1], parent[PATH_LEN_MAX];
    const char *dir = to->path;
    bool archive = strcmp(source, "-") == 0, there = archive;
    struct stat st;
    int r = 0;

    if (!archive && lstat(source, &st) < 0)
        return err_errno(err, -errno, "'%s'", source);
    if (!archive)
        r = is_directory(c, to, &there, err);
    if (r == 0)
        r = last_name(source, own, parent, err);
    if (r == 0 && !there) {
        r = last_name(to->path, name, parent, err);
        dir = parent;
    } else {
        (void)snprintf(name, sizeof(name), "%s", is_contents(source) ? "" : own);
    }
    if (r == 0)
        r = begin_put(c, to, dir, err);
    if (r == 0)
        r = archive ? from_stdin(c, err)
                    : pack(source, name, args->follow || is_contents(source), put_piece, c,
                           ret_skipped, err);
    if (r < 0)
        return r; /* the caller closes the connection with the archive incomplete */
    if (r == 0)
        r = client_put_end(c, err);
    return r < 0 ? r : client_head(c, err);
}

/* ---- the verb ---- */

static int copy_files(const struct cp_args *args, char **names, size_t *ret_skipped,
                      struct err *err)
{
    bool out = is_remote(names[0]), in = is_remote(names[1]);
    auto_client struct client *c = NULL;
    struct place place;
    int r;

    if (out == in)
        return err_set(err, -EINVAL,
                       out ? "from one sandbox to another: pass the archive on, rind cp A:/x - | "
                             "rind cp - B:/y"
                           : "neither is in a sandbox: write that one as NAME:/PATH");
    r = split_place(names[out ? 0 : 1], &place, err);
    if (r == 0)
        r = remote_open(&args->remote, &c, err);
    if (r < 0)
        return r;
    return out ? copy_out(c, args, &place, names[1], ret_skipped, err)
               : copy_in(c, args, names[0], &place, ret_skipped, err);
}

static int cp_main(const struct verb *v, const struct globals *g, char **argv)
{
    struct cp_args args = {.remote.globals = *g};
    struct err err = ERR_NONE;
    size_t skipped = 0;
    char **names;
    int status;

    if (remote_begin(v, &args, argv, 2, 2, "source and target", &names, &status) == VERB_DONE)
        return status;
    if (copy_files(&args, names, &skipped, &err) < 0)
        return cli_fail(&err);
    if (skipped > 0)
        return cli_failf("cp: %zu of its entries could not be copied; all others were", skipped);
    return 0;
}

const struct verb verb_cp = {
    .name = "cp",
    .operands = "SOURCE TARGET",
    .summary = "Copy files into and out of a sandbox",
    .details = details,
    .groups = groups,
    .examples = examples,
    .main = cp_main,
};
