// The shell side of sessions.
//
// A session consists of a keeper (KEEP), which is the exec, and its child, the shell (SERVER), which runs one command after the
// other. They share a directory on the sandbox's /dev/shm, which is removed with the sandbox:
//
//     in            FIFO of requests, one line each: PID CLIENT NUMBER MODE. The keeper holds it open
//     st.CLIENT     FIFO of replies to a client: `run NUMBER`, then `end NUMBER STATUS` or `gone NUMBER`
//     cmd.CLIENT    the text of its command; post.CLIENT restores the variables and directory after one command
//     keeper, pid   the pids of the two processes
//     cur           one line, overwritten by a single write, which works even on a full file system:
//                   `CLIENT NUMBER SLOT PID` while a command runs, PID its exec; else `idle CLIENT NUMBER SLOT` of the last one
//     env.SLOT, cwd.SLOT, lwd.SLOT  exported variables, umask, directory (physical and logical path) after the last command:
//                   the initial state of a new shell
//     left          `CLIENT NUMBER STATUS SLOT`: written by the shell's EXIT trap
//     stop          `CLIENT NUMBER` of the command that INTERRUPT ends
//     ended         the exit status of the shell that ended the session
//     bg            children of the shell when the command began, and its exec's line in /proc
//     job.CLIENT    of a background command: the pid of its copy of the shell, `-` before it exists
//     own.CLIENT    of a background command: `PID START ALONE CLIENT NUMBER PIPE…`: its exec and its start time, `alone` if no
//                   other command ran then, the last foreground command, its pipes; beside: the last CLIENT that started one
//
// The files that the shell writes exist beforehand: a command's umask could otherwise create files that their owner cannot
// read.
//
// Each command is an exec of its own (RUN), whose stdin, stdout and stderr the shell opens through /proc/PID/fd. So each
// command has its own pipes, its output needs no framing, and background processes of earlier commands cannot write into it.
// RUN keeps its fds at 3, 4 and 5, because a shell moves 0 to 2 for a builtin. It exits with the command's status.
//
// Either the shell or the keeper reports the end of a command. The shell does so after the last line of the command, or after
// `return`. If the shell itself ends, the keeper does, which has the status from wait(2). `exit`, `set -e` and a syntax error
// that ends a POSIX shell run the EXIT trap, which saves the state and notes the status. If the shell then exits with this
// status, or with another failure (the command's own EXIT trap may change it), it is the command's, and a new shell continues
// with the state. A shell that ends without the note (`exec`, for example) has not run the whole command: then the session has
// ended. Bash runs the EXIT trap also when a signal ends it, and an action may exit with 0 then. But only `exit` unwinds before
// the trap runs, so that BASH_COMMAND is the outermost command again; where bash does so (__rind_w), a status of 0 is noted
// only then. So the `trap` of commands puts the note in front of the action that it sets for EXIT.
//
// A command may do anything to its shell. So the shell keeps no fd open between two lines of these scripts and opens files by
// name. It calls builtins by `builtin` or `command`, past functions and aliases (bash has no such way for `exec >FILE`: a
// function of that name is unset). It runs commands outside of loops and functions, as `break` and `local` would affect those.
// When it can no longer report an end it exits (__rind_die), and the keeper reports the rest.

/** The signal by which the shell notices INTERRUPT: a real-time signal, as programs do not use it. */
const STOP = 50;
const CATCHABLE = 'HUP INT QUIT TERM USR1 USR2 ALRM PIPE';

/** The text `$__rind_0` runs one command, `$__rind_N` 128^N: a loop that `break` cannot leave, and that `set -n` ends. */
const steps = (evaluate: string) =>
  [0, 1, 2, 3].map((n) => `__rind_${n + 1}='${`${evaluate} "$__rind_${n}"\n`.repeat(128)}'`).join('\n');

/** The shell. Its arguments: the directory, the shell's path, the slot of the state to begin with or `-`, its keeper's
 * pid. */
