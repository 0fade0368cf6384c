/* The body of a commit as changes of an image's configuration. */

#include <errno.h>

#include "api/docker/commit-config.h"
#include "base/err.h"
#include "image/config.h"
#include "json/decode.h"
#include "json/parse.h"
#include "tap.h"

/* Applies the changes of a body to an empty configuration; what it is then, as text. */
static char *applied(const char *text, int *ret_code)
{
    json_t *body = NULL, *tree = json_object();
    struct err err = ERR_NONE;
    char **list = NULL, *out = NULL;
    int r = json_parse(text, strlen(text), 1 << 20, &body, &err);

    if (r == 0)
        r = commit_config_changes(body, &list, &err);
    for (size_t i = 0; r == 0 && list[i] != NULL; i++)
        r = image_config_change(tree, list[i], &err);
    if (r == 0)
        out = json_dumps(json_object_get(tree, "config"), JSON_COMPACT | JSON_SORT_KEYS);
    else if (err.msg[0] == '\0')
        tap_fail("%s: no message", text);
    *ret_code = r;
    json_strings_free(list);
    json_decref(body);
    json_decref(tree);
    return out;
}

TEST(bodies)
{
    static const struct {
        const char *body, *want;
        int code;
    } rows[] = {
        {"{\"Cmd\":[\"a b\",\"c\"]}", "{\"Cmd\":[\"a b\",\"c\"]}", 0},
        {"{\"Cmd\":\"a b\"}", "{\"Cmd\":[\"a b\"]}", 0},
        {"{\"Cmd\":[\"c\"],\"Entrypoint\":[\"e\"]}", "{\"Cmd\":[\"c\"],\"Entrypoint\":[\"e\"]}", 0},
        {"{\"Env\":[\"A=b \\\"c\\\\d' e\",\"B\"]}", "{\"Env\":[\"A=b \\\"c\\\\d' e\"]}", 0},
        {"{\"Labels\":{\"a\":\"\",\"b\":\"c=d\"}}", "{\"Labels\":{\"a\":\"\",\"b\":\"c=d\"}}", 0},
        {"{\"ExposedPorts\":{\"80/tcp\":{}}}", "{\"ExposedPorts\":{\"80/tcp\":{}}}", 0},
        {"{\"Volumes\":{\"/a b\":{}}}", "{\"Volumes\":{\"/a b\":{}}}", 0},
        {"{\"StopSignal\":\"SIGINT\",\"User\":\"a\"}", "{\"StopSignal\":\"SIGINT\",\"User\":\"a\"}",
         0},
        {"{\"Healthcheck\":{\"Test\":[\"CMD-SHELL\",\"a || b\"],\"Interval\":290000000}}",
         "{\"Healthcheck\":{\"Interval\":290000000,\"Test\":[\"CMD-SHELL\",\"a || b\"]}}", 0},
        {"{\"Healthcheck\":{\"Test\":[\"NONE\"]}}", "{\"Healthcheck\":{\"Test\":[\"NONE\"]}}", 0},
        {"{\"Hostname\":\"h\",\"Tty\":true,\"Nosuch\":1}", NULL, 0},
        {"{\"Memory\":1}", NULL, -EINVAL},
        {"{\"HostConfig\":{\"Memory\":1}}", NULL, -EINVAL},
        {"{\"Env\":{\"a\":1}}", NULL, -EINVAL},
        {"{\"Labels\":[\"a\"]}", NULL, -EINVAL},
        {"{\"Cmd\":[1]}", NULL, -EINVAL},
        {"{\"Cmd\":{\"a\":1}}", NULL, -EINVAL},
        {"{\"WorkingDir\":\"x\"}", NULL, -EINVAL},
        {"{\"Healthcheck\":{\"Interval\":1}}", NULL, -EINVAL},
        {"{\"Healthcheck\":{\"Test\":[\"CMD\",\"x\"],\"Timeout\":1}}", NULL, -EINVAL},
        {"{\"Healthcheck\":{\"Test\":[\"OTHER\"]}}", NULL, -EINVAL},
        {"{\"OnBuild\":[1]}", NULL, -EINVAL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int r;
        char *got = applied(rows[i].body, &r);

        if (r != rows[i].code || (got == NULL) != (rows[i].want == NULL) ||
            (got != NULL && strcmp(got, rows[i].want) != 0))
            tap_fail("%s: %d %s", rows[i].body, r, got != NULL ? got : "");
        free(got);
    }
}

TAP_MAIN
