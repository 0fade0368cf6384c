/* The commands of rind docker; each makes one or two requests. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "cli/docker.h"
#include "cli/human.h"
#include "cli/url.h"
#include "json/parse.h"

enum { SHORT_ID = 12, PASSWORD_MAX = 64 << 10 };

static int docker_get(struct client *c, const char *format, const char *name, json_t **ret,
                      struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, format, name);

    return r < 0 ? err_errno(err, r, "%.64s", name)
                 : client_json(c, "GET", url.data, NULL, ret, err);
}

/* Sends a request that is answered by a JSON list. */
static int request_list(struct client *c, const char *method, const char *target, json_t **ret,
                        struct err *err)
{
    const struct client_request request = {.method = method, .target = target};
    auto_buf struct buf all = BUF_INIT(CLIENT_JSON_MAX);
    char piece[4096];
    ssize_t n = 0;
    int r = client_send(c, &request, err);

    if (r == 0)
        r = client_head(c, err);
    while (r == 0 && (n = client_read(c, piece, sizeof(piece), err)) > 0)
        if (buf_append(&all, piece, (size_t)n) < 0)
            r = err_set(err, -EFBIG, "the answer is too long");
    if (r < 0 || n < 0)
        return r < 0 ? r : (int)n;
    *ret = json_loadb(all.len > 0 ? all.data : "", all.len, JSON_REJECT_DUPLICATES, NULL);
    return json_is_array(*ret) ? 0 : err_set(err, -EPROTO, "the answer is no list");
}

static int get_list(struct client *c, const char *format, const char *name, json_t **ret,
                    struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = url_make(&url, format, name);

    return r < 0 ? err_errno(err, r, "%.64s", name) : request_list(c, "GET", url.data, ret, err);
}

static int one_operand(char **operands, const char *what, struct err *err)
{
    if (operands[0] != NULL && operands[1] == NULL)
        return 0;
    return err_set(err, -EINVAL, "%s is needed, and nothing else", what);
}

/* Converts --filter NAME=VALUE options to JSON: {"label":["a=b"]}. */
static int filters_text(const struct docker_args *args, char **ret, struct err *err)
{
    auto_ptr(json_decref) json_t *root = json_object();

    for (unsigned i = 0; i < args->filter_count; i++) {
        const char *equals = strchr(args->filters[i], '=');
        char name[64];
        json_t *list;

        if (equals == NULL || (size_t)(equals - args->filters[i]) >= sizeof(name))
            return err_set(err, -EINVAL, "--filter %.64s: must be NAME=VALUE", args->filters[i]);
        (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - args->filters[i]),
                       args->filters[i]);
        list = json_object_get(root, name);
        if (list == NULL) {
            (void)json_object_set_new(root, name, json_array());
            list = json_object_get(root, name);
        }
        (void)json_array_append_new(list, json_string(equals + 1));
    }
    *ret = json_dumps(root, JSON_COMPACT);
    return *ret != NULL ? 0 : err_errno(err, -ENOMEM, "--filter");
}

/* The id as docker shows it; whole: not shortened. */
static json_t *short_id(const char *id, bool whole)
{
    if (strncmp(id, "sha256:", 7) == 0 && !whole)
        id += 7;
    return whole ? json_string(id)
                 : json_stringn(id, strlen(id) < SHORT_ID ? strlen(id) : SHORT_ID);
}

/* ---- the engine ---- */

static int cmd_info(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    auto_ptr(json_decref) json_t *root = NULL;
    int r;

    (void)operands;
    r = client_json(c, "GET", "/info", NULL, &root, err);
    if (r == 0)
        r = docker_print(args, root, err);
    if (r == 0)
        (void)printf("Server: rind %s\n Containers: %" JSON_INTEGER_FORMAT
                     "\n Running: %" JSON_INTEGER_FORMAT "\n Kernel Version: %s\n",
                     member(root, "ServerVersion"),
                     json_integer_value(json_object_get(root, "Containers")),
                     json_integer_value(json_object_get(root, "ContainersRunning")),
                     member(root, "KernelVersion"));
    return r < 0 ? r : 0;
}

