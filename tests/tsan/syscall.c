/* Of the TSan build alone, by --wrap=syscall. libuv closes descriptors by syscall(2), which
 * ThreadSanitizer does not see: it takes the next file of that number, opened by another thread,
 * for the old one and reports a race. */
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    va_list ap;
    long a[6];

    va_start(ap, number);
    for (int i = 0; i < 6; i++) /* as syscall(3) does: more than the call has are not looked at */
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_close)
        return close((int)a[0]);
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
