// The shell side of sessions.
//
// A session is one shell that stays (SERVER), in a directory of its own on the sandbox's /dev/shm, which ends with the sandbox:
//
//     in          requests, one line each: PID CLIENT NUMBER MODE
//     st.CLIENT   what the shell answers that client: `run NUMBER`, then `end NUMBER STATUS`
//     cmd.CLIENT  the text of its command; post.CLIENT what puts back the variables and directory of one command
//     pid, cur    the shell; the number of the command that it runs, or `idle`
//     bg, old     its background jobs when the command began, and those from before it started itself again; job.CLIENT the pid of a command in the background
//
// Each command is an exec of its own (RUN), whose stdin, stdout and stderr the shell opens through /proc/PID/fd: so every command
// has its own pipes, nothing frames or marks its output, and what an earlier command left in the background cannot write into it.
// The shell catches SIGPIPE, as it may have something to say to an output that has gone (a child was killed); its children do not.
// The exec ends with the command's status. It keeps its descriptors at 3, 4 and 5, because a shell moves 0 to 2 about for a builtin.
//
// `exit`, a syntax error that ends a POSIX shell, and a time-out (USR1) reach the EXIT trap, which says the status and starts the
// shell again in place: directory and exported variables hold, other variables and functions are gone.

export const SERVER = `
__rind_d=$1 __rind_h=$2 __rind_c= __rind_q=
exec </dev/null >/dev/null 2>&1
exec 7<>"$__rind_d/in" || exit 1
trap '__rind_s=$?
if [ "$__rind_c" ]; then
[ ! -e "$__rind_d/post.$__rind_c" ] || command . "$__rind_d/post.$__rind_c"
echo idle >"$__rind_d/cur"; echo "end $__rind_q $__rind_s" 1<>"$__rind_d/st.$__rind_c"
fi
[ ! -e "$__rind_d/in" ] || { jobs -p >>"$__rind_d/old"; exec "$__rind_h" "$__rind_d/server" "$__rind_d" "$__rind_h"; }' EXIT
trap 'exit 124' USR1
trap : PIPE
echo idle >"$__rind_d/cur"
echo $$ >"$__rind_d/pid"
while :; do
IFS=' ' read -r __rind_p __rind_c __rind_q __rind_m <&7 || { __rind_c=; continue; }
[ -d "/proc/$__rind_p" ] || { __rind_c=; continue; }
if [ "$__rind_m" = back ]; then
(
trap - EXIT USR1 PIPE
exec 9<>"$__rind_d/st.$__rind_c" || exit
echo "run $__rind_q" >&9
( command . "$__rind_d/cmd.$__rind_c" ) <"/proc/$__rind_p/fd/3" >"/proc/$__rind_p/fd/4" 2>"/proc/$__rind_p/fd/5" 7>&- 9>&-
echo "end $__rind_q $?" >&9
) &
echo $! >"$__rind_d/job.$__rind_c"
__rind_c=
continue
fi
jobs -p >"$__rind_d/bg"
echo "$__rind_q" >"$__rind_d/cur"
exec 9<>"$__rind_d/st.$__rind_c"
echo "run $__rind_q" >&9
{ command . "$__rind_d/cmd.$__rind_c"; } <"/proc/$__rind_p/fd/3" >"/proc/$__rind_p/fd/4" 2>"/proc/$__rind_p/fd/5" 7>&- 9>&-
__rind_s=$?
[ ! -e "$__rind_d/post.$__rind_c" ] || command . "$__rind_d/post.$__rind_c"
echo idle >"$__rind_d/cur"
echo "end $__rind_q $__rind_s" >&9
exec 9>&-
__rind_c=
done
`;

