/* Finding a sandbox by id, name, and the beginning of an id. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/err.h"
#include "sandbox/rights.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "spec/spec.h"
#include "tap.h"

static struct sandbox *make(struct supervisor *sup, const char *id, const char *name)
{
    struct spec *spec = spec_new();

    if (spec == NULL || (spec->name = strdup(name)) == NULL)
        abort();
    return sandbox_alloc(sup, id, spec);
}

TEST(a_sandbox_is_found_by_name_or_id)
{
    static const struct {
        const char *text;
        int which; /* of the sandboxes below; -1: none */
        int code;
        const char *message;
    } rows[] = {
        {"abcd000000000001", 0, 0, NULL},
        {"abcd0000000000", -1, -ENOTUNIQ,
         "sandbox 'abcd0000000000': 2 ids begin so; write more of it"},
        {"abcd", -1, -ENOTUNIQ, "sandbox 'abcd': 2 ids begin so; write more of it"},
        {"abc", -1, -ENOENT, "sandbox 'abc': there is none of this name or id"},
        {"0123", 2, 0, NULL},
        {"012", -1, -ENOENT, "sandbox '012': there is none of this name or id"},
        {"web", 1, 0, NULL},
        {"we", -1, -ENOENT, "sandbox 'we': there is none of this name or id"},
        {"", -1, -ENOENT, "sandbox '': there is none of this name or id"},
        {"abcd000000000001x", -1, -ENOENT,
         "sandbox 'abcd000000000001x': there is none of this name or id"},
        /* A whole name goes before the beginning of an id. */
        {"0123456789", 3, 0, NULL},
    };
    uv_loop_t loop;
    struct supervisor sup = {.loop = &loop};
    struct sandbox *all[4];

    sup.sandboxes_end = &sup.sandboxes;
    CHECK_INT(uv_loop_init(&loop), 0);
    all[0] = make(&sup, "abcd000000000001", "abcd000000000001");
    all[1] = make(&sup, "abcd000000000002", "web");
    all[2] = make(&sup, "0123456789abcdef", "db");
    all[3] = make(&sup, "ffff000000000000", "0123456789");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sandbox *s = NULL;
        struct err err = ERR_NONE;

        CHECK_INT(sandbox_find_for(&sup, NULL, rows[i].text, &s, &err), rows[i].code);
        CHECK(s == (rows[i].which < 0 ? NULL : all[rows[i].which]));
        CHECK_STR(err.msg, rows[i].message != NULL ? rows[i].message : "");
    }
    for (size_t i = 0; i < 4; i++)
        sandbox_forget(all[i]);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
}

TAP_MAIN