export const SERVER = `
exec </dev/null >/dev/null 2>&1
__rind_die() {
__rind_x=\${__rind_none:?}
}
__rind_main() {
case \${BASHPID-} in
'') IFS=' ' "$__rind_b" read -r __rind_y __rind_x </proc/self/stat ;;
*) __rind_y=$BASHPID ;;
esac
"$__rind_b" [ "$__rind_y" = "$$" ]
}
__rind_save() {
case $__rind_l in 0) __rind_n=1 ;; *) __rind_n=0 ;; esac
{ "$__rind_b" printf 'umask ' && "$__rind_b" umask && "$__rind_b" export -p; } >|"$__rind_d/env.$__rind_n" || "$__rind_b" return 1
case $__rind_b in builtin) builtin export -fp >>"$__rind_d/env.$__rind_n" || builtin return 1 ;; esac
"$__rind_b" pwd -P >|"$__rind_d/cwd.$__rind_n"
"$__rind_b" pwd -L >|"$__rind_d/lwd.$__rind_n"
"$__rind_b" return 0
}
__rind_undo() {
if "$__rind_b" [ -e "$__rind_d/post.$__rind_c" ]; then "$__rind_b" . "$__rind_d/post.$__rind_c"; fi
}
__rind_exit() {
__rind_s=$?
case $__rind_w$__rind_s in yes0) case \${BASH_COMMAND-} in 'eval "$(cat '*'server")"') ;; *) __rind_c= ;; esac ;; esac
case $__rind_c in ?*) if __rind_main; then
( __rind_undo; __rind_save || __rind_n=$__rind_l; "$__rind_b" echo "$__rind_c $__rind_q $__rind_s $__rind_n" 1<>"$__rind_d/left" ) </dev/null >/dev/null 2>&1
fi ;; esac
"$__rind_b" return "$__rind_s"
}
__rind_stop() {
__rind_y=
IFS=' ' "$__rind_b" read -r __rind_y __rind_x <"$__rind_d/stop"
case "$__rind_c $__rind_q" in "$__rind_y $__rind_x") "$__rind_b" exit 124 ;; esac
}
__rind_trap() {
case \${1-} in
--) "$__rind_b" shift ;;
-?*) "$__rind_b" trap "$@"; "$__rind_b" return ;;
esac
case $# in
0) "$__rind_b" trap; "$__rind_b" return ;;
1) __rind_a=- ;;
*) case $1 in
*[!0-9]* | '') __rind_a=$1; "$__rind_b" shift ;;
*) __rind_a=- ;;
esac ;;
esac
__rind_s=0
for __rind_y in "$@"; do
case $__rind_y in
0 | [Ee][Xx][Ii][Tt])
case $__rind_a in
- | '') "$__rind_b" trap -- "$__rind_e" EXIT ;;
"$__rind_e"*) "$__rind_b" trap -- "$__rind_a" EXIT ;;
*) "$__rind_b" trap -- "$__rind_e
$__rind_a" EXIT ;;
esac ;;
[Ee][Rr][Rr] | [Dd][Ee][Bb][Uu][Gg] | [Rr][Ee][Tt][Uu][Rr][Nn])
case $__rind_a in
-) "$__rind_b" trap -- : "$__rind_y" ;;
*) "$__rind_b" trap -- "$__rind_a" "$__rind_y" ;;
esac ;;
*) "$__rind_b" trap -- "$__rind_a" "$__rind_y" ;;
esac || __rind_s=$?
done
"$__rind_b" return "$__rind_s"
}
__rind_next() {
__rind_t=0
until IFS=' ' TMOUT= "$__rind_b" read -r __rind_p __rind_v __rind_q __rind_m <"$__rind_d/in"; do
__rind_m=
__rind_t=$((__rind_t + 1))
"$__rind_b" [ "$__rind_t" -lt 1000 ] && "$__rind_b" [ -p "$__rind_d/in" ] && "$__rind_b" [ -d "/proc/$__rind_k" ] || __rind_die
done
"$__rind_b" [ -d "/proc/$__rind_p" ] || __rind_m=skip
case $__rind_m in
fore)
{
"$__rind_b" jobs -p
for __rind_y in "$$/task/$$/children" "$__rind_p/stat"; do IFS= "$__rind_b" read -r __rind_x <"/proc/$__rind_y"; "$__rind_b" echo "\${__rind_x-}"; done
} >|"$__rind_d/bg"
"$__rind_b" echo "$__rind_v $__rind_q $__rind_l $__rind_p" 1<>"$__rind_d/cur" || __rind_die
__rind_c=$__rind_v
"$__rind_b" echo "run $__rind_q" 1<>"$__rind_d/st.$__rind_c" || __rind_die ;;
skip) "$__rind_b" echo "idle $__rind_v $__rind_q $__rind_l" 1<>"$__rind_d/cur" ;;
esac
}
__rind_done() {
case $- in *n*) __rind_c=; __rind_die ;; esac
__rind_x=
"$__rind_b" eval __rind_x=1
case $__rind_x$__rind_b in
1*) ;;
builtin) POSIXLY_CORRECT=; unset -f builtin; unset POSIXLY_CORRECT ;;
*) unset -f command ;;
esac
__rind_undo
if __rind_save; then __rind_l=$__rind_n; fi
__rind_y=$__rind_c
__rind_c=
"$__rind_b" echo "idle $__rind_y $__rind_q $__rind_l" 1<>"$__rind_d/cur" || __rind_die
if "$__rind_b" [ -p "$__rind_d/st.$__rind_y" ]; then "$__rind_b" echo "end $__rind_q $__rind_s" 1<>"$__rind_d/st.$__rind_y" || __rind_die
else "$__rind_b" kill -USR2 "$__rind_p"; fi
}
__rind_beside() {
( (
"$__rind_b" trap : ${CATCHABLE}
case $- in *e*) __rind_y=-e ;; *) __rind_y=+e ;; esac
"$__rind_b" set +e
{
"$__rind_b" echo "run $__rind_q" >&9
IFS=' ' "$__rind_b" read -r __rind_s __rind_x </proc/self/stat && "$__rind_b" echo "$__rind_s" 1<>"$__rind_d/job.$__rind_v" || "$__rind_b" exit 1
( "$__rind_b" set "$__rind_y"; "$__rind_b" . "$__rind_d/cmd.$__rind_v" ) <"/proc/$__rind_p/fd/3" >|"/proc/$__rind_p/fd/4" 2>|"/proc/$__rind_p/fd/5" 9>&-
"$__rind_b" echo "end $__rind_q $?" >&9
} 9<>"$__rind_d/st.$__rind_v"
) & )
}
__rind_0='__rind_m=
"__rind_next" || \\:
case $__rind_m in
fore)
\\exec <"/proc/$__rind_p/fd/3" >|"/proc/$__rind_p/fd/4" 2>|"/proc/$__rind_p/fd/5" || __rind_die
"$__rind_b" . "$__rind_d/cmd.$__rind_c"
{ __rind_s=$?; case $__rind_b in builtin) \\builtin unset -f exec ;; esac; } 2>/dev/null
\\exec </dev/null >/dev/null 2>/dev/null
"__rind_done" || \\: ;;
back) "__rind_beside" || \\: ;;
esac'
__rind_w=
if command -v builtin >/dev/null; then
${steps('\\builtin eval')}
__rind_b=builtin
case $(trap '\\builtin echo "$BASH_COMMAND"' EXIT; \\builtin eval '\\builtin eval "exit 0"') in exit* | '') ;; *) __rind_w=yes ;; esac
eval 'trap() { __rind_trap "$@"; }'
else
${steps('\\eval')}
__rind_b=command
fi
case $3 in -) ;; *)
__rind_y=$(cat "$1/cwd.$3"; echo /) __rind_x=$(cat "$1/lwd.$3"; echo /)
__rind_y=\${__rind_y%??} __rind_x=\${__rind_x%??}
[ -s "$1/cwd.$3" ] && command cd -P -- "$__rind_y" && [ "$__rind_x" -ef . ] && command cd -L -- "$__rind_x"
command . "$1/env.$3" ;;
esac
case $__rind_b in builtin) builtin unset -f exec ;; esac
__rind_d=$1 __rind_l=$3 __rind_k=$4 __rind_c= __rind_e='\\__rind_exit && \\:'
set --
"$__rind_b" alias trap=__rind_trap
"$__rind_b" trap -- "$__rind_e" EXIT
"$__rind_b" trap -- __rind_stop ${STOP}
"$__rind_b" trap : PIPE
"$__rind_b" echo "$$" 1<>"$__rind_d/pid"
case $__rind_b in builtin) \\builtin eval "$__rind_4" ;; *) \\eval "$__rind_4" ;; esac
`;

