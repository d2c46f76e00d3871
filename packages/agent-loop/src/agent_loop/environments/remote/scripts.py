"""What is run elsewhere to get things done: POSIX sh, and tools as GNU and busybox have them.

Arguments come as `$1`, `$2`, ...: no text is ever pasted into a script. Paths are absolute and normalised. RS stands
where a script's own output begins: before it, a login shell or what carries the connection may have had its say.
"""

# Exit codes by which scripts say what is wrong; programs don't use them.
MISSING, DIRECTORY, SYMLINK, FIFO, SOCKET, DEVICE, OUTSIDE, EXISTS, TOO_BIG, INCOMPLETE, FORBIDDEN = range(81, 92)
NO_DIRECTORY = 92

BEGIN = b"\x1e"

# What is there, in parts that end in NUL: missing tools, whether there is bash, ripgrep; home, system, environment.
PROBE = r"""
printf '\036'
for tool in setsid find stat readlink grep tar xargs head tail tr wc cp mv rm mkdir cat sleep kill; do
    command -v "$tool" >/dev/null || printf '%s ' "$tool"
done
printf '\0'
[ -x /bin/bash ] && printf /bin/bash || printf /bin/sh
printf '\0'
command -v rg
printf '\0%s\0' "${HOME:-/}"
uname -sr
printf '\0'
[ -d "$1" ] && printf there
printf '\0'
cat /proc/self/environ
"""

# `end MARKER GROUP...` ends all that have the marker in their environment, and these groups; prints what is left.
_GROUPS = r"""
living() {
    cat /proc/[0-9]*/stat 2>/dev/null | while IFS= read -r line; do
        set -- ${line##*) }
        [ "$1" = Z ] || echo " $3 "
    done
}
marked() {
    grep -lzF -e "$1" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ id _; do
        line=$(cat "/proc/$id/stat" 2>/dev/null) || continue
        set -- ${line##*) }
        [ "$1" = Z ] || [ "$3" -le 1 ] || echo "$3"
    done
}
reached() {
    running=$(living)
    for group in $*; do case $running in *" $group "*) echo "$group" ;; esac; done
}
wait_for() {
    rounds=$1
    shift
    while [ "$rounds" -gt 0 ] && [ -n "$(reached "$@")" ]; do
        sleep 0.1
        rounds=$((rounds - 1))
    done
}
signal() {
    name=$1
    shift
    for group in $*; do kill "-$name" "-$group" 2>/dev/null; done
}
end() {
    marker=$1
    shift
    groups="$* $(marked "$marker")"
    signal TERM "$groups"
    wait_for 20 "$groups"
    groups="$groups $(marked "$marker")"
    signal KILL "$groups"
    wait_for 5 "$groups"
    reached "$groups"
}
"""

# End what has the marker $1, and the groups that follow: TERM, two seconds, KILL. Prints the groups that are left.
END = (
    _GROUPS
    + r"""
printf '\036'
end "$@"
"""
)

# Run "$@" as a session of its own, once there is a line on stdin: a caller that gave up by then sends none. What it
# prints stands between marks on both streams; see `command`. When stdin ends, the caller is gone or wants no more of
# it, and it is ended. Arguments before those of the command: token, marker, directory, names to unset, number of
# variables, the variables.
RUN = (
    _GROUPS
    + r"""
exec 3<&0 4>&2 </dev/null 2>/dev/null
token=$1 marker=$2 directory=$3 unset=$4 count=$5
shift 5
say() { printf '\036%s:%s\036' "$token" "$1"; }
cd "$directory" || { say missing; say 'exit 0'; printf '\036%s:exit\036' "$token" >&4; exit; }
read -r line <&3 || exit
{ read -r line <&3; trap '' TERM; end "$marker"; } >/dev/null 4>&- &
guard=$!
(
    exec 2>&4 3<&- 4>&-
    setsid=$(command -v setsid)
    [ -z "$unset" ] || unset $unset
    while [ "$count" -gt 0 ]; do
        export "$1"
        shift
        count=$((count - 1))
    done
    export "AGENT_LOOP_ENVIRONMENT=$marker"
    exec "$setsid" /bin/sh -c '
        token=$1
        shift
        printf "\036%s:start\036" "$token" >&2
        printf "\036%s:start %s\036" "$token" "$$"
        exec "$@"' sh "$token" "$@"
)
code=$?
kill "$guard"
wait "$guard"
say "exit $code"
printf '\036%s:exit\036' "$token" >&4
"""
)

_FILES = r"""
regular() {
    [ -f "$1" ] && return
    [ -d "$1" ] && exit 82
    [ -p "$1" ] && exit 84
    [ -S "$1" ] && exit 85
    [ -e "$1" ] && exit 86
    exit 81
}
# Sets `real` to the place of a path without symlinks, though its last parts may be missing.
resolve() {
    base=$1 rest=
    while [ ! -e "$base" ] && [ ! -L "$base" ]; do
        rest=/${base##*/}$rest
        base=${base%/*}
        base=${base:-/}
    done
    real=$(readlink -f "$base" && echo .) || exit 81
    real=${real%
.}
    [ "$real" = / ] && real=
    real=$real$rest
}
# The remaining arguments are the roots; none means anywhere.
inside() {
    place=$1
    shift
    [ $# -gt 0 ] || return 0
    for root; do
        resolve "$root"
        case $place/ in "$real"/*) return ;; esac
    done
    exit 87
}
"""

