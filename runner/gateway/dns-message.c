#include "gateway/dns-message.h"

#include <errno.h>
#include <ldns/ldns.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"

DEFINE_AUTO(ldns_pkt, ldns_pkt_free);

enum { TTL_MOST = 7 * 86400 };

static int packet_parse(const uint8_t *data, size_t len, ldns_pkt **ret)
{
    if (len < DNS_HEADER || len > DNS_MESSAGE_MAX)
        return -EBADMSG;
    *ret = NULL;
    return ldns_wire2pkt(ret, data, len) == LDNS_STATUS_OK && *ret != NULL ? 0 : -EBADMSG;
}

/* Joins the labels of a wire-format name by dots. "" if a byte is not allowed in a host name. */
static void name_text(const uint8_t *wire, size_t len, char ret[EGRESS_NAME_MAX + 1])
{
    char text[256];
    size_t at = 0, used = 0;

    ret[0] = '\0';
    while (at < len && wire[at] != 0) {
        size_t label = wire[at++];

        if (label > 63 || label > len - at || used + label + 1 > sizeof(text))
            return;
        (void)memcpy(text + used, wire + at, label);
        if (memchr(text + used, '.', label) != NULL)
            return;
        used += label;
        text[used++] = '.';
        at += label;
    }
    if (used > 0 && egress_name(text, used - 1, ret) < 0)
        ret[0] = '\0';
}

int dns_question_read(const uint8_t *data, size_t len, struct dns_question *ret)
{
    auto_ptr(ldns_pkt_free) ldns_pkt *p = NULL;
    const ldns_rr *rr;
    const ldns_rdf *owner;

    *ret = (struct dns_question){.room = DNS_UDP_PLAIN};
    if (packet_parse(data, len, &p) < 0 || ldns_pkt_qr(p))
        return -EBADMSG;
    ret->id = ldns_pkt_id(p);
    ret->recurse = ldns_pkt_rd(p);
    ret->no_check = ldns_pkt_cd(p);
    ret->edns = ldns_pkt_edns(p);
    ret->dnssec = ret->edns && ldns_pkt_edns_do(p);
    if (ret->edns && ldns_pkt_edns_udp_size(p) > DNS_UDP_PLAIN)
        ret->room =
            ldns_pkt_edns_udp_size(p) < DNS_UDP_MOST ? ldns_pkt_edns_udp_size(p) : DNS_UDP_MOST;
    if (ldns_pkt_get_opcode(p) != LDNS_PACKET_QUERY)
        return DNS_NOTIMP;
    if (ldns_pkt_qdcount(p) != 1 || ldns_pkt_ancount(p) != 0 || ldns_pkt_nscount(p) != 0)
        return DNS_FORMERR;
    rr = ldns_rr_list_rr(ldns_pkt_question(p), 0);
    owner = rr != NULL ? ldns_rr_owner(rr) : NULL;
    if (owner == NULL || ldns_rdf_size(owner) > sizeof(ret->wire))
        return DNS_FORMERR;
    ret->type = (uint16_t)ldns_rr_get_type(rr);
    ret->wire_len = ldns_rdf_size(owner);
    (void)memcpy(ret->wire, ldns_rdf_data(owner), ret->wire_len);
    name_text(ldns_rdf_data(owner), ret->wire_len, ret->name);
    if (ldns_rr_get_class(rr) != LDNS_RR_CLASS_IN || ret->type == LDNS_RR_TYPE_AXFR ||
        ret->type == LDNS_RR_TYPE_IXFR || ret->type == LDNS_RR_TYPE_ANY)
        return DNS_REFUSED;
    return DNS_NOERROR;
}

/* ---- writing ---- */

static int append_packet(const ldns_pkt *p, struct buf *out)
{
    uint8_t *wire = NULL;
    size_t len = 0;
    int r;

    if (ldns_pkt2wire(&wire, p, &len) != LDNS_STATUS_OK)
        return -ENOMEM;
    r = len <= DNS_MESSAGE_MAX ? buf_append(out, wire, len) : -EMSGSIZE;
    free(wire);
    return r;
}

static ldns_rr *question_rr(const struct dns_question *q)
{
    ldns_rdf *owner = ldns_rdf_new_frm_data(LDNS_RDF_TYPE_DNAME, q->wire_len, q->wire);
    ldns_rr *rr = owner != NULL ? ldns_rr_new() : NULL;

    if (rr == NULL) {
        ldns_rdf_deep_free(owner);
        return NULL;
    }
    ldns_rr_set_owner(rr, owner);
    ldns_rr_set_type(rr, (ldns_rr_type)q->type);
    ldns_rr_set_class(rr, LDNS_RR_CLASS_IN);
    ldns_rr_set_question(rr, true);
    return rr;
}

static ldns_pkt *packet_new(const struct dns_question *q)
{
    ldns_pkt *p = ldns_pkt_new();
    ldns_rr *rr;

    if (p == NULL || q->wire_len == 0)
        return p;
    rr = question_rr(q);
    if (rr == NULL || !ldns_pkt_push_rr(p, LDNS_SECTION_QUESTION, rr)) {
        ldns_rr_free(rr);
        ldns_pkt_free(p);
        return NULL;
    }
    return p;
}

