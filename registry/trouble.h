#pragma once

/* Why a request failed: what the message FAILED needs, and what decides whether it is tried again.
 * Plain data. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "image/registry-proto.h"

/* Long enough for what a registry says (registry/refusal.h) and what stands before it. */
enum { TROUBLE_TEXT_MAX = 1600 };

struct trouble {
    enum registry_fault fault;
    int code;        /* negative errno */
    uint32_t status; /* of HTTP; 0 = there was no answer */
    bool may_pass;   /* the same request may succeed later */
    bool no_tls;     /* the host does not speak TLS, or cannot be connected to for it */
    int64_t wait_s;  /* what Retry-After asks for; -1 = nothing */
    char text[TROUBLE_TEXT_MAX + 1];
};

/* Sets what failed; all other fields become 0. Returns code. */
int trouble_set(struct trouble *t, enum registry_fault fault, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* From an error of a pure function: its message. */
int trouble_from(struct trouble *t, enum registry_fault fault, const struct err *err);
/* Puts "context: " before the text. Returns the code. */
int trouble_wrap(struct trouble *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
