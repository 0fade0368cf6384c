/* Host headers: whatever is accepted has parts that are what they must be, and is the only name
 * that can be made of them. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "gateway/preview.h"

static void check_preview(const char *host)
{
    struct preview p;
    char label[256];
    int r = preview_parse(host, &p);

    assert(r == 0 || r == -ENOENT || r == -EBADMSG);
    if (r != 0)
        return;
    assert(p.port >= PREVIEW_PORT_MIN && p.port <= PREVIEW_PORT_MAX);
    assert(preview_name_ok(p.name) && preview_token_ok(p.token));
    (void)snprintf(label, sizeof(label), "%u-%s-%s", p.port, p.name, p.token);
    assert(strlen(label) <= PREVIEW_LABEL_MAX);
    assert(strncasecmp(host, label, strlen(label)) == 0);
    assert(strchr(".:", host[strlen(label)]) != NULL); /* also its end */
}

static void check_host(const char *text)
{
    const struct preview_front front = {.port = 8080, .tls = false};
    struct preview p = {.port = 8080, .name = "n-n", .token = "t"}, again;
    struct err err = ERR_NONE;
    struct preview_host h;
    char url[PREVIEW_URL_MAX], *at;

    if (preview_host_parse(text, &h, &err) < 0) {
        assert(err.msg[0] != '\0');
        return;
    }
    if (preview_url(&p, &h, &front, url, &err) < 0)
        return;
    at = strstr(url, "://") + 3;
    at[strcspn(at, "/")] = '\0';
    assert(preview_parse(at, &again) == 0 && again.port == 8080 && strcmp(again.name, "n-n") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);

    if (text == NULL)
        abort();
    if (size > 0)
        (void)memcpy(text, data, size);
    check_preview(text);
    check_host(text);
    free(text);
    return 0;
}
