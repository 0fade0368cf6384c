/* The table of sandboxes: found by id, by name, by the beginning of an id; listed in their order.
 */
#include <stdlib.h>
#include <uv.h>

#include "sandbox/rights.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"
#include "spec/spec.h"
#include "tap.h"

enum { MANY = 3000 }; /* some to each bucket */

struct text_table {
    uv_loop_t loop;
    struct supervisor *sup;
};

static void table_open(struct text_table *t)
{
    t->sup = calloc(1, sizeof(*t->sup));
    if (t->sup == NULL || uv_loop_init(&t->loop) != 0)
        exit(1);
    t->sup->loop = &t->loop;
    t->sup->sandboxes_end = &t->sup->sandboxes;
}

static void table_close(struct text_table *t)
{
    (void)uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&t->loop), 0);
    for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
        CHECK(t->sup->by_id[i] == NULL && t->sup->by_name[i] == NULL);
    CHECK(t->sup->sandboxes == NULL && t->sup->sandboxes_end == &t->sup->sandboxes);
    CHECK_INT(t->sup->count, 0);
    free(t->sup);
}

static struct sandbox *add(struct text_table *t, const char *id, const char *name)
{
    struct spec *spec = spec_new();
    struct sandbox *s;

    if (spec == NULL || (name != NULL && (spec->name = strdup(name)) == NULL) ||
        (s = sandbox_alloc(t->sup, id, spec)) == NULL)
        exit(1);
    return s;
}

static struct sandbox *found(struct text_table *t, const char *text)
{
    struct sandbox *s = NULL;

    return sandbox_find_for(t->sup, NULL, text, &s, NULL) == 0 ? s : NULL;
}

TEST(a_sandbox_is_found_by_name_or_id_prefix)
{
    struct text_table t;
    struct sandbox *a, *b, *c;

    table_open(&t);
    a = add(&t, "00112233445566aa", "web");
    b = add(&t, "00112233445566bb", NULL);
    c = add(&t, "ffff000000000000", "0011");
    CHECK(found(&t, "00112233445566aa") == a);
    CHECK(found(&t, "web") == a);
    CHECK(found(&t, "00112233445566bb") == b);
    CHECK(found(&t, "00112233445566b") == b);
    CHECK(found(&t, "00112233445566") == NULL); /* two begin so */
    CHECK(found(&t, "0011") == c);              /* a name goes before */
    CHECK(found(&t, "ffff") == c);
    CHECK(found(&t, "fff") == NULL); /* too short */
    CHECK(found(&t, "") == NULL);
    CHECK(found(&t, "we") == NULL && found(&t, "webs") == NULL);
    CHECK(found(&t, "00112233445566aaa") == NULL);
    sandbox_forget(a);
    CHECK(found(&t, "web") == NULL);
    CHECK(found(&t, "00112233445566") == b);
    sandbox_forget(c);
    sandbox_forget(b);
    table_close(&t);
}

/* Forgotten from the middle, the front and the end, by turns. */
TEST(many_are_found_after_removals)
{
    static struct sandbox *all[MANY];
    struct text_table t;
    unsigned left = 0, wrong = 0;
    char id[32], name[32];

    table_open(&t);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof(id), "%016x", i * 2654435761U);
        (void)snprintf(name, sizeof(name), "box-%u", i);
        all[i] = add(&t, id, name);
    }
    for (unsigned i = 0; i < MANY; i++)
        if (i % 3 != 1 || i == MANY - 1) {
            sandbox_forget(all[i]);
            all[i] = NULL;
        }
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "box-%u", i);
        wrong += found(&t, name) != all[i];
        left += all[i] != NULL;
    }
    CHECK_INT(wrong, 0);
    CHECK_INT(t.sup->count, left);
    all[0] = add(&t, "0123456789abcdef", "last");
    for (struct sandbox *s = sandbox_first(t.sup), *next; s != NULL; s = next) {
        static unsigned at = 1;

        while (at < MANY && all[at] == NULL)
            at++;
        wrong += s != (at < MANY ? all[at++] : all[0]);
        next = sandbox_next(s);
        sandbox_forget(s);
    }
    CHECK_INT(wrong, 0);
    table_close(&t);
}

TAP_MAIN
