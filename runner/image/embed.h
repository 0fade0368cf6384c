#pragma once

/* The files embedded in the binary (embed.S). The build fails if one is missing. */

#include <stddef.h>
#include <stdint.h>

struct blob {
    const void *data; /* borrowed; read-only memory of the program */
    size_t len;
};

/* Internal; use the accessors below. */
extern const unsigned char embed_init_data[], embed_shim_data[], embed_rootfs_data[],
    embed_base_data[], embed_root_data[], embed_docker_data[];
extern const uint64_t embed_init_len, embed_shim_len, embed_rootfs_len, embed_base_len,
    embed_root_len, embed_docker_len;

/* SHA-256 of the archive as 64 hexadecimal digits. */
extern const char embed_base_id[], embed_root_id[], embed_docker_id[];

/* The static program that is PID 1 of the outer pid namespace. */
static inline struct blob embed_init(void)
{
    return (struct blob){embed_init_data, embed_init_len};
}

/* The static program for one file operation inside a sandbox. */
static inline struct blob embed_shim(void)
{
    return (struct blob){embed_shim_data, embed_shim_len};
}

/* The static program that packs and unpacks archives (image/worker-proto.h). */
static inline struct blob embed_rootfs(void)
{
    return (struct blob){embed_rootfs_data, embed_rootfs_len};
}

/* The ustar archive of the layer below every image: the shim and the mount points. */
static inline struct blob embed_base(void)
{
    return (struct blob){embed_base_data, embed_base_len};
}

/* The ustar archive of the default root file system. */
static inline struct blob embed_root(void)
{
    return (struct blob){embed_root_data, embed_root_len};
}

/* The ustar archive of the layer of Docker's containers: /.dockerenv. */
static inline struct blob embed_docker(void)
{
    return (struct blob){embed_docker_data, embed_docker_len};
}