/** Ends with USR1 where there is no shell to run the command, with USR2 where the shell ended while it ran. */
export const RUN = `
d=$1 c=$2 q=$3 m=$4
read -r p 2>/dev/null <"$d/pid" && [ -p "$d/in" ] && [ -d "/proc/$p" ] || { kill -USR1 $$; exit 1; }
exec 3<&0 4>&1 5>&2 7<>"$d/in"
if [ "$m" = back ]; then mkfifo "$d/st.$c" || exit 1; trap 'rm -f "$d/st.$c" "$d/cmd.$c" "$d/job.$c"' EXIT; fi
[ "$5" = - ] || printf '%s\\n' "$6" >"$d/cmd.$c" || exit 1
[ ! -e "$d/post.$c" ] || rm -f "$d/post.$c"
[ ! "$7" ] || printf '%s\\n' "$7" >"$d/post.$c" || exit 1
exec 8<>"$d/st.$c" 9<"$d/st.$c" || exit 1
echo "$$ $c $q $m" >&7
while IFS=' ' read -r w n s <&9 && [ "$w $n" != "run $q" ]; do :; done
trap '' USR1
exec 8>&- 7>&-
while IFS=' ' read -r w n s <&9; do
[ "$w $n" != "end $q" ] || exit "$s"
done
if [ "$m" != back ]; then while [ -d "/proc/$p" ]; do sleep 0.05; done; fi
kill -USR2 $$
`;

/** Opens a session's directory for a client: prints \`new\`, or the exec of the shell that is there. */
export const OPEN = `
d=$1 c=$2
mkdir -p /dev/shm/.rind || exit 1
n=0
while :; do
if mkdir "$d" 2>/dev/null; then
mkfifo "$d/in" "$d/st.$c" && printf '%s' "$3" >"$d/server" && echo new
exit
fi
if read -r e 2>/dev/null <"$d/exec" && read -r p 2>/dev/null <"$d/pid"; then
if [ -p "$d/in" ] && [ -d "/proc/$p" ]; then
[ -p "$d/st.$c" ] || mkfifo "$d/st.$c" || exit 1
echo "$e"
exit
fi
rm -rf "$d"
fi
n=$((n + 1))
[ $n -lt 200 ] || rm -rf "$d"
sleep 0.02
done
`;

/** What an exec runs as the session's shell. */
export const START = 'h=/bin/sh; [ ! -x /bin/bash ] || h=/bin/bash; exec "$h" "$1/server" "$1" "$h"';

/** Notes the shell's exec, and waits until the shell is there. */
export const READY = `
echo "$2" >"$1/exec.tmp" && mv "$1/exec.tmp" "$1/exec" || exit 1
n=0
while [ ! -s "$1/pid" ]; do n=$((n + 1)); [ $n -lt 500 ] || exit 1; sleep 0.01; done
`;

/**
 * Ends what a command runs: a foreground command's children without what earlier ones left in the background, and the loop of
 * shell code that starts them; after two seconds the shell itself. A background command's processes at once.
 */
export const INTERRUPT = `
d=$1 c=$2 q=$3 m=$4
tree() {
spare=" $2 " found=" $1 " again=1 all=
for f in /proc/[0-9]*/stat; do
read -r l 2>/dev/null <"$f" || continue
r=\${l##*) }; r=\${r#* }
all="$all \${l%% *}:\${r%% *}"
done
while [ "$again" ]; do
again=
for e in $all; do
case $found in *" \${e%:*} "*) continue ;; esac
case $spare in *" \${e%:*} "*) continue ;; esac
case $found in *" \${e#*:} "*) found="$found\${e%:*} "; again=1 ;; esac
done
done
}
if [ "$m" = back ]; then
read -r j 2>/dev/null <"$d/job.$c" || exit 0
for n in 1 2 3; do tree "$j" ''; kill -KILL $found 2>/dev/null; done
exit 0
fi
read -r cur 2>/dev/null <"$d/cur" && [ "$cur" = "$q" ] || exit 0
read -r s <"$d/pid" || exit 0
kill -USR1 "$s"
n=0
while [ $n -lt 100 ]; do
read -r cur <"$d/cur"; [ "$cur" = "$q" ] || exit 0
tree "$s" "$(cat "$d/bg" "$d/old" 2>/dev/null | tr '\\n' ' ')"
for p in $found; do [ "$p" = "$s" ] || kill -KILL "$p" 2>/dev/null; done
sleep 0.02
n=$((n + 1))
done
kill -KILL "$s"
`;
