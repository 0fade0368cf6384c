#include "core/sidecar.h"
#include "core/egress_internal.h"

void sidecar_free(struct sandbox_egress *e)
{
    (void)e;
}
