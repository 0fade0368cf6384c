/* File systems in sparse files: small on the host, and without a fault in e2fsck's eyes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "launch/sandbox.h"
#include "tap.h"

enum { HOST_SHARE = 8192 }; /* of the size, at most, and some KiB, is written */

static int make(char *path, uint64_t size)
{
    int fd = mkostemp(path, O_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        abort();
    return fd;
}

static int check(const char *path)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "e2fsck -fn '%s' >/dev/null 2>&1", path);
    return WEXITSTATUS(system(command));
}

TEST(every_size)
{
    static const uint64_t sizes[] = {
        UINT64_C(16) << 20,  (UINT64_C(16) << 20) + 4096,  UINT64_C(127) << 20,
        UINT64_C(128) << 20, (UINT64_C(128) << 20) + 4096, UINT64_C(1) << 30,
        UINT64_C(10) << 30,  UINT64_C(300) << 30,          UINT64_C(4) << 40};
    bool has_fsck = system("e2fsck -V >/dev/null 2>&1") == 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int journal = 0; journal < 2; journal++) {
            char path[] = "/var/tmp/rind-test-XXXXXX";
            struct err err = ERR_NONE;
            auto_close int fd = make(path, sizes[i]);
            struct stat st;

            CHECK_INT(disk_format(fd, sizes[i], journal != 0, &err), 0);
            CHECK_STR(err.msg, "");
            CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_size == sizes[i]);
            CHECK((uint64_t)st.st_blocks * 512 < sizes[i] / HOST_SHARE + (256 << 10));
            /* A huge one's check takes its time, and is the same. */
            if (has_fsck && sizes[i] <= UINT64_C(10) << 30)
                CHECK_INT(check(path), 0);
            (void)unlink(path);
        }
    if (!has_fsck)
        printf("# without e2fsck\n");
}

TEST(no_room)
{
    struct err err = ERR_NONE;
    auto_close int fd = open("/dev/full", O_RDWR | O_CLOEXEC);

    CHECK(disk_format(fd, UINT64_C(64) << 20, true, &err) < 0);
    CHECK(strncmp(err.msg, "disk: ", 6) == 0);
}

TAP_MAIN