/** Starts the shell. Starts it again with the state of the last command if it ended by the command's \`exit\`, between
 * two commands, or because of INTERRUPT. Any other end ends the session, with the same status. Signals that a command
 * sends to its process group do not affect the keeper; the shell has their original dispositions. */
export const KEEP = `
d=$1 h=$2 f=- x=- y=0
exec </dev/null >/dev/null 2>&1 7<>"$d/in" || exit 1
trap : ${CATCHABLE} ${STOP}
# Without the FIFO by the signal that the exec would end itself with.
tell() { if [ -p "$d/st.$1" ]; then echo "$2" 1<>"$d/st.$1"; elif [ "$3" ]; then kill -USR2 "$3"; fi; }
( umask 077; for n in env.0 env.1 cwd.0 cwd.1 lwd.0 lwd.1 bg pid; do : >>"$d/$n"; done )
r=
echo $$ >"$d/keeper"
while :; do
echo "idle $x $y $f new" 1<>"$d/cur" && echo '- - - -' 1<>"$d/left" || exit 1
[ "$x" = - ] || tell "$x" "$say" "$r"
"$h" -c 'eval "$(cat "$1/server")"' "$h" "$d" "$h" "$f" $$ 7<&-
s=$?
[ -p "$d/in" ] || exit "$s"
a= b= c= e= n= p= q= t= o= u= v= r=
IFS=' ' read -r a b c e n <"$d/cur"
IFS=' ' read -r p q t o <"$d/left"
IFS=' ' read -r u v <"$d/stop"
case "$a $n" in
'idle new') [ "$f" = - ] || { f=-; continue; } ;;
idle*) x=$b y=$c f=$e say="gone $c"; continue ;;
*)
x=$a y=$b r=$e say="gone $b"
if [ "$p $q" = "$x $y" ] && { [ "$((t & 255))" = "$s" ] || { [ "$s" -ge 1 ] && [ "$s" -le 127 ]; }; }; then f=$o say="end $y $s"; continue; fi
if [ "$u $v" = "$x $y" ] || [ ! -d "/proc/$e" ]; then f=$c; [ "$p $q" != "$x $y" ] || f=$o; continue; fi ;;
esac
break
done
echo "$s" >"$d/ended"
rm -f "$d/in"
[ "$x" = - ] || tell "$x" "$say" "$r"
echo '- - - -' >&7
while IFS=' ' read -r p c q m <&7 && [ "$p" != - ]; do tell "$c" "gone $q" ''; done
exit "$s"
`;