READ = (
    _FILES
    + r"""
regular "$1"
[ -r "$1" ] || exit 91
[ "$(wc -c <"$1")" -le "$2" ] || exit 89
head -c "$(($2 + 1))" <"$1"
"""
)

# Path, size up to which a file is read whole; first line, number of lines, bytes at most. Prints first which it was.
READ_LINES = (
    _FILES
    + r"""
regular "$1"
[ -r "$1" ] || exit 91
if [ "$(wc -c <"$1")" -le "$2" ]; then
    printf w
    cat <"$1"
else
    printf l
    tail -n "+$3" <"$1" | head -n "$4" | head -c "$5"
fi
"""
)

# Path, number of bytes, token, roots; the bytes come by stdin. Wholly or not at all; mode, owner and links stay.
WRITE = (
    _FILES
    + r"""
path=$1 size=$2 token=$3
shift 3
resolve "$path"
target=$real
inside "$target" "$@"
parent=${target%/*}
parent=${parent:-/}
temporary=$parent/.$token.tmp
trap 'rm -f "$temporary"' EXIT
trap 'exit 90' HUP INT TERM
if [ -e "$target" ]; then
    regular "$target"
    [ -w "$target" ] || exit 91
    if [ -n "$(find "$target" -links +1)" ] || [ ! -w "$parent" ] || { [ "$(id -u)" != 0 ] && [ ! -O "$target" ]; }
    then
        temporary=${TMPDIR:-/tmp}/.$token.tmp
        cat >"$temporary" || exit 1
        [ "$(wc -c <"$temporary")" -eq "$size" ] || exit 90
        cat "$temporary" >"$target"
        exit
    fi
    cp -p "$target" "$temporary" || exit 1
else
    mkdir -p "$parent" || exit 1
fi
cat >"$temporary" || exit 1
[ "$(wc -c <"$temporary")" -eq "$size" ] || exit 90
mv -f "$temporary" "$target"
"""
)

# Path, roots.
DELETE = (
    _FILES
    + r"""
path=$1
shift
parent=${path%/*}
resolve "${parent:-/}"
inside "$real/${path##*/}" "$@"
[ -L "$path" ] || regular "$path"
rm -f "$path"
"""
)

# Source, target, roots.
MOVE = (
    _FILES
    + r"""
source=$1 target=$2
shift 2
for path in "$source" "$target"; do
    parent=${path%/*}
    resolve "${parent:-/}"
    inside "$real/${path##*/}" "$@"
done
[ -L "$source" ] && exit 83
regular "$source"
if [ -e "$target" ] || [ -L "$target" ]; then exit 88; fi
parent=${target%/*}
mkdir -p "${parent:-/}" && mv "$source" "$target"
"""
)

LOOK = """if [ -e "$1" ] || [ -L "$1" ]; then echo there; fi"""

# Directory, where below it to begin (or nothing), token, expression of find. Each entry: token, mode in hexadecimal,
# size, time of modification, path.
WALK = r"""
[ -e "$1" ] || exit 81
[ -d "$1" ] || exit 92
cd "$1/$2" || { [ -z "$2" ] && exit 91 || exit 0; }
token=$3
shift 3
export TZ=UTC0
find . "$@" -exec stat -c "$token %f %s %y %n" {} + 2>/dev/null
exit 0
"""

# As WALK; symlinks are what they lead to.
WALK_FILES = WALK.replace("stat -c", "stat -L -c")

# File or directory, arguments of ripgrep.
RIPGREP = (
    _FILES
    + r"""
if [ -d "$1" ]; then
    cd "$1" || exit 91
    what=.
else
    regular "$1"
    cd "${1%/*}/" || exit 91
    what=${1##*/}
fi
shift
exec rg "$@" "$what"
"""
)

# File or directory, text that every match holds (or nothing), expression of find. An archive of the files, or several,
# one after another; names begin with `./`, but not that of the one file.
COLLECT = (
    _FILES
    + r"""
if [ ! -d "$1" ]; then
    regular "$1"
    tar -chf - "$1" 2>/dev/null
    exit 0
fi
cd "$1" || exit 91
text=$2
shift 2
newline='
'
# UTF-16 is for the other side to read.
little=$(printf '\377\376') big=$(printf '\376\377')
if [ -z "$text" ]; then
    find . "$@" -type f -print0
else
    export LC_ALL=C
    find . "$@" -type f ! -path "*$newline*" -exec grep -lF -e "$text" -e "$little" -e "$big" {} + | tr '\n' '\0'
    find . "$@" -type f -path "*$newline*" -print0
fi 2>/dev/null | xargs -0 -r tar -cf - 2>/dev/null
exit 0
"""
)
