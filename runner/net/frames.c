#include "net/frames.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "base/err.h"
#include "net/nft.h"
#include "net/ruleset.h"

enum {
    PRIORITY = -500, /* before other chains */
    REG = NFT_REG32_00,
};

/* clang-format off */
#define PROTOCOL(high, low) \
    {.kind = X_META, .key = NFT_META_PROTOCOL, .reg = REG}, \
    {.kind = X_CMP, .op = NFT_CMP_EQ, .reg = REG, .len = 2, .data = {high, low}}
static const struct nft_expr rules[][4] = {
    {PROTOCOL(0x08, 0x00), {.kind = X_VERDICT, .key = NF_ACCEPT}},
    {PROTOCOL(0x86, 0xdd), {.kind = X_VERDICT, .key = NF_ACCEPT}},
    {{.kind = X_VERDICT, .key = NF_DROP}},
};
/* clang-format on */

static int frames_try_add(int sock, const char *link, bool table, bool again, struct err *err)
{
    auto_nft struct nft n;

    nft_begin_frames(&n, NET_TABLE);
    if (table)
        nft_add_table(&n);
    if (again)
        nft_delete_chain(&n, link);
    nft_add_chain_at(
        &n,
        &(struct nft_chain){
            .name = link, .type = "filter", .hook = NF_NETDEV_INGRESS, .priority = PRIORITY},
        link);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        nft_add_rule(&n, link, rules[i]);
    return nft_commit(&n, sock, err);
}

int frames_add(int sock, const char *link, struct err *err)
{
    int r = frames_try_add(sock, link, false, false, err);

    if (r == -ENOENT)
        r = frames_try_add(sock, link, true, false, err);
    if (r == -EEXIST)
        r = frames_try_add(sock, link, false, true, err);
    if (r == -ENOENT || r == -EOPNOTSUPP || r == -EAFNOSUPPORT)
        return err_set(
            err, -EOPNOTSUPP,
            "network: this kernel's nftables have no rules for frames (NF_TABLES_NETDEV, "
            "NETFILTER_INGRESS), which a sandbox that administers its network needs");
    return r < 0 ? err_wrap(err, r, "frames of %s", link) : 0;
}

int frames_has(int sock, const char *link, struct err *err)
{
    int r = nft_count_rules(sock, NFPROTO_NETDEV, NET_TABLE, link, err);

    return r < 0 ? r : r >= (int)(sizeof(rules) / sizeof(rules[0]));
}

int frames_remove(int sock, const char *link, struct err *err)
{
    auto_nft struct nft n;
    int r;

    nft_begin_frames(&n, NET_TABLE);
    nft_delete_chain(&n, link);
    r = nft_commit(&n, sock, err);
    return r == -ENOENT ? 0 : r;
}

int frames_remove_all(int sock, struct err *err)
{
    auto_nft struct nft n;
    int r;

    nft_begin_frames(&n, NET_TABLE);
    nft_delete_table(&n);
    r = nft_commit(&n, sock, err);
    return r == -ENOENT ? 0 : r;
}