/** Exits by USR1 if there is no shell to run the command, by USR2 if the shell ended while it ran, and by XFSZ if the
 * command cannot be passed to the shell because the session's directory is not writable. */
export const RUN = `
d=$1 c=$2 q=$3 m=$4
read -r k 2>/dev/null <"$d/keeper" && [ -p "$d/in" ] && [ -d "/proc/$k" ] || { kill -USR1 $$; exit 1; }
exec 3<&0 4>&1 5>&2 7<>"$d/in"
full() { kill -XFSZ $$; exit 1; }
# The pipes of the command, when its exec began, and whether another command runs, whose processes could be taken for its own.
note() {
w= x= y= p= a=alone
read -r l <"/proc/$$/stat"
set -f
set -- \${l##*) }
b=\${20}
for l in $(ls -l "/proc/$$/fd/3" "/proc/$$/fd/4" "/proc/$$/fd/5"); do case $l in pipe:* | socket:*) p="$p $l" ;; esac; done
set +f
read -r w x y l <"$d/cur" && [ "$w" = idle ] || a=-
echo - >"$d/job.$c" && echo "$c" >|"$d/beside" || return 1
for l in "$d"/job.*; do [ "$l" = "$d/job.$c" ] || a=-; done
echo "$$ $b $a $x $y$p" >"$d/own.$c"
}
if [ "$m" = back ]; then
mkfifo "$d/st.$c" 2>/dev/null || full
trap 'rm -f "$d/st.$c" "$d/cmd.$c" "$d/own.$c" "$d/job.$c"' EXIT
note 2>/dev/null || full
elif [ ! -p "$d/st.$c" ]; then
rm -rf "$d/st.$c"
mkfifo "$d/st.$c" 2>/dev/null || full
fi
[ "$5" = - ] || printf '%s\\n' "$6" 2>/dev/null >"$d/cmd.$c" || full
[ ! -e "$d/post.$c" ] || rm -f "$d/post.$c"
[ ! "$7" ] || printf '%s\\n' "$7" 2>/dev/null >"$d/post.$c" || full
exec 8<>"$d/st.$c" 9<"$d/st.$c" || exit 1
# The keeper and an idle shell may have been stopped.
kill -CONT "$k"
read -r w n <"$d/cur" && [ "$w" != idle ] || { read -r n <"$d/pid" && kill -CONT "$n"; } 2>/dev/null
echo "$$ $c $q $m" >&7
while IFS=' ' read -r w n s <&9; do
case "$w $n" in
"run $q") break ;;
"gone $q") kill -USR1 $$ ;;
esac
done
trap '' USR1
exec 7>&-
# A command in the background has the shell's copy as the only writer: where that ends without a word, so does the reading.
[ "$m" != back ] || exec 8>&-
while IFS=' ' read -r w n s <&9; do
case "$w $n" in
"end $q") exit "$s" ;;
"gone $q") break ;;
esac
done
kill -USR2 $$
`;

