#pragma once

/*
 * Names of images, as the distribution specification has them:
 *
 *     [REGISTRY[:PORT]/]PATH[/PATH…][:TAG][@sha256:HEX]
 *
 * A first part with a dot or a colon in it, or "localhost", is the registry; without one it is
 * docker.io, where a single PATH is below "library". Pure.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;

enum {
    DIGEST_HEX_LEN = 64,
    DIGEST_LEN = 7 + DIGEST_HEX_LEN, /* "sha256:" and the number */
    REFERENCE_NAME_MAX = 255,        /* bytes of registry and path together */
    REFERENCE_TAG_MAX = 128,
    REFERENCE_MAX = REFERENCE_NAME_MAX + 1 + REFERENCE_TAG_MAX + 1 + DIGEST_LEN,
};

struct reference {
    char name[REFERENCE_NAME_MAX + 1]; /* with its registry: "docker.io/library/alpine" */
    char tag[REFERENCE_TAG_MAX + 1];   /* "" = none was written */
    char digest[DIGEST_LEN + 1];       /* "" = none was written */
};

/* -EINVAL with a message that quotes the text. Nothing is filled in for a missing tag. */
int reference_parse(const char *text, struct reference *ret, struct err *err);
/* The tag "latest" where neither a tag nor a digest was written. */
void reference_default_tag(struct reference *r);
/* "docker.io/library/alpine:3.20@sha256:…": what the store knows it by. */
void reference_format(const struct reference *r, char ret[REFERENCE_MAX + 1]);
/* The same as people write it: without docker.io and library. */
void reference_format_short(const struct reference *r, char ret[REFERENCE_MAX + 1]);
/* "alpine:3.20" of a whole name ("docker.io/library/alpine:3.20"); what is no reference is copied.
 */
void reference_shorten(const char *whole, char ret[REFERENCE_MAX + 1]);

/* Whether text is "sha256:" and 64 lower-case hexadecimal digits. Nothing else is a digest here. */
bool digest_ok(const char *text);
/* Whether text is hexadecimal digits (lower case), at least min of them and at most 64, perhaps
 * behind "sha256:": an image's id or the beginning of one. *ret_hex: where the digits begin. */
bool digest_prefix(const char *text, size_t min, const char **ret_hex);
