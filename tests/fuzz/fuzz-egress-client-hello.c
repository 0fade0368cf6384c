/* What a TLS client says first: a name that is found is a host's, and more bytes behind a hello do
 * not change it. */
#include <assert.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/tls-client-hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static SSL_CTX *probe;
    char name[EGRESS_NAME_MAX + 1];
    struct hello h, more;
    uint8_t *longer;
    int r;

    if (probe == NULL)
        probe = client_hello_context();
    if (size > CLIENT_HELLO_MAX)
        return 0;
    r = client_hello_read(probe, data, size, &h);
    assert(r <= 1);
    if (r != 1)
        return 0;
    if (h.has_name)
        assert(egress_name(h.name, strlen(h.name), name) == 0 && strcmp(name, h.name) == 0);
    longer = malloc(size + 3);
    if (longer == NULL)
        abort();
    (void)memcpy(longer, data, size);
    longer[size] = longer[size + 1] = longer[size + 2] = 'a';
    assert(client_hello_read(probe, longer, size + 3, &more) == 1);
    assert(more.has_name == h.has_name && strcmp(more.name, h.name) == 0);
    free(longer);
    return 0;
}
