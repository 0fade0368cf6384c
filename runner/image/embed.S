/*
 * The files that the binary carries: name_data, name_len (8 bytes), and for layers name_id, the
 * SHA-256 of the archive, computed by the Makefile: rind has no hash function of its own to start.
 */
#if defined(__CET__)
#include <cet.h> /* the property note that keeps the binary marked for control-flow protection */
#endif

    .section .rodata
    .macro blob name, file
    .global \name\()_data, \name\()_len
    .type \name\()_data, %object
    .type \name\()_len, %object
    .balign 64
\name\()_data:
    .incbin "\file"
\name\()_end:
    .size \name\()_data, \name\()_end - \name\()_data
    .balign 8
\name\()_len:
    .quad \name\()_end - \name\()_data
    .size \name\()_len, 8
    .endm

    .macro text name, value
    .global \name
    .type \name, %object
\name:
    .asciz "\value"
    .size \name, . - \name
    .endm

    blob embed_init, "build/shim/rind-init"
    blob embed_shim, "build/shim/sandbox-shim"
    blob embed_rootfs, "build/builder/rind-rootfs"
    blob embed_base, "build/base.tar"
    blob embed_root, "build/rootfs.tar"
    blob embed_docker, "build/docker.tar"
    text embed_base_id, BASE_ID
    text embed_root_id, ROOT_ID
    text embed_docker_id, DOCKER_ID

    .section .note.GNU-stack, "", %progbits
