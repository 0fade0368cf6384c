/* What a sandbox asks of disks and of its link: weight and rates. Pure. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "policy/plain-path.h"
#include "spec/parse.h"
#include "spec/spec.h"

enum {
    IO_IOPS_MAX = 1000000000,
    NET_RATE_MIN = 4096, /* less than three packets a second is no network */
};

static const char *const kind_names[IO_KIND_MAX] = {[IO_READ_BPS] = "readBps",
                                                    [IO_WRITE_BPS] = "writeBps",
                                                    [IO_READ_IOPS] = "readIops",
                                                    [IO_WRITE_IOPS] = "writeIops"};

const char *spec_io_kind_name(enum io_kind kind)
{
    return kind_names[kind];
}

int spec_set_io_weight(struct spec *s, const char *text, struct err *err)
{
    return parse_number("io-weight", text, IO_WEIGHT_MIN, IO_WEIGHT_MAX, &s->resources.io_weight,
                        err);
}

static int rate_parse(const char *what, enum io_kind kind, const char *text, int64_t *ret,
                      struct err *err)
{
    if (kind == IO_READ_BPS || kind == IO_WRITE_BPS)
        return parse_bytes(what, text, 1, IO_RATE_MAX, ret, err);
    return parse_number(what, text, 1, IO_IOPS_MAX, ret, err);
}

#define IO_SETTER(name, what, kind)                                                                \
    int spec_set_##name(struct spec *s, const char *text, struct err *err)                         \
    {                                                                                              \
        return rate_parse(what, kind, text, &s->resources.io_rates[kind], err);                    \
    }
IO_SETTER(io_read_bps, "io-read-bps", IO_READ_BPS)
IO_SETTER(io_write_bps, "io-write-bps", IO_WRITE_BPS)
IO_SETTER(io_read_iops, "io-read-iops", IO_READ_IOPS)
IO_SETTER(io_write_iops, "io-write-iops", IO_WRITE_IOPS)

/* Returns the row of this path, a new one if needed; NULL: there are too many. */
static struct io_device *device_row(struct resources *r, const char *path, size_t len)
{
    struct io_device *d = r->io_devices;

    for (; d < r->io_devices + r->io_device_count; d++)
        if (strlen(d->path) == len && memcmp(d->path, path, len) == 0)
            return d;
    if (r->io_device_count == IO_DEVICES_MAX)
        return NULL;
    r->io_device_count++;
    (void)snprintf(d->path, sizeof(d->path), "%.*s", (int)len, path);
    for (size_t i = 0; i < IO_KIND_MAX; i++)
        d->rates[i] = LIMIT_UNSET;
    return d;
}

/* at: the colon behind the path. */
static int device_add(struct spec *s, enum io_kind kind, const char *text, const char *at,
                      const char *rate, struct err *err)
{
    const size_t len = (size_t)(at - text);
    char path[IO_PATH_MAX + 1];
    struct io_device *d;
    int64_t n;
    int r;

    if (len > IO_PATH_MAX)
        return err_set(err, -ENAMETOOLONG, "device: a path of more than %d bytes", IO_PATH_MAX);
    (void)snprintf(path, sizeof(path), "%.*s", (int)len, text);
    if (strncmp(path, "/dev/", 5) != 0 || !path_is_plain(path))
        return err_set(err, -EINVAL, "device \"%.*s\": must be a path below /dev", QUOTE_MAX, path);
    r = rate_parse("rate", kind, rate, &n, err);
    if (r < 0)
        return err_wrap(err, r, "device %s", path);
    d = device_row(&s->resources, path, len);
    if (d == NULL)
        return err_set(err, -E2BIG, "device %s: more than %d devices", path, IO_DEVICES_MAX);
    d->rates[kind] = n;
    return 0;
}

int spec_add_device_rate(struct spec *s, enum io_kind kind, const char *text, struct err *err)
{
    const char *at = strrchr(text, ':');

    if (at == NULL)
        return err_set(err, -EINVAL, "\"%.*s\": must be PATH:RATE, such as /dev/sda:1m", QUOTE_MAX,
                       text);
    return device_add(s, kind, text, at, at + 1, err);
}

int spec_add_io_device(struct spec *s, const char *text, struct err *err)
{
    const char *at = strrchr(text, ':');

    for (size_t i = 0; at != NULL && i < IO_KIND_MAX; i++) {
        const size_t len = strlen(kind_names[i]);

        if (strncmp(at + 1, kind_names[i], len) == 0 && at[1 + len] == '=')
            return device_add(s, (enum io_kind)i, text, at, at + 2 + len, err);
    }
    return err_set(err, -EINVAL,
                   "\"%.*s\": must be PATH:KIND=RATE; kinds are readBps, writeBps, readIops, "
                   "writeIops",
                   QUOTE_MAX, text);
}

int spec_set_net_rate(struct spec *s, const char *text, struct err *err)
{
    return parse_bytes("network-rate", text, NET_RATE_MIN, IO_RATE_MAX, &s->resources.net_rate,
                       err);
}
