#pragma once

/*
 * System calls without errno: each returns its result or -errno. A process that shares init's
 * memory (spawn-vm.c) also shares its errno. Types are the kernel's, because no libc converts them.
 */

#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

static inline long raw_call(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long ret;

    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "no system calls for this architecture"
#endif
}

/* Pointers are passed through RAW_PTR, numbers unchanged. */
#define RAW_PTR(p)                       ((long)(uintptr_t)(p))
#define RAW_6(nr, a, b, c, d, e, f, ...) raw_call(nr, a, b, c, d, e, f)
#define RAW(...)                         RAW_6(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/*
 * Calls clone3 for a process that starts in `run`, on the stack of args; run must not return.
 * Returns the pid or -errno.
 */
static inline long raw_clone3_at(struct clone_args *args, void (*run)(void *), void *data)
{
#if defined(__x86_64__)
    register void (*r8)(void *) __asm__("r8") = run;
    register void *r9 __asm__("r9") = data;
    long ret;

    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t" /* stack traces end here */
                     "mov %%r9, %%rdi\n\t"
                     "call *%%r8\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(ret)
                     : "0"((long)SYS_clone3), "D"(args), "S"(sizeof(*args)), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory", "cc");
    return ret;
#else
    register long x8 __asm__("x8") = SYS_clone3;
    register long x0 __asm__("x0") = (long)(uintptr_t)args;
    register long x1 __asm__("x1") = (long)sizeof(*args);
    register void (*x9)(void *) __asm__("x9") = run;
    register void *x10 __asm__("x10") = data;

    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x10\n\t"
                     "blr x9\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x9), "r"(x10)
                     : "memory", "cc");
    return x0;
#endif
}
