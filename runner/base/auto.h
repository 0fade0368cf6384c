#pragma once

/* Ownership macros. An owning local variable is auto_* and initialised; take() and take_fd()
 * transfer ownership. x_free(NULL) is a no-op everywhere. */

#include <stdlib.h>
#include <unistd.h>

enum { FD_NONE = -1 };

static inline void auto_free_(void *p)
{
    free(*(void **)p);
}

static inline void auto_close_(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

#define auto_free  __attribute__((cleanup(auto_free_)))
#define auto_close __attribute__((cleanup(auto_close_)))

/* Declares `auto_ptr(x_free) struct x *p = NULL;`. To be placed as DEFINE_AUTO(struct x, x_free)
 * in x's header. */
#define DEFINE_AUTO(type, fn)                                                                      \
    static inline void fn##_auto_(type **p)                                                        \
    {                                                                                              \
        fn(*p);                                                                                    \
    }                                                                                              \
    struct rind_swallow_semicolon_
#define auto_ptr(fn) __attribute__((cleanup(fn##_auto_)))

#define take(p)                                                                                    \
    __extension__({                                                                                \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })

static inline int take_fd(int *fd)
{
    int taken = *fd;

    *fd = FD_NONE;
    return taken;
}