static int cmd_version(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    auto_ptr(json_decref) json_t *server = NULL, *root = NULL;
    int r;

    (void)operands;
    r = client_json(c, "GET", "/version", NULL, &server, err);
    if (r < 0)
        return r;
    root = json_pack("{s:{s:s, s:O}, s:O}", "Client", "Version", RIND_VERSION, "ApiVersion",
                     json_object_get(server, "ApiVersion"), "Server", server);
    if (root == NULL)
        return err_errno(err, -ENOMEM, "version");
    r = docker_print(args, root, err);
    if (r == 0)
        (void)printf("Client: rind %s\nServer: rind %s\n API version: %s\n", RIND_VERSION,
                     member(server, "Version"), member(server, "ApiVersion"));
    return r < 0 ? r : 0;
}

static int cmd_context_ls(struct client *c, struct docker_args *args, char **operands,
                          struct err *err)
{
    auto_ptr(json_decref) json_t *root =
        json_pack("{s:b, s:s, s:s, s:s, s:s}", "Current", 1, "Description", "the sandboxes of rind",
                  "DockerEndpoint", docker_address, "Error", "", "Name", "rind");
    int r;

    (void)c;
    (void)operands;
    if (root == NULL)
        return err_errno(err, -ENOMEM, "context");
    r = docker_print(args, root, err);
    if (r == 0)
        (void)printf("NAME     DESCRIPTION             DOCKER ENDPOINT\nrind *   the sandboxes of "
                     "rind   %s\n",
                     docker_address);
    return r < 0 ? r : 0;
}

/*
 * Reads and discards the password from stdin, as docker would read it; there are no registries to
 * use it.
 */
static int cmd_login(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    char password[4096];
    size_t all = 0;
    ssize_t n = 0;

    (void)c;
    (void)operands;
    while (args->password_stdin && all < PASSWORD_MAX &&
           (n = read(STDIN_FILENO, password, sizeof(password))) > 0)
        all += (size_t)n;
    explicit_bzero(password, sizeof(password));
    if (n < 0)
        return err_errno(err, -errno, "standard input");
    (void)docker_sentence("login: there are no registries yet, so the password was not kept; what "
                          "is in the store needs none");
    return 0;
}

/* ---- images ---- */

static int cmd_pull(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    int r = one_operand(operands, "an image", err);

    if (r < 0)
        return r;
    r = url_make(&url, "/images/create?fromImage=%s", operands[0]);
    if (r < 0)
        return err_errno(err, r, "%.64s", operands[0]);
    r = client_json(c, "POST", url.data, NULL, NULL, err);
    if (r == 0)
        (void)printf("%s%s\n", operands[0], args->quiet ? "" : ": it is in the store");
    return r;
}

/* Splits "name:tag"; the colon of a registry's port does not count. */
static int split_name(const char *text, char *name, size_t size, const char **ret_tag)
{
    const char *colon = strrchr(text, ':');

    if (colon != NULL && strchr(colon, '/') != NULL)
        colon = NULL;
    *ret_tag = colon != NULL ? colon + 1 : "latest";
    return snprintf(name, size, "%.*s", colon != NULL ? (int)(colon - text) : (int)strlen(text),
                    text) < (int)size
               ? 0
               : -ENAMETOOLONG;
}

static int cmd_tag(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    char name[512];
    const char *tag;
    int r;

    (void)args;
    if (operands[0] == NULL || operands[1] == NULL || operands[2] != NULL)
        return err_set(err, -EINVAL, "tag: an image and a new name are needed");
    r = split_name(operands[1], name, sizeof(name), &tag);
    if (r == 0)
        r = url_make(&url, "/images/%s/tag?repo=%s&tag=%s", operands[0], name, tag);
    if (r < 0)
        return err_errno(err, r, "%.64s", operands[1]);
    return client_json(c, "POST", url.data, NULL, NULL, err);
}

static int cmd_image_inspect(struct client *c, struct docker_args *args, char **operands,
                             struct err *err)
{
    auto_ptr(json_decref) json_t *list = json_array();
    int r = 0;

    if (operands[0] == NULL)
        return err_set(err, -EINVAL, "image inspect: an image is needed");
    for (; r >= 0 && *operands != NULL; operands++) {
        json_t *root = NULL;

        r = docker_get(c, "/images/%s/json", *operands, &root, err);
        if (r == 0)
            r = docker_print(args, root, err);
        if (root != NULL)
            (void)json_array_append_new(list, root);
    }
    if (r == 0)
        print_json(json_incref(list));
    return r < 0 ? r : 0;
}