/** Opens a session's directory for a client: prints \`new\`, or the exec id of the existing shell. */
export const OPEN = `
d=$1 c=$2
mkdir -p /dev/shm/.rind || exit 1
[ -x /dev/shm/.rind ] && [ -w /dev/shm/.rind ] || chmod u+rwx /dev/shm/.rind
# A command may have taken the permissions away.
clear() { chmod -R u+rwX "$d" 2>/dev/null; rm -rf "$d"; }
n=0
while :; do
if mkdir "$d" 2>/dev/null; then
mkfifo "$d/in" "$d/st.$c" && printf '%s' "$3" >"$d/server" && printf '%s' "$4" >"$d/keep" && echo - >"$d/stop" && echo new
exit
fi
if read -r e 2>/dev/null <"$d/exec" && read -r p 2>/dev/null <"$d/keeper"; then
if [ -p "$d/in" ] && [ -d "/proc/$p" ]; then
[ -p "$d/st.$c" ] || mkfifo "$d/st.$c" || exit 1
echo "$e"
exit
fi
clear
fi
n=$((n + 1))
[ $n -lt 200 ] || clear
[ $n -lt 400 ] || { echo "$d cannot be replaced: remove it" >&2; exit 1; }
sleep 0.02
done
`;

/** The command that the session's exec runs. */
export const START = 'h=/bin/sh; [ ! -x /bin/bash ] || h=/bin/bash; exec /bin/sh "$1/keep" "$1" "$h"';

/** Stores the session's exec id, and waits until the shell is ready. */
export const READY = `
echo "$2" >"$1/exec.tmp" && mv "$1/exec.tmp" "$1/exec" || exit 1
n=0
while [ ! -s "$1/pid" ]; do n=$((n + 1)); [ $n -lt 1000 ] || { echo 'its shell does not start' >&2; exit 1; }; sleep 0.01; done
`;

/** Ends the processes of a command. For a foreground command: its processes, but not those that earlier ones left in the
 * background, and the shell code that starts them, by the EXIT trap. A shell that does not follow within a second or two
 * is killed, and the keeper starts another. A process whose parent has ended belongs to the command if it is in the
 * keeper's process session and began after the command's exec. Succeeds when the session is done with the command, even
 * if the shell had not taken it yet: then a skip request behind it shows whether the shell still reads.
 *
 * For a background command the processes are ended at once. Others run at the same time, so a process whose parent has
 * ended certainly belongs to it only if it holds one of the command's pipes; further ones are ended if no other command
 * ran meanwhile. */
