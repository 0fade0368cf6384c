/* Rates and weights of disks and links, as options say them. */

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "net/rate.h"
#include "spec/spec.h"
#include "tap.h"

TEST(devices_by_path_and_kind)
{
    auto_ptr(spec_free) struct spec *s = spec_new();
    struct err err = ERR_NONE;

    if (s == NULL)
        return;
    CHECK_INT(spec_add_io_device(s, "/dev/sda:readBps=1m", &err), 0);
    CHECK_INT(spec_add_device_rate(s, IO_WRITE_IOPS, "/dev/sda:30", &err), 0);
    CHECK_INT(spec_add_io_device(s, "/dev/mapper/a:b:writeBps=5", &err), 0);
    CHECK_INT(s->resources.io_device_count, 2);
    CHECK_INT(s->resources.io_devices[0].rates[IO_READ_BPS], 1 << 20);
    CHECK_INT(s->resources.io_devices[0].rates[IO_WRITE_IOPS], 30);
    CHECK_INT(s->resources.io_devices[0].rates[IO_WRITE_BPS], LIMIT_UNSET);
    CHECK_STR(s->resources.io_devices[1].path, "/dev/mapper/a:b");
}

TEST(what_is_no_device_or_rate)
{
    static const char *const bad[] = {"",
                                      "/dev/sda",
                                      "/dev/sda:readBps",
                                      "/dev/sda:reads=1",
                                      "/dev/sda:readBps=0",
                                      "sda:readBps=1",
                                      "/etc/passwd:readBps=1",
                                      "/dev/../etc/x:readBps=1",
                                      "/dev/:readBps=1",
                                      "/dev/sda:readIops=1m",
                                      "/dev//sda:readBps=1",
                                      "/dev/sda:readBps=-1"};
    auto_ptr(spec_free) struct spec *s = spec_new();

    for (size_t i = 0; s != NULL && i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = ERR_NONE;

        if (spec_add_io_device(s, bad[i], &err) == 0 || err.msg[0] == '\0')
            tap_fail("\"%s\" is taken", bad[i]);
    }
    CHECK_INT(s != NULL ? s->resources.io_device_count : 1, 0);
    for (int i = 0; s != NULL && i < IO_DEVICES_MAX; i++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "/dev/d%d:1", i);
        CHECK_INT(spec_add_device_rate(s, IO_READ_BPS, text, NULL), 0);
    }
    CHECK_INT(s != NULL ? spec_add_device_rate(s, IO_READ_BPS, "/dev/x:1", NULL) : 0, -E2BIG);
}

TEST(weights_and_rates)
{
    auto_ptr(spec_free) struct spec *s = spec_new();

    if (s == NULL)
        return;
    CHECK_INT(spec_set_io_weight(s, "9", NULL), -ERANGE);
    CHECK_INT(spec_set_io_weight(s, "1001", NULL), -ERANGE);
    CHECK_INT(spec_set_io_weight(s, "500", NULL), 0);
    CHECK_INT(spec_set_io_read_bps(s, "2m", NULL), 0);
    CHECK_INT(s->resources.io_rates[IO_READ_BPS], 2 << 20);
    CHECK_INT(spec_set_net_rate(s, "1", NULL), -ERANGE);
    CHECK_INT(spec_set_net_rate(s, "1m", NULL), 0);
    CHECK_INT(s->resources.net_rate, 1 << 20);
}

TEST(what_a_link_lets_pass_at_once)
{
    CHECK_INT(rate_burst(4096, 1500), 64 << 10);
    CHECK_INT(rate_burst(4096, 70000), 70014);
    CHECK_INT(rate_burst(100000000, 1500), 2000000);
    CHECK_INT(rate_burst(UINT64_MAX / 1000, 1500), 16 << 20);
    CHECK(rate_queue(100000000, 1500) == 12000000);
    CHECK_INT(rate_queue(UINT64_MAX / 1000, 1500), 64 << 20);
}

TAP_MAIN
