#include "http/error.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const struct {
    short code, status;
} statuses[] = {
    /* clang-format off */
    {EINVAL, 400}, {ERANGE, 400}, {EDOM, 400}, {EILSEQ, 400}, {ENAMETOOLONG, 400}, {ELOOP, 400},
    {ENOTDIR, 400}, {EISDIR, 400}, {EXDEV, 400}, {EBADMSG, 400}, {EADDRNOTAVAIL, 400},
    {EPERM, 403}, {EACCES, 403}, {EROFS, 403}, {EOVERFLOW, 403},
    {ENOENT, 404}, {ESRCH, 404}, {ENXIO, 404}, {ENODEV, 404},
    {ETIME, 408},
    {EEXIST, 409}, {EBUSY, 409}, {ENOTUNIQ, 409}, {EALREADY, 409}, {ENOTEMPTY, 409}, {EINPROGRESS, 409}, {ETXTBSY, 409}, {ECANCELED, 409},
    {EADDRINUSE, 409},
    {EUCLEAN, 409}, /* files on disk are damaged: remove and recreate */
    {ENODATA, 410}, {ESTALE, 410},
    {E2BIG, 413}, {EFBIG, 413}, {EMSGSIZE, 413},
    {EMEDIUMTYPE, 415},
    {EUSERS, 429}, {ENOBUFS, 429},
    {EOPNOTSUPP, 501}, {ENOSYS, 501},
    {EPIPE, 502}, {ECONNRESET, 502}, {ECONNREFUSED, 502}, {ECONNABORTED, 502}, {EPROTO, 502},
    {EAGAIN, 503}, {EMFILE, 503}, {ENFILE, 503}, {ENOMEM, 503}, {ESHUTDOWN, 503},
    {EINTR, 503}, {EHOSTUNREACH, 503}, {ENETUNREACH, 503},
    {ETIMEDOUT, 504},
    {ENOSPC, 507}, {EDQUOT, 507},
    /* clang-format on */
};

static const struct {
    short status;
    const char *reason;
} reasons[] = {
    /* clang-format off */
    {100, "Continue"}, {101, "Switching Protocols"}, {200, "OK"}, {201, "Created"}, {202, "Accepted"},
    {204, "No Content"}, {206, "Partial Content"}, {304, "Not Modified"}, {400, "Bad Request"},
    {401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
    {406, "Not Acceptable"}, {408, "Request Timeout"}, {409, "Conflict"}, {410, "Gone"},
    {412, "Precondition Failed"}, {413, "Content Too Large"}, {414, "URI Too Long"},
    {415, "Unsupported Media Type"}, {416, "Range Not Satisfiable"}, {417, "Expectation Failed"},
    {421, "Misdirected Request"}, {426, "Upgrade Required"}, {429, "Too Many Requests"}, {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"}, {501, "Not Implemented"}, {502, "Bad Gateway"},
    {503, "Service Unavailable"}, {504, "Gateway Timeout"}, {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
    /* clang-format on */
};

int error_status(int code)
{
    if (code < 0)
        code = -code;
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i].code == code)
            return statuses[i].status;
    return 500;
}

const char *error_name(int code)
{
    const char *name = strerrorname_np(code < 0 ? -code : code);

    return name == NULL || name[0] != 'E' ? "EUNKNOWN" : name;
}

const char *error_reason(int status)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "";
}
