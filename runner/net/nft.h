#pragma once

/* nf_tables messages: tables, chains, rules, sets and elements of one table, collected into a
 * transaction that the kernel applies completely or not at all. */

#include <netinet/in.h> /* must come before the kernel's headers of the same names */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/netlink.h"

struct err;

enum {
    NFT_DATA_MAX = 64,   /* bytes of a key */
    NFT_EXPRS_MAX = 16,  /* expressions of a rule, including the end mark */
    NFT_IFNAME_LEN = 16, /* bytes of an interface name in a key */
    NFT_MATCH_TO = 5,    /* expressions of nft_match_to, at most */
};

/* Expressions of a rule in the kernel's terms (registers and so on). The ruleset is made of tables
 * of them. */
enum nft_kind {
    X_END = 0,
    X_META,    /* key -> reg */
    X_PAYLOAD, /* base, offset, len -> reg */
    X_MASK,    /* reg &= data[len] */
    X_CMP,     /* op reg data[len] */
    X_LOOKUP,  /* reg in text; flags NFT_LOOKUP_F_INV */
    X_VMAP,    /* text[reg] is the verdict */
    X_MAP,     /* text[reg] -> reg */
    X_CT,      /* key -> reg */
    X_CT_ORIG, /* key, in the original direction of the connection -> reg */
    X_CT_SET,  /* reg -> key */
    X_DATA,    /* data[len] -> reg */
    X_VERDICT, /* key; to chain text */
    X_MASQ,
    X_REJECT, /* key = type, op = code */
    X_PORT,   /* port op -> reg, in network byte order */
    X_ADDR,   /* the first len bytes of data -> reg */
    X_NAT4,   /* key (NFT_NAT_SNAT, NFT_NAT_DNAT) to the IPv4 address in reg */
    X_REDIR,  /* redirects to this machine, to the port in reg */
    X_LOG,    /* sends the first len bytes, and text, to the listener of group key */
    X_HASH,   /* hash of len bytes at register op, modulo key -> reg */
    X_LIMIT,  /* matches above key per second, after a burst of op */
};

struct nft_expr {
    enum nft_kind kind;
    uint32_t key; /* a meta or ct key, a payload base, a verdict, a reject type */
    uint32_t op;  /* a comparison, an offset, flags, a reject code */
    uint32_t reg;
    uint32_t len;
    uint8_t data[NFT_IFNAME_LEN];
    const char *text;
};

/* Fills x with a match for packets to an address of a family (4, 6) within a prefix; 0: to any.
 * Returns the number of expressions. */
size_t nft_match_to(struct nft_expr *x, uint8_t family, const uint8_t *bytes, unsigned prefix);

struct nft_chain {
    const char *name;
    const char *type; /* NULL: not a base chain */
    uint32_t hook;
    int32_t priority;
};

struct nft_set {
    const char *name;
    uint32_t key_type; /* for display by nft(8) */
    uint32_t key_len;
    uint32_t flags;  /* NFT_SET_INTERVAL; NFT_SET_MAP: a map to verdicts */
    bool host_order; /* for display by nft(8) */
};

struct nft_element {
    uint8_t key[NFT_DATA_MAX];
    uint32_t key_len;
    bool end;         /* the end of an interval */
    const char *jump; /* in a verdict map: the chain */
    uint8_t data[4];  /* in a map to data */
    uint32_t data_len;
    /* Counters of the element (in a set with NFT_SET_EVAL); 0: none. A rule that looks it up
     * matches above count_over connections, or above rate_over per second after burst. */
    uint32_t count_over, rate_over, burst;
    bool daily; /* a rule that looks it up matches once a day */
};

/* A transaction on one table, from begin to commit. genid: -ERESTART if the namespace's ruleset is
 * not of this generation any more (0: any). */
struct nft {
    struct nlreq req;
    const char *table;
    uint8_t family;
};
void nft_begin(struct nft *n, const char *table, uint32_t genid);
/* Likewise for a table of the family netdev, which sees frames. */
void nft_begin_frames(struct nft *n, const char *table);
int nft_commit(struct nft *n, int sock, struct err *err);
void nft_done(struct nft *n);
#define auto_nft __attribute__((cleanup(nft_done)))

void nft_add_table(struct nft *n);                            /* fails with -EEXIST */
void nft_delete_table(struct nft *n);                         /* with everything in it */
void nft_add_chain(struct nft *n, const struct nft_chain *c); /* fails with -EEXIST */
/* Adds a chain for frames that arrive at an interface. */
void nft_add_chain_at(struct nft *n, const struct nft_chain *c, const char *device);
/* Makes a chain that is no base chain, or finds it, and removes its rules. */
void nft_begin_chain(struct nft *n, const char *name);
void nft_delete_chain(struct nft *n, const char *name);
void nft_delete_set(struct nft *n, const char *name);
void nft_add_set(struct nft *n, const struct nft_set *s, uint32_t id); /* fails with -EEXIST */
/* Adds a map from values to values of the same type, which is for display by nft(8). */
void nft_add_map(struct nft *n, const char *name, uint32_t type, uint32_t len, uint32_t id);
/* Makes a set, or finds the one of this name and type. */
void nft_have_set(struct nft *n, const struct nft_set *s, uint32_t id);
void nft_add_rule(struct nft *n, const char *chain, const struct nft_expr *exprs);
/* Adds a rule before the existing ones. */
void nft_insert_rule(struct nft *n, const char *chain, const struct nft_expr *exprs);
void nft_add_elements(struct nft *n, const char *set, const struct nft_element *e, size_t count);
/* Removes all elements of a set. */
void nft_empty_set(struct nft *n, const char *set);
void nft_delete_element(struct nft *n, const char *set, const struct nft_element *e);

/* Returns the generation of the ruleset in *ret. */
int nft_generation(int sock, uint32_t *ret, struct err *err);
/* Returns 1, 0, or a negative errno. */
int nft_has_element(int sock, const char *table, const char *set, const struct nft_element *e,
                    struct err *err);
/* nft_count_rules returns the number of rules of a chain; 0 also if there is none. nft_table_flags
 * returns the flags of a table of the family inet; -ENOENT. */
int nft_count_rules(int sock, uint8_t family, const char *table, const char *chain,
                    struct err *err);
int nft_table_flags(int sock, const char *table, uint32_t *ret, struct err *err);
/* As nft_count_rules, and adds what the rules say to *hash. */
int nft_hash_rules(int sock, uint8_t family, const char *table, const char *chain, uint32_t *hash,
                   struct err *err);
/* Returns the number of a table, which the kernel never gives again. -ENOENT. */
int nft_table_handle(int sock, const char *table, uint64_t *ret, struct err *err);
/* Calls fn for the key of each element of a set. -ENOENT: no such set. A negative errno of fn ends
 * it. */
typedef int nft_key_fn(const uint8_t *key, size_t len, void *data);
int nft_each_element(int sock, const char *table, const char *set, nft_key_fn *fn, void *data,
                     struct err *err);
/* Passes the keys in one message from the kernel to fn. Pure. */
int nft_feed_elements(const struct nlmsghdr *h, nft_key_fn *fn, void *data);
