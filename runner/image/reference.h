#pragma once

/*
 * References to images, as defined by the distribution specification:
 *
 *     [REGISTRY[:PORT]/]PATH[/PATH…][:TAG][@sha256:HEX]
 *
 * A first part with a dot or colon, or "localhost", is the registry. The default registry is
 * docker.io; a single PATH there is below "library". Pure.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;

enum {
    DIGEST_HEX_LEN = 64,
    DIGEST_LEN = 7 + DIGEST_HEX_LEN, /* "sha256:" and the digits */
    REFERENCE_NAME_MAX = 255,        /* bytes of registry and path together */
    REFERENCE_TAG_MAX = 128,
    REFERENCE_MAX = REFERENCE_NAME_MAX + 1 + REFERENCE_TAG_MAX + 1 + DIGEST_LEN,
};

struct reference {
    char name[REFERENCE_NAME_MAX + 1]; /* with the registry: "docker.io/library/alpine" */
    char tag[REFERENCE_TAG_MAX + 1];   /* "" = not given */
    char digest[DIGEST_LEN + 1];       /* "" = not given */
};

/* Parses a reference. -EINVAL: err quotes the text. A missing tag stays empty. */
int reference_parse(const char *text, struct reference *ret, struct err *err);
/* Sets the tag "latest" if neither tag nor digest were given. */
void reference_default_tag(struct reference *r);
/* Formats the full reference, as the store uses it: "docker.io/library/alpine:3.20@sha256:…". */
void reference_format(const struct reference *r, char ret[REFERENCE_MAX + 1]);
/* Formats the short form, without docker.io and library. */
void reference_format_short(const struct reference *r, char ret[REFERENCE_MAX + 1]);
/*
 * Shortens a full reference: "alpine:3.20" for "docker.io/library/alpine:3.20". Other text is
 * copied.
 */
void reference_shorten(const char *whole, char ret[REFERENCE_MAX + 1]);

/*
 * True if text is "sha256:" and 64 lower-case hexadecimal digits, the only form of digests
 * supported.
 */
bool digest_ok(const char *text);
/*
 * True if text is an image's id or a prefix of one: min to 64 lower-case hexadecimal digits,
 * optionally after "sha256:". *ret_hex: the first digit.
 */
bool digest_prefix(const char *text, size_t min, const char **ret_hex);
