/*
 * What stands for rind's init under the floor: says that it runs, waits for the order to start the
 * main process, lets the inner PID 1 go, collects it, reports, ends. No protocol, no checks: the
 * system calls that cannot be left out.
 */

#include <sys/wait.h>
#include <unistd.h>

/* By agreement with floor.c. */
enum { LAUNCHER_FD = 3, INNER_FD = 4 };

int main(void)
{
    char byte = 'r';
    int status = 0;

    if (write(LAUNCHER_FD, &byte, 1) != 1 || read(LAUNCHER_FD, &byte, 1) != 1)
        return 1;
    if (write(INNER_FD, &byte, 1) != 1 || wait(&status) < 0)
        return 1;
    byte = (char)(WIFEXITED(status) ? WEXITSTATUS(status) : 255);
    return write(LAUNCHER_FD, &byte, 1) == 1 ? 0 : 1;
}