int dns_query_write(const struct dns_question *q, uint16_t id, struct buf *out)
{
    auto_ptr(ldns_pkt_free) ldns_pkt *p = packet_new(q);

    if (p == NULL)
        return -ENOMEM;
    ldns_pkt_set_id(p, id);
    ldns_pkt_set_rd(p, true);
    ldns_pkt_set_cd(p, q->no_check);
    ldns_pkt_set_edns_udp_size(p, DNS_UDP_MOST);
    if (q->dnssec)
        ldns_pkt_set_edns_do(p, true);
    return append_packet(p, out);
}

/* ---- answers ---- */

static bool same_question(const ldns_pkt *p, const struct dns_question *q)
{
    const ldns_rr *rr = ldns_rr_list_rr(ldns_pkt_question(p), 0);
    const ldns_rdf *owner = rr != NULL ? ldns_rr_owner(rr) : NULL;

    if (ldns_pkt_qdcount(p) != 1 || owner == NULL || ldns_rdf_size(owner) != q->wire_len ||
        (uint16_t)ldns_rr_get_type(rr) != q->type || ldns_rr_get_class(rr) != LDNS_RR_CLASS_IN)
        return false;
    /* Label lengths are below 64, so strncasecmp cannot confuse a length with a letter. */
    return strncasecmp((const char *)ldns_rdf_data(owner), q->wire, q->wire_len) == 0 ||
           memcmp(ldns_rdf_data(owner), q->wire, q->wire_len) == 0;
}

static void answer_add_address(struct dns_answer *a, const ldns_rr *rr)
{
    const ldns_rdf *rdf = ldns_rr_rd_count(rr) == 1 ? ldns_rr_rdf(rr, 0) : NULL;
    bool v4 = ldns_rr_get_type(rr) == LDNS_RR_TYPE_A;
    struct net_addr *to = &a->addresses[a->count];

    if ((!v4 && ldns_rr_get_type(rr) != LDNS_RR_TYPE_AAAA) || rdf == NULL ||
        ldns_rdf_size(rdf) != (v4 ? 4U : 16U) || a->count == DNS_ADDRESSES_MAX)
        return;
    *to = (struct net_addr){.family = v4 ? 4 : 6};
    (void)memcpy(to->bytes, ldns_rdf_data(rdf), ldns_rdf_size(rdf));
    a->count++;
}

static void answer_read_section(struct dns_answer *a, const ldns_rr_list *list, bool answers)
{
    for (size_t i = 0; list != NULL && i < ldns_rr_list_rr_count(list); i++) {
        const ldns_rr *rr = ldns_rr_list_rr(list, i);

        if (ldns_rr_ttl(rr) < a->ttl)
            a->ttl = ldns_rr_ttl(rr);
        if (answers)
            answer_add_address(a, rr);
    }
}

int dns_answer_read(const uint8_t *data, size_t len, const struct dns_question *q, uint16_t id,
                    struct dns_answer *ret)
{
    auto_ptr(ldns_pkt_free) ldns_pkt *p = NULL;

    if (packet_parse(data, len, &p) < 0 || !ldns_pkt_qr(p) || ldns_pkt_id(p) != id ||
        !same_question(p, q))
        return -EBADMSG;
    *ret = (struct dns_answer){
        .rcode = (unsigned)ldns_pkt_get_rcode(p), .truncated = ldns_pkt_tc(p), .ttl = TTL_MOST};
    answer_read_section(ret, ldns_pkt_answer(p), true);
    answer_read_section(ret, ldns_pkt_authority(p), false);
    if (ldns_pkt_ancount(p) == 0 && ldns_pkt_nscount(p) == 0)
        ret->ttl = 0; /* no record states a time to live */
    return 0;
}

static void list_age_ttl(const ldns_rr_list *list, uint32_t age)
{
    for (size_t i = 0; list != NULL && i < ldns_rr_list_rr_count(list); i++) {
        ldns_rr *rr = ldns_rr_list_rr(list, i);
        uint32_t ttl = ldns_rr_ttl(rr);

        ldns_rr_set_ttl(rr, ttl > age ? ttl - age : 0);
    }
}

static void packet_set_reply(ldns_pkt *p, const struct dns_question *q, unsigned rcode)
{
    ldns_pkt_set_id(p, q->id);
    ldns_pkt_set_qr(p, true);
    ldns_pkt_set_ra(p, true);
    ldns_pkt_set_rd(p, q->recurse);
    ldns_pkt_set_cd(p, q->no_check);
    ldns_pkt_set_rcode(p, (uint8_t)rcode);
    if (q->edns)
        ldns_pkt_set_edns_udp_size(p, DNS_UDP_MOST);
    if (q->dnssec)
        ldns_pkt_set_edns_do(p, true);
}

static int packet_write_truncated(const struct dns_question *q, unsigned rcode, struct buf *out)
{
    auto_ptr(ldns_pkt_free) ldns_pkt *p = packet_new(q);

    if (p == NULL)
        return -ENOMEM;
    packet_set_reply(p, q, rcode);
    ldns_pkt_set_tc(p, true);
    return append_packet(p, out);
}

