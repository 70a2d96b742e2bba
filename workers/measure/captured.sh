#!/bin/sh
# Runs a program on a device while a capture records it: started before the program, stopped after it.
#
#   sh captured.sh beside NAME MADE COUNT CAPTURE... PROGRAM...    the capture is the first COUNT words
#   sh captured.sh around NAME MADE CAPTURE...    a capture that starts: sh captured.sh inside NAME PROGRAM...
#
# NAME is the path of what is written here: NAME.out and NAME.err of the program, NAME.code its exit code, NAME.log of the
# capture, and NAME.made the recording, which the capture leaves at MADE (a folder is packed with tar). Prints what the
# program printed, and ends as it did; 97 if nothing was recorded.
#
# All that runs is in the process group of this shell, so that the device ends all of it together.
verb=$1 name=$2
shift 2

if [ "$verb" = inside ]; then
    "$@" >"$name.out" 2>"$name.err" </dev/null
    echo $? >"$name.code"
    exit 0
fi

failed() {
    cat "$name.log" >&2
    exit 97
}

made=$1
shift
: >"$name.log"
if [ "$verb" = around ]; then
    "$@" >"$name.log" 2>&1 </dev/null
else
    count=$1
    shift
    (
        words=$# left=$count
        while [ "$left" -gt 0 ]; do
            set -- "$@" "$1"
            shift
            left=$((left - 1))
        done
        shift $((words - count))
        exec "$@"
    ) >"$name.log" 2>&1 </dev/null &
    capture=$!
    # It says when it has begun; one that says nothing has 3 s.
    tries=30
    while [ "$tries" -gt 0 ] && kill -s 0 "$capture" 2>/dev/null; do
        case "$(cat "$name.log")" in *"Connected to the Perfetto"*) break ;; esac
        sleep 0.1
        tries=$((tries - 1))
    done
    kill -s 0 "$capture" 2>/dev/null || failed
    shift "$count"
    "$@" >"$name.out" 2>"$name.err" </dev/null
    echo $? >"$name.code"
    kill -s TERM "$capture" 2>/dev/null
    tries=300
    while [ "$tries" -gt 0 ] && kill -s 0 "$capture" 2>/dev/null; do
        sleep 0.1
        tries=$((tries - 1))
    done
    kill -s KILL "$capture" 2>/dev/null
    wait "$capture"
fi

[ -s "$name.code" ] || failed
if [ -d "$made" ]; then
    tar -cf "$name.made" -C "${made%/*}" "${made##*/}" && rm -rf "$made"
elif [ "$made" != "$name.made" ]; then
    cat "$made" >"$name.made" && rm -f "$made"
fi
[ -s "$name.made" ] || failed
cat "$name.out"
cat "$name.err" >&2
read -r code <"$name.code"
exit "$code"