/* A row for each name of an image; fields as docker's. */
static json_t *image_row(const json_t *image, const char *name, const struct docker_args *args)
{
    const char *colon = strrchr(name, ':');
    char size[HUMAN_MAX];

    return json_pack(
        "{s:s%, s:s, s:o, s:s, s:s}", "Repository", name,
        colon != NULL ? (size_t)(colon - name) : strlen(name), "Tag",
        colon != NULL ? colon + 1 : "<none>", "ID", short_id(member(image, "Id"), args->no_trunc),
        "Size", human_bytes((uint64_t)json_integer_value(json_object_get(image, "Size")), size),
        "Digest", "<none>");
}

static int print_image(const struct docker_args *args, json_t *row, struct err *err)
{
    int r = docker_print(args, row, err);

    if (r != 0)
        return r < 0 ? r : 0;
    if (args->quiet)
        (void)printf("%s\n", member(row, "ID"));
    else
        (void)printf("%-40s %-20s %-14s %s\n", member(row, "Repository"), member(row, "Tag"),
                     member(row, "ID"), member(row, "Size"));
    return 0;
}

static int print_images(const struct docker_args *args, json_t *list, struct err *err)
{
    json_t *image, *name;
    size_t i, k;
    int r = 0;

    if (args->format == NULL && !args->quiet)
        (void)printf("%-40s %-20s %-14s %s\n", "REPOSITORY", "TAG", "IMAGE ID", "SIZE");
    json_array_foreach(list, i, image) {
        json_t *names = json_object_get(image, "RepoTags");

        if (json_array_size(names) == 0) {
            auto_ptr(json_decref) json_t *row = image_row(image, "<none>", args);

            r = print_image(args, row, err);
        }
        json_array_foreach(names, k, name) {
            auto_ptr(json_decref) json_t *row = image_row(image, json_string_value(name), args);

            if (r == 0)
                r = print_image(args, row, err);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static int cmd_images(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    auto_ptr(json_decref) json_t *list = NULL;
    auto_free char *filters = NULL, *reference = NULL;
    int r;

    if (operands[0] != NULL && args->filter_count < DOCKER_VALUES_MAX) {
        if (asprintf(&reference, "reference=%s", operands[0]) < 0) {
            reference = NULL;
            return err_errno(err, -ENOMEM, "images");
        }
        args->filters[args->filter_count++] = reference;
    }
    r = filters_text(args, &filters, err);
    if (r == 0)
        r = get_list(c, "/images/json?filters=%s", filters, &list, err);
    return r < 0 ? r : print_images(args, list, err);
}

static int cmd_rmi(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    int failed = 0;

    if (operands[0] == NULL)
        return err_set(err, -EINVAL, "rmi: an image is needed");
    for (; *operands != NULL; operands++) {
        auto_buf struct buf url = BUF_INIT(URL_MAX);
        auto_ptr(json_decref) json_t *list = NULL;
        json_t *element, *value;
        const char *key;
        size_t i;

        if (url_make(&url, args->force ? "/images/%s?force=1" : "/images/%s", *operands) < 0 ||
            request_list(c, "DELETE", url.data, &list, err) < 0) {
            failed = docker_sentence("%s", err->msg);
            continue;
        }
        json_array_foreach(list, i, element)
            json_object_foreach(element, key, value)
                (void)printf("%s: %s\n", key, json_string_value(value));
    }
    return failed;
}

/* Answers from the store; there are no registries to ask. */
static int cmd_manifest_inspect(struct client *c, struct docker_args *args, char **operands,
                                struct err *err)
{
    auto_ptr(json_decref) json_t *image = NULL;
    int r = one_operand(operands, "an image", err);

    (void)args;
    if (r == 0)
        r = docker_get(c, "/v1/images/inspect?name=%s", operands[0], &image, err);
    if (r == -ENOENT)
        return err_set(err, r,
                       "manifest inspect: %.255s is not in the store, and there are no "
                       "registries yet",
                       operands[0]);
    if (r < 0)
        return r;
    print_json(json_pack("{s:s, s:{s:s, s:s, s:I}}", "Ref", operands[0], "Descriptor", "mediaType",
                         "application/vnd.oci.image.manifest.v1+json", "digest",
                         member(image, "digest"), "size",
                         json_integer_value(json_object_get(image, "size"))));
    return 0;
}

static int cmd_build(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    (void)c;
    (void)args;
    (void)operands;
    (void)err;
    return docker_sentence("build: rind does not build images yet; build elsewhere, docker save, "
                           "and rind load the archive");
}

/* ---- containers ---- */

static json_t *container_row(const json_t *c, const struct docker_args *args)
{
    const char *name = json_string_value(json_array_get(json_object_get(c, "Names"), 0));
    const char *image = member(c, "Image");
    bool digest = strncmp(image, "sha256:", strlen("sha256:")) == 0;
    json_t *row =
        json_pack("{s:o, s:o, s:s, s:s, s:s, s:s}", "ID", short_id(member(c, "Id"), args->no_trunc),
                  "Image", digest ? short_id(image, args->no_trunc) : json_string(image), "Command",
                  member(c, "Command"), "State", member(c, "State"), "Status", member(c, "Status"),
                  "Names", name != NULL ? name + (name[0] == '/') : "");

    if (row != NULL)
        (void)json_object_set(row, "Labels", json_object_get(c, "Labels"));
    return row;
}

static int cmd_ps(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    auto_ptr(json_decref) json_t *list = NULL;
    auto_free char *filters = NULL;
    json_t *container;
    size_t i;
    int r;

    (void)operands;
    r = filters_text(args, &filters, err);
    if (r == 0)
        r = get_list(
            c, args->all ? "/containers/json?all=1&filters=%s" : "/containers/json?filters=%s",
            filters, &list, err);
    if (r == 0 && args->format == NULL && !args->quiet)
        (void)printf("%-14s %-32s %-24s %s\n", "CONTAINER ID", "IMAGE", "STATUS", "NAMES");
    json_array_foreach(list, i, container) {
        auto_ptr(json_decref) json_t *row = container_row(container, args);

        r = args->quiet ? 0 : docker_print(args, row, err);
        if (r < 0)
            return r;
        if (r == 0 && args->quiet)
            (void)printf("%s\n", member(row, "ID"));
        else if (r == 0)
            (void)printf("%-14s %-32s %-24s %s\n", member(row, "ID"), member(row, "Image"),
                         member(row, "Status"), member(row, "Names"));
    }
    return r < 0 ? r : 0;
}

static int cmd_rm(struct client *c, struct docker_args *args, char **operands, struct err *err)
{
    int failed = 0;

    if (operands[0] == NULL)
        return err_set(err, -EINVAL, "rm: a container is needed");
    for (; *operands != NULL; operands++) {
        auto_buf struct buf url = BUF_INIT(URL_MAX);

        if (url_make(&url, args->force ? "/containers/%s?force=1" : "/containers/%s", *operands) <
                0 ||
            client_json(c, "DELETE", url.data, NULL, NULL, err) < 0)
            failed = docker_sentence("%s", err->msg);
        else
            (void)printf("%s\n", *operands);
    }
    return failed;
}

/* clang-format off */
const struct docker_command docker_commands[] = {
    {"info",     NULL,      "fF",     cmd_info,             false},
    {"version",  NULL,      "fF",     cmd_version,          false},
    {"context",  "ls",      "qF",     cmd_context_ls,       true},
    {"login",    NULL,      "ups",    cmd_login,            true},
    {"pull",     NULL,      "aqP",    cmd_pull,             false},
    {"tag",      NULL,      "",       cmd_tag,              false},
    {"image",    "inspect", "FP",     cmd_image_inspect,    false},
    {"image",    "ls",      "aqFLn",  cmd_images,           false},
    {"image",    "list",    "aqFLn",  cmd_images,           false},
    {"image",    "rm",      "fP",     cmd_rmi,              false},
    {"image",    "tag",     "",       cmd_tag,              false},
    {"image",    "pull",    "aqP",    cmd_pull,             false},
    {"images",   NULL,      "aqFLn",  cmd_images,           false},
    {"rmi",      NULL,      "fP",     cmd_rmi,              false},
    {"manifest", "inspect", "v",      cmd_manifest_inspect, false},
    {"build",    NULL,      NULL,     cmd_build,            true},
    {"buildx",   NULL,      NULL,     cmd_build,            true},
    {"ps",       NULL,      "aqFLn",  cmd_ps,               false},
    {"rm",       NULL,      "fvV",    cmd_rm,               false},
    {0},
};
/* clang-format on */
