/* DNS messages from inside and from name servers: what is read can be written again, and what was
 * written is read as what it was. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/dns-message.h"

static void check_question(const uint8_t *data, size_t size)
{
    const struct net_addr a = {.family = 4, .bytes = {1, 2, 3, 4}};
    struct buf out = BUF_INIT(DNS_MESSAGE_MAX), query = BUF_INIT(DNS_MESSAGE_MAX);
    struct dns_question q, again;
    struct dns_answer answer;
    char name[EGRESS_NAME_MAX + 1];
    int rcode = dns_question_read(data, size, &q);

    if (rcode < 0)
        return;
    assert(q.room >= DNS_UDP_PLAIN && q.room <= DNS_UDP_MOST && q.wire_len <= sizeof(q.wire));
    if (q.name[0] != '\0')
        assert(egress_name(q.name, strlen(q.name), name) == 0 && strcmp(name, q.name) == 0);
    assert(dns_answer_make(&q, (enum dns_rcode)rcode, NULL, 0, 0, &out) == 0);
    if (rcode != DNS_NOERROR) {
        buf_done(&out);
        return;
    }
    out.len = 0;
    assert(dns_answer_make(&q, DNS_NOERROR, &a, 1, 60, &out) == 0);
    assert(dns_answer_read((const uint8_t *)out.data, out.len, &q, q.id, &answer) == 0);
    assert(answer.count == (q.type == DNS_TYPE_A));
    assert(dns_query_write(&q, 7, &query) == 0);
    assert(dns_question_read((const uint8_t *)query.data, query.len, &again) == DNS_NOERROR);
    assert(strcmp(again.name, q.name) == 0 && again.type == q.type);
    buf_done(&out);
    buf_done(&query);
}

/* Whatever a server says, to its own question. */
static void check_answer(const uint8_t *data, size_t size)
{
    uint8_t *question = malloc(size > 0 ? size : 1);
    struct buf out = BUF_INIT(DNS_MESSAGE_MAX);
    struct dns_question q;
    struct dns_answer a;
    size_t end = DNS_HEADER;

    if (question == NULL || size < DNS_HEADER) {
        free(question);
        return;
    }
    while (end < size && data[end] != 0 && data[end] < 64)
        end += data[end] + 1U;
    end += 5;
    if (end <= size) {
        (void)memcpy(question, data, end);
        question[2] = 1;
        question[3] = 0;
        (void)memset(question + 6, 0, 6);
        if (dns_question_read(question, end, &q) == DNS_NOERROR &&
            dns_answer_read(data, size, &q, q.id, &a) == 0) {
            assert(a.count <= DNS_ADDRESSES_MAX);
            if (dns_answer_write(data, size, &q, 10, true, &out) == 0)
                assert(out.len <= q.room || q.wire_len > 200);
        }
    }
    buf_done(&out);
    free(question);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_question(data, size);
    check_answer(data, size);
    return 0;
}