export const INTERRUPT = `
d=$1 c=$2 q=$3 m=$4 first= spare=' ' own= a=
holds() {
set -f
for w in $(ls -l "/proc/$1/fd" 2>/dev/null); do
case $own in *" $w "*) set +f; return 0 ;; esac
done
set +f
return 1
}
alone() {
w= u= v= o=
read -r w u v l <"$d/cur"
read -r o <"$d/beside"
[ "$a $w $u $v $o" = "alone idle $x $y $c" ]
}
# The processes below those of $1, and orphans, both without those of $spare.
tree() {
found=" $1 " again=1 all= maybe=
for f in /proc/[0-9]*/stat; do
read -r l 2>/dev/null <"$f" || continue
p=\${l%% *}
set -- \${l##*) }
all="$all $p:$2"
[ "$first" ] && [ "$2" -le 1 ] && [ "$4" = "$k" ] && [ "$p" != "$k" ] && [ "\${20}" -ge "$first" ] || continue
case $spare in *" $p "*) continue ;; esac
if [ "$m" = fore ]; then found="$found$p "
elif [ "$a" = alone ] && [ "\${20}" -gt "$first" ]; then maybe="$maybe$p "
elif holds "$p"; then found="$found$p "; fi
done
# Looked at after the processes: what another command has started since is among these.
if [ "$maybe" ]; then
if alone; then found="$found$maybe"
else for p in $maybe; do if holds "$p"; then found="$found$p "; fi; done; fi
fi
while [ "$again" ]; do
again=
for e in $all; do
case $found in *" \${e%:*} "*) continue ;; esac
case $spare in *" \${e%:*} "*) continue ;; esac
case $found in *" \${e#*:} "*) found="$found\${e%:*} "; again=1 ;; esac
done
done
}
if [ "$m" = back ] && [ ! -e "$d/job.$c" ]; then
# Its exec has ended by itself, and has removed that last; or there is no telling.
[ -x "$d" ] && [ ! -e "$d/st.$c" ]
exit
fi
read -r k <"$d/keeper" || exit 1
if [ "$m" = back ]; then
read -r r first a x y own <"$d/own.$c" && read -r j <"$d/job.$c" || exit 1
own=" $own "
for f in "$d"/job.*; do [ "$f" = "$d/job.$c" ] || { read -r l 2>/dev/null <"$f" && spare="$spare$l "; }; done
# The exec may still be there. Without it nothing runs that has not begun.
if read -r l 2>/dev/null <"/proc/$r/stat"; then
set -- \${l##*) }
[ "\${20}" != "$first" ] || kill -KILL "$r" 2>/dev/null
read -r j <"$d/job.$c" || exit 1
fi
[ "$j" != - ] || j=
for n in 1 2 3; do tree "$j"; kill -KILL $found 2>/dev/null; done
rm -f "$d/st.$c" "$d/cmd.$c" "$d/own.$c" "$d/job.$c"
exit 0
fi
if [ -p "$d/in" ] && [ ! -d "/proc/$k" ]; then
# The keeper was killed; what it has started is in its process session. It may have started more meanwhile.
for n in 1 2 3; do
for f in /proc/[0-9]*/stat; do
read -r l 2>/dev/null <"$f" || continue
set -- \${l##*) }
[ "$4" != "$k" ] || kill -KILL "\${l%% *}" 2>/dev/null
done
done
exit 0
fi
# Once: what was there before the command, and when its exec began.
earlier() {
[ ! "$first" ] || return 0
while read -r l; do
case $l in
*')'*) set -- \${l##*) }; first=\${20} ;;
*) spare="$spare$l " ;;
esac
done <"$d/bg"
for f in "$d"/job.*; do read -r l 2>/dev/null <"$f" && spare="$spare$l "; done
}
seconds() {
read -r t l </proc/uptime && n=$((\${t%.*} - begun))
}
begun=0 n=0 asked= told=
seconds
begun=$n n=0
while [ $n -lt 15 ]; do
[ -p "$d/in" ] || exit 0
[ -d "/proc/$k" ] && read -r s <"$d/pid" || exit 1
kill -CONT "$k" 2>/dev/null
w= x= y=
read -r w x y z <"$d/cur"
# A stopped shell goes on with the signal, not with what comes next in the command.
if [ ! "$told" ] && [ "$w $x" = "$c $q" ]; then
told=1
echo "$c $q" 1<>"$d/stop"
kill -${STOP} "$s"
fi
kill -CONT "$s" 2>/dev/null
case "$w $x $y" in
"idle $c $q")
[ "$first" ] || exit 0
tree ''
[ "$found" != '  ' ] || exit 0
kill -KILL $found 2>/dev/null ;;
idle*)
[ "$asked" ] || echo "0 $c $q skip" 1<>"$d/in"
asked=\${asked:-1}
[ $n -lt 3 ] || [ "$asked" = "$s" ] || { kill -KILL "$s"; asked=$s; } ;;
"$c $q "*)
earlier
[ $n -lt 2 ] || kill -STOP "$s"
tree "$s"
for p in $found; do [ "$p" = "$s" ] || kill -KILL "$p" 2>/dev/null; done
[ $n -lt 2 ] || kill -KILL "$s" 2>/dev/null ;;
*) exit 0 ;;
esac
sleep 0.02
seconds
done
exit 1
`;
