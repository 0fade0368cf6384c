#pragma once

/* The files that the binary carries (embed.S). They cannot be missing: the build fails without
 * them. */

#include <stddef.h>
#include <stdint.h>

struct blob {
    const void *data; /* borrowed; read-only memory of the program */
    size_t len;
};

/* Not for use: the accessors below are. */
extern const unsigned char embed_init_data[], embed_shim_data[], embed_rootfs_data[],
    embed_base_data[], embed_root_data[];
extern const uint64_t embed_init_len, embed_shim_len, embed_rootfs_len, embed_base_len,
    embed_root_len;

/* SHA-256 of the archive, 64 hexadecimal digits. */
extern const char embed_base_id[], embed_root_id[];

/* Static program: PID 1 of the outer pid namespace. */
static inline struct blob embed_init(void)
{
    return (struct blob){embed_init_data, embed_init_len};
}

/* Static program: one file operation inside a sandbox. */
static inline struct blob embed_shim(void)
{
    return (struct blob){embed_shim_data, embed_shim_len};
}

/* Static program: archives in and out of trees (image/worker-proto.h). */
static inline struct blob embed_rootfs(void)
{
    return (struct blob){embed_rootfs_data, embed_rootfs_len};
}

/* ustar archive of the layer below every image: the shim and the mount points. */
static inline struct blob embed_base(void)
{
    return (struct blob){embed_base_data, embed_base_len};
}

/* ustar archive of the default root file system. */
static inline struct blob embed_root(void)
{
    return (struct blob){embed_root_data, embed_root_len};
}
