#pragma once

/* clang-format off */
/*
 * From error codes to HTTP, in one table (error.c):
 *
 *   400 EINVAL ERANGE EDOM EILSEQ ENAMETOOLONG ELOOP ENOTDIR EISDIR EXDEV EBADMSG
 *   403 EPERM EACCES EROFS EOVERFLOW   404 ENOENT ESRCH ENXIO ENODEV
 *       (EOVERFLOW: a file of an owner that the sandbox has no id for)
 *   408 ETIME (the client's turn)      409 EEXIST EBUSY EALREADY ENOTEMPTY EINPROGRESS ETXTBSY
 *   410 ENODATA ESTALE (it was there)  413 E2BIG EFBIG EMSGSIZE         415 EMEDIUMTYPE
 *   429 EUSERS ENOBUFS (a limit of rind's: this caller has too many)
 *   501 EOPNOTSUPP ENOSYS              502 EPIPE ECONNRESET ECONNREFUSED ECONNABORTED EPROTO
 *   503 EAGAIN EMFILE ENFILE ENOMEM ESHUTDOWN ECANCELED EINTR EHOSTUNREACH ENETUNREACH
 *   504 ETIMEDOUT                      507 ENOSPC EDQUOT                500 everything else
 */
/* clang-format on */

/* code: an errno, positive or negative. */
int error_status(int code);
/* "ENOENT"; "EUNKNOWN" for a number that is none. */
const char *error_name(int code);
/* The reason phrase of a status; "" for one that is not known. */
const char *error_reason(int status);
