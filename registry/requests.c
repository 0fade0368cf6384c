/*
 * LOGIN and TAGS. Runs in the threads of rind-registry.
 */
#include "requests.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "call.h"
#include "header.h"
#include "json/parse.h"

enum { PAGES_MAX = 1000, PAGE_MAX = 4 << 20 };

int request_login(struct errand *e, struct registry_msg *done, int *ret_fd, struct trouble *t)
{
    const struct call c = {
        .method = "GET", .path = "", .body_fd = FD_NONE, .answer_max = HTTP_REFUSAL_MAX};
    struct registry_host *h = session_origin(e->session);
    auto_free char *identity = NULL;
    struct http_response p;
    int r = call_perform(e, h, &c, &p, NULL, t);

    (void)ret_fd;
    if (r == 0) {
        if (p.status != 200)
            r = call_refused(h, &p, "the registry does not take the credentials", t);
        http_response_done(&p);
    }
    if (r < 0) {
        if (t->fault == REGISTRY_UNAUTHORIZED || t->fault == REGISTRY_DENIED) {
            char said[sizeof(t->text)];

            /* its text without the host, which the URL has */
            (void)snprintf(said, sizeof(said), "%s",
                           strncmp(t->text, h->shown, strlen(h->shown)) == 0
                               ? t->text + strlen(h->shown) + 2
                               : t->text);
            (void)snprintf(t->text, sizeof(t->text), "Get \"http%s://%s/v2/\": %.1200s",
                           h->base.https ? "s" : "", h->host, said);
        }
        return r;
    }
    if ((e->msg.flags & REGISTRY_IDENTITY) == 0)
        return 0;
    r = auth_login(e, h, &identity, t);
    if (r == 0 && identity != NULL && strlen(identity) <= REGISTRY_TEXT_MAX)
        (void)snprintf(done->text, sizeof(done->text), "%s", identity);
    if (identity != NULL)
        explicit_bzero(identity, strlen(identity));
    return r;
}

/* ---- tags ---- */

/* By the grammar of image/reference.h: a tag becomes a part of a name and of a path. */
static bool is_valid_tag(const char *tag)
{
    char whole[sizeof("h.x/r:") + REFERENCE_TAG_MAX];
    struct reference r;

    return (size_t)snprintf(whole, sizeof(whole), "h.x/r:%s", tag) < sizeof(whole) &&
           strcspn(tag, "@/:") == strlen(tag) && reference_parse(whole, &r, NULL) == 0 &&
           r.tag[0] != '\0';
}

/* Appends the tags of one page. Others than tags are skipped: they cannot be asked for. */
static int tags_add_page(const struct registry_host *h, const struct http_response *p,
                         struct buf *tags, struct trouble *t)
{
    auto_ptr(json_decref) json_t *root = NULL;
    struct err err = ERR_NONE;
    json_t *list, *tag;
    size_t i;

    if (json_parse(p->body.data != NULL ? p->body.data : "", p->body.len, PAGE_MAX, &root, &err) <
        0)
        return trouble_set(t, REGISTRY_MALFORMED, err.code, "%s: its list of tags: %s", h->shown,
                           err.msg);
    list = json_object_get(root, "tags");
    if (list != NULL && !json_is_null(list) && !json_is_array(list))
        return trouble_set(t, REGISTRY_MALFORMED, -EINVAL, "%s: its list of tags is no list",
                           h->shown);
    json_array_foreach(list, i, tag) {
        const char *text = json_string_value(tag);

        if (text != NULL && is_valid_tag(text) && buf_append(tags, text, strlen(text) + 1) < 0)
            return trouble_set(t, REGISTRY_LIMIT, -EFBIG, "%s: its tags are larger than 4 MiB",
                               h->shown);
    }
    return 0;
}

static int tags_next(const struct registry_host *h, const struct http_response *p, struct url *at,
                     bool *ret_more, struct trouble *t)
{
    char link[URL_TARGET_MAX + 1];
    struct err err = ERR_NONE;
    struct url next;

    *ret_more = header_link_next(p->link, link, sizeof(link));
    if (!*ret_more)
        return 0;
    if (url_join(at, link, &next, &err) < 0 || !url_same_origin(&next, &h->base))
        return trouble_set(t, REGISTRY_ADDRESS, -EINVAL,
                           "%s: its list of tags goes on at another host", h->shown);
    *at = next;
    return 0;
}

int request_tags(struct errand *e, struct registry_msg *done, int *ret_fd, struct trouble *t)
{
    struct registry_host *h = session_origin(e->session);
    auto_buf struct buf tags = BUF_INIT(REGISTRY_TAGS_MAX);
    struct url at;
    bool more = true;
    int r = 0;

    for (int page = 0; r == 0 && more; page++) {
        struct call c = {
            .method = "GET", .path = "tags/list", .body_fd = FD_NONE, .answer_max = PAGE_MAX};
        struct http_response p;

        if (page == PAGES_MAX)
            return trouble_set(t, REGISTRY_LIMIT, -E2BIG, "%s: its list of tags does not end",
                               h->shown);
        c.url = page > 0 ? &at : NULL;
        r = call_perform(e, h, &c, &p, &at, t);
        if (r < 0)
            return r;
        r = p.status == 200 ? tags_add_page(h, &p, &tags, t)
                            : call_refused(h, &p, "its tags are not told", t);
        if (r == 0)
            r = tags_next(h, &p, &at, &more, t);
        http_response_done(&p);
    }
    if (r < 0)
        return r;
    r = memfd_sealed("rind-tags", tags.data != NULL ? tags.data : "", tags.len);
    if (r < 0)
        return trouble_set(t, REGISTRY_LOCAL, r, "keep the tags: %s", strerror(-r));
    *ret_fd = r;
    done->size = (int64_t)tags.len;
    return 0;
}
