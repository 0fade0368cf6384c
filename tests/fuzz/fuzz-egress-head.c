/* HTTP heads as egress sees them, and CONNECT's targets. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gateway/connect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1), name[EGRESS_NAME_MAX + 1], again[EGRESS_NAME_MAX + 1];
    struct connect_head h;
    struct address a;
    int status = 0;
    long n;

    if (text == NULL)
        abort();
    if (size > 0)
        (void)memcpy(text, data, size);
    n = connect_head(text, size, &h, NULL);
    assert(n <= (long)size);
    if (n > 0 && h.host[0] != '\0')
        assert(egress_name(h.host, strlen(h.host), again) == 0 && strcmp(again, h.host) == 0);
    n = connect_reply(text, size, &status, NULL);
    assert(n <= (long)size && (n <= 0 || (status >= 100 && status <= 999)));
    (void)connect_look(text, size);
    if (connect_target(text, name, &a) == 0) {
        assert(a.port != 0 && (name[0] != '\0') == (a.family == 0));
        if (name[0] != '\0')
            assert(egress_name(name, strlen(name), again) == 0 && strcmp(again, name) == 0);
    }
    free(text);
    return 0;
}