/* Copies only records into a new packet, so that nothing else of the server's message reaches
 * the client. */
static int packet_copy_records(const ldns_pkt *from, ldns_pkt *to)
{
    static const ldns_pkt_section sections[] = {LDNS_SECTION_ANSWER, LDNS_SECTION_AUTHORITY};

    for (size_t s = 0; s < sizeof(sections) / sizeof(sections[0]); s++) {
        const ldns_rr_list *list =
            sections[s] == LDNS_SECTION_ANSWER ? ldns_pkt_answer(from) : ldns_pkt_authority(from);

        for (size_t i = 0; list != NULL && i < ldns_rr_list_rr_count(list); i++) {
            ldns_rr *rr = ldns_rr_clone(ldns_rr_list_rr(list, i));

            if (rr == NULL || !ldns_pkt_push_rr(to, sections[s], rr)) {
                ldns_rr_free(rr);
                return -ENOMEM;
            }
        }
    }
    return 0;
}

int dns_answer_write(const uint8_t *data, size_t len, const struct dns_question *q, uint32_t age,
                     bool udp, struct buf *out)
{
    auto_ptr(ldns_pkt_free) ldns_pkt *from = NULL, *p = packet_new(q);
    size_t before = out->len;
    unsigned rcode;
    int r;

    if (p == NULL)
        return -ENOMEM;
    r = packet_parse(data, len, &from);
    if (r < 0)
        return r;
    rcode = (unsigned)ldns_pkt_get_rcode(from);
    packet_set_reply(p, q, rcode);
    ldns_pkt_set_ad(p, ldns_pkt_ad(from));
    list_age_ttl(ldns_pkt_answer(from), age);
    list_age_ttl(ldns_pkt_authority(from), age);
    r = packet_copy_records(from, p);
    if (r == 0)
        r = append_packet(p, out);
    if (r < 0 || !udp || out->len - before <= q->room)
        return r;
    out->len = before;
    return packet_write_truncated(q, rcode, out);
}

int dns_answer_make(const struct dns_question *q, enum dns_rcode rcode,
                    const struct net_addr *addresses, size_t count, uint32_t ttl, struct buf *out)
{
    auto_ptr(ldns_pkt_free) ldns_pkt *p = packet_new(q);

    if (p == NULL)
        return -ENOMEM;
    packet_set_reply(p, q, rcode);
    for (size_t i = 0; i < count; i++) {
        bool v4 = addresses[i].family == 4;
        ldns_rdf *rdf;
        ldns_rr *rr;

        if (q->type != (v4 ? DNS_TYPE_A : DNS_TYPE_AAAA))
            continue;
        rr = question_rr(q);
        rdf = ldns_rdf_new_frm_data(v4 ? LDNS_RDF_TYPE_A : LDNS_RDF_TYPE_AAAA, v4 ? 4 : 16,
                                    addresses[i].bytes);
        if (rr == NULL || rdf == NULL || !ldns_rr_push_rdf(rr, rdf)) {
            ldns_rdf_deep_free(rdf);
            ldns_rr_free(rr);
            return -ENOMEM;
        }
        ldns_rr_set_question(rr, false);
        ldns_rr_set_ttl(rr, ttl);
        if (!ldns_pkt_push_rr(p, LDNS_SECTION_ANSWER, rr)) {
            ldns_rr_free(rr);
            return -ENOMEM;
        }
    }
    return append_packet(p, out);
}

int dns_answer_name(const struct dns_question *q, const char *name, uint32_t ttl, struct buf *out)
{
    auto_ptr(ldns_pkt_free) ldns_pkt *p = packet_new(q);
    ldns_rdf *rdf = ldns_dname_new_frm_str(name);
    ldns_rr *rr = question_rr(q);

    if (p == NULL || rdf == NULL || rr == NULL || !ldns_rr_push_rdf(rr, rdf)) {
        ldns_rdf_deep_free(rdf);
        ldns_rr_free(rr);
        return -ENOMEM;
    }
    packet_set_reply(p, q, DNS_NOERROR);
    ldns_rr_set_question(rr, false);
    ldns_rr_set_ttl(rr, ttl);
    if (!ldns_pkt_push_rr(p, LDNS_SECTION_ANSWER, rr)) {
        ldns_rr_free(rr);
        return -ENOMEM;
    }
    return append_packet(p, out);
}

bool dns_question_address4(const struct dns_question *q, struct net_addr *ret)
{
    static const char suffix[] = ".in-addr.arpa";
    const char *at = q->name;
    struct net_addr a = {.family = 4};

    for (int i = 3; i >= 0; i--) {
        unsigned value = 0, digits = 0;

        for (; *at >= '0' && *at <= '9' && digits < 3; at++, digits++)
            value = value * 10 + (unsigned)(*at - '0');
        if (digits == 0 || value > 255 || (i > 0 && *at++ != '.'))
            return false;
        a.bytes[i] = (uint8_t)value;
    }
    if (strcmp(at, suffix) != 0)
        return false;
    *ret = a;
    return true;
}
