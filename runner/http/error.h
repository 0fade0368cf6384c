#pragma once

/* clang-format off */
/* Maps errno codes to HTTP statuses, in one table (error.c):
 *
 *   400 EINVAL ERANGE EDOM EILSEQ ENAMETOOLONG ELOOP ENOTDIR EISDIR EXDEV EBADMSG EADDRNOTAVAIL
 *   403 EPERM EACCES EROFS EOVERFLOW   404 ENOENT ESRCH ENXIO ENODEV
 *       (EOVERFLOW: the file's owner has no id in the sandbox)
 *   408 ETIME (the client was too slow)  409 EEXIST EBUSY ENOTUNIQ EALREADY ENOTEMPTY
 *       EINPROGRESS ETXTBSY ECANCELED EADDRINUSE EUCLEAN
 *   410 ENODATA ESTALE (no longer exists)  413 E2BIG EFBIG EMSGSIZE       415 EMEDIUMTYPE
 *   429 EUSERS ENOBUFS (a limit of rind: this caller has too many)
 *   501 EOPNOTSUPP ENOSYS              502 EPIPE ECONNRESET ECONNREFUSED ECONNABORTED EPROTO
 *   503 EAGAIN EMFILE ENFILE ENOMEM ESHUTDOWN EINTR EHOSTUNREACH ENETUNREACH
 *   504 ETIMEDOUT                      507 ENOSPC EDQUOT                500 everything else */
/* clang-format on */

/* Returns the HTTP status of an errno, positive or negative. */
int error_status(int code);
/* Returns "ENOENT" and the like; "EUNKNOWN" for an unknown number. */
const char *error_name(int code);
/* Returns the reason phrase of a status; "" if unknown. */
const char *error_reason(int status);
