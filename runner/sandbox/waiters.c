/* Lists of callbacks that wait for an event of a sandbox. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "sandbox/sandbox-internal.h"
#include "sandbox/shared.h"

int waiters_add(struct waiter **list, sandbox_cb cb, void *data, struct err *err)
{
    struct waiter *w, **at = list;

    if (cb == NULL)
        return 0;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return err_errno(err, -ENOMEM, "sandbox");
    *w = (struct waiter){.cb = cb, .data = data};
    while (*at != NULL)
        at = &(*at)->next;
    *at = w;
    return 0;
}

/* Empties the list before the first call, because a callback may add to the list. */
void waiters_answer(struct waiter **list, int r, const struct err *err)
{
    struct waiter *w = *list;

    *list = NULL;
    while (w != NULL) {
        struct waiter *next = w->next;

        w->cb(w->data, r, err);
        free(w);
        w = next;
    }
}

bool waiters_forget(struct waiter **list, const void *data)
{
    bool found = false;

    while (*list != NULL) {
        struct waiter *w = *list;

        if (w->data != data) {
            list = &w->next;
            continue;
        }
        *list = w->next;
        free(w);
        found = true;
    }
    return found;
}

/*
 * Calls a callback once from the loop, for a condition that is true already. No callback may run
 * inside the call that registers it.
 */
struct soon {
    uv_idle_t idle;
    struct sandbox *s;
    sandbox_cb cb;
    void *data;
    int r;
};

static void on_soon_closed(uv_handle_t *h)
{
    free(h->data);
}

static void on_answer_soon(uv_idle_t *h)
{
    struct soon *soon = h->data;

    (void)uv_idle_stop(h);
    soon->cb(soon->data, soon->r, NULL);
    sandbox_unref(soon->s);
    uv_close((uv_handle_t *)h, on_soon_closed);
}

int sandbox_answer_soon(struct sandbox *s, int r, sandbox_cb cb, void *data, struct err *err)
{
    struct soon *soon;

    if (cb == NULL)
        return 0;
    soon = calloc(1, sizeof(*soon));
    if (soon == NULL)
        return err_errno(err, -ENOMEM, "sandbox");
    *soon = (struct soon){.s = s, .cb = cb, .data = data, .r = r};
    (void)uv_idle_init(s->sup->loop, &soon->idle);
    soon->idle.data = soon;
    sandbox_ref(s);
    return uv_idle_start(&soon->idle, on_answer_soon);
}
