/* Output as JSON: text where it is text, also when it is cut; bodies of requests by table. */

#include <errno.h>
#include <jansson.h>
#include <signal.h>

#include "api/native/exec-body.h"
#include "api/native/exec-json.h"
#include "base/err.h"
#include "http/server.h"
#include "spec/spec.h"
#include "tap.h"

TEST(the_tail_of_output_is_kept)
{
    static const struct {
        const char *text;
        size_t want;
    } rows[] = {
        {"", 0},
        {"a", 0},
        {"\xc3", 1},
        {"a\xc3", 1},
        {"a\xc3\xbc", 0},
        {"\xe2", 1},
        {"\xe2\x82", 2},
        {"\xe2\x82\xac", 0},
        {"\xf0\x9f", 2},
        {"\xf0\x9f\x94", 3},
        {"\xf0\x9f\x94\x91", 0},
        {"\x80", 0},
        {"a\x80\x80", 0},
        {"\xff", 1},
        {"\xc0", 0}, /* none begins so, or what follows will say */
        {"\x80\x80\x80\x80", 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_INT(exec_text_tail(rows[i].text, strlen(rows[i].text)), rows[i].want);
}

TEST(chunks_stay_text_however_they_are_cut)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *want;
    } rows[] = {{"", 0, "{\"data\":\"\"}"},
                {"a\nb", 3, "{\"data\":\"a\\nb\"}"},
                {"a\0b", 3, "{\"data\":\"a\\u0000b\"}"},
                {"\xff", 1, "{\"data\":\"/w==\",\"encoding\":\"base64\"}"},
                {"gr\xc3", 3, "{\"data\":\"Z3LD\",\"encoding\":\"base64\"}"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *root = exec_chunk(rows[i].bytes, rows[i].len);
        char *text = json_dumps(root, JSON_COMPACT);

        CHECK_STR(text, rows[i].want);
        free(text);
        json_decref(root);
    }
}

/* ---- bodies ---- */

static int read_body(const char *text, enum exec_body_kind kind, struct exec_body *b,
                     struct err *err)
{
    static struct http_request req;

    req = (struct http_request){
        .body = {.data = strdup(text), .len = strlen(text), .max = EXEC_BODY_MAX}};
    int r = exec_body_read(&req, kind, b, err);

    free(req.body.data);
    return r;
}

TEST(whole_bodies)
{
    struct err err = ERR_NONE;
    struct exec_options o;
    struct exec_body b;

    CHECK_INT(read_body("{\"cmd\":\"a b\"}", EXEC_BODY_EXEC, &b, &err), 0);
    exec_body_options(&b, &o);
    CHECK_STR(o.argv[0], "/bin/sh");
    CHECK_STR(o.argv[1], "-c");
    CHECK_STR(o.argv[2], "a b");
    CHECK(o.argv[3] == NULL && o.cwd == NULL && o.user == NULL && o.envp[0] == NULL);
    CHECK(!o.with_stdin && !o.tty && !o.keep && !o.combined && !o.main && !o.helper && !o.idle);
    CHECK_INT(o.timeout_ms, LIMIT_UNSET);
    CHECK_INT(b.max_output, -1);
    exec_body_done(&b);

    CHECK_INT(
        read_body("{\"argv\":[\"x\",\"\"],\"env\":{\"A\":\"\",\"B\":\"=\"},\"cwd\":\"/a/../b\","
                  "\"user\":\"7:8\",\"timeoutMs\":5,\"tty\":true,\"rows\":3,\"cols\":65535,"
                  "\"detach\":true}",
                  EXEC_BODY_EXEC, &b, &err),
        -EINVAL);
    CHECK(strncmp(err.msg, "cwd: ", 5) == 0);
    exec_body_done(&b);
    CHECK_INT(read_body("{\"argv\":[\"x\",\"\"],\"env\":{\"A\":\"\",\"B\":\"=\"},\"cwd\":\"/b\","
                        "\"user\":\"7:8\",\"timeoutMs\":5,\"tty\":true,\"rows\":3,\"cols\":65535,"
                        "\"detach\":true,\"idle\":true}",
                        EXEC_BODY_EXEC, &b, &err),
              0);
    exec_body_options(&b, &o);
    CHECK_STR(o.argv[1], "");
    CHECK_STR(o.envp[0], "A=");
    CHECK_STR(o.envp[1], "B==");
    CHECK_STR(o.cwd, "/b");
    CHECK_STR(o.user, "7:8");
    CHECK(o.tty && o.keep && o.idle && !o.with_stdin);
    CHECK_INT(o.rows, 3);
    CHECK_INT(o.cols, 65535);
    CHECK_INT(o.timeout_ms, 5);
    exec_body_done(&b);

    CHECK_INT(
        read_body("{\"cmd\":\"a\",\"stdin\":\"YQBi\",\"stdinEncoding\":\"base64\",\"id\":\"p\"}",
                  EXEC_BODY_PROCESS, &b, &err),
        0);
    exec_body_options(&b, &o);
    CHECK(o.with_stdin && b.input_len == 3 && memcmp(b.input, "a\0b", 3) == 0);
    CHECK_STR(b.id, "p");
    exec_body_done(&b);
}

TEST(refused_bodies)
{
    static const struct {
        enum exec_body_kind kind;
        const char *text;
        int code;
        const char *message;
    } rows[] = {
        {EXEC_BODY_EXEC, "", -EINVAL, "cmd: missing (or argv)"},
        {EXEC_BODY_EXEC, "{\"cmd\":\"a\",\"cmd\":\"b\"}", -EINVAL, "body: "},
        {EXEC_BODY_EXEC, "{\"cmd\":\"a\\u0000b\"}", -EINVAL, "body: "},
        {EXEC_BODY_EXEC, "{\"argv\":\"a\"}", -EINVAL,
         "argv: must be an array of strings that is not empty"},
        {EXEC_BODY_EXEC, "{\"cmd\":\"a\",\"id\":\"p\"}", -EINVAL, "id: unknown key"},
        {EXEC_BODY_PROCESS, "{\"cmd\":\"a\",\"tty\":true}", -EINVAL, "tty: unknown key"},
        {EXEC_BODY_PROCESS, "{\"cmd\":\"a\",\"mode\":\"events\"}", -EINVAL, "mode: unknown key"},
        {EXEC_BODY_EXEC, "{\"cmd\":\"a\",\"env\":{\"=\":\"1\"}}", -EINVAL,
         "env.=: a name must not be empty or hold ="},
        {EXEC_BODY_EXEC, "{\"cmd\":\"a\",\"timeoutMs\":1.5}", -EINVAL, "timeoutMs: "},
        {EXEC_BODY_EXEC, "{\"cmd\":\"a\",\"maxOutputBytes\":-1}", -ERANGE, "maxOutputBytes: "},
        {EXEC_BODY_EXEC, "{\"cmd\":\"a\",\"detach\":true,\"stdin\":\"x\"}", -EINVAL,
         "stdin: not with detach"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct err err = ERR_NONE;
        struct exec_body b;

        CHECK_INT(read_body(rows[i].text, rows[i].kind, &b, &err), rows[i].code);
        if (strncmp(err.msg, rows[i].message, strlen(rows[i].message)) != 0)
            tap_fail("%s: \"%s\", want \"%s\"", rows[i].text, err.msg, rows[i].message);
        exec_body_done(&b);
    }
}

TEST(signals_are_named)
{
    static const struct {
        const char *text;
        int fallback, code, signo;
        bool group;
    } rows[] = {{"{\"signal\":\"TERM\"}", 0, 0, SIGTERM, true},
                {"{\"signal\":9,\"group\":false}", 0, 0, SIGKILL, false},
                {"{}", SIGINT, 0, SIGINT, true},
                {"{}", 0, -EINVAL, 0, true},
                {"{\"signal\":0}", 0, -EINVAL, 0, true},
                {"{\"signal\":65}", 0, -EINVAL, 0, true},
                {"{\"signal\":null}", 0, -EINVAL, 0, true}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_request req = {
            .body = {.data = strdup(rows[i].text), .len = strlen(rows[i].text), .max = 1000}};
        struct err err = ERR_NONE;
        struct exec_kill k;

        CHECK_INT(exec_kill_read(&req, rows[i].fallback, &k, &err), rows[i].code);
        if (rows[i].code == 0) {
            CHECK_INT(k.signo, rows[i].signo);
            CHECK(k.group == rows[i].group);
        } else {
            CHECK(strncmp(err.msg, "signal: ", 8) == 0);
        }
        free(req.body.data);
    }
}

TAP_MAIN
