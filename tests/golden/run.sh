#!/bin/sh
# Golden tests: every cfg of cases/ through Debian's libdarknet and through us, on each backend given.
#
#   tests/golden/run.sh [BUILD [BACKEND...]]        build/float cpu ref
#
# The first lines of a case say what is run:
#   # golden train STEPS TOLERANCE: reason          outputs, loss, gradients, changed parameters of so many steps
#   # golden infer TOLERANCE: reason                outputs of one forward pass
#   # golden train STEPS differs at NAME: cause     (exceptions/) libdarknet is known to differ, first there
#   # golden train STEPS crash: cause               (exceptions/) libdarknet is known to crash
#   # loss RATIO: reason                            libdarknet's loss over ours where it is not 1; 0: not compared
#   # each WORD a b c                               the case is run with WORD replaced by a, by b, by c
#                                                   (";" starts a new line)
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${1:-build/float}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- cpu ref
oracle=$(tests/golden/build-oracle.sh) || exit 2
replay=$build/tests/golden/replay
if [ -z "$oracle" ]; then
    echo "golden: skipped: Debian's package darknet is not installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

pass() { passed=$((passed + 1)); printf 'ok    %-34s %s\n' "$1" "$2"; }
miss() { failed=$((failed + 1)); printf 'FAIL  %-34s %s\n' "$1" "$2"; }

# compare NAME CFG BACKEND train|infer TOLERANCE [WHERE]
compare() {
    $replay "$3" "$2" "$work" "$4" "$5" "$loss" >"$work/report" 2>&1
    rc=$?
    said=$(tr '\n' ' ' <"$work/report")
    first=$(sed -n 's/^differs at //p' "$work/report")
    if [ $rc -eq 0 ] && [ $# -eq 5 ]; then
        pass "$1" "$said"
    elif [ $rc -eq 1 ] && [ $# -eq 6 ] && [ "$first" = "$6" ]; then
        pass "$1" "differs at $first, as known"
    elif [ $# -eq 6 ]; then
        miss "$1" "expected to differ at $6: $said"
    else
        miss "$1" "tolerance $5: $said"
    fi
}

# oracle_runs CFG STEPS
oracle_runs() { # in a shell of its own, which keeps its remark on a crash to itself
    (
        ulimit -c 0
        $oracle run "$1" "$2" "$work" >"$work/log" 2>&1
        exit $?
    ) 2>/dev/null
}

# one NAME CFG BACKEND...: every `golden` line of a case
one() {
    name=$1 cfg=$2
    shift 2
    loss=$(sed -n 's/^# loss \([0-9.]*\): .*/\1/p' "$cfg")
    loss=${loss:-1}
    grep '^# golden ' "$cfg" | sed 's/^# golden //' >"$work/lines"
    [ -s "$work/lines" ] || miss "$name" "the case does not say what to run"
    while IFS=: read -r what because; do
        if [ -z "$because" ]; then miss "$name" "no reason is given for: $what"; continue; fi
        steps=0 mode=${what%% *} rest=${what#* }
        if [ "$mode" = train ]; then steps=${rest%% *} rest=${rest#* }; fi
        oracle_runs "$cfg" "$steps"
        rc=$?
        if [ "$rest" = crash ]; then
            if [ $rc -gt 128 ]; then pass "$name" "libdarknet crashes, as known"
            else miss "$name" "libdarknet no longer crashes: status $rc"; fi
            continue
        fi
        if [ $rc -ne 0 ]; then miss "$name" "oracle: status $rc: $(tail -n 1 "$work/log")"; continue; fi
        for backend in "$@"; do
            case $rest in
            "differs at "*) compare "$name $mode $backend" "$cfg" "$backend" "$mode" 1e-3 "${rest#differs at }" ;;
            *) compare "$name $mode $backend" "$cfg" "$backend" "$mode" "$rest" ;;
            esac
        done
    done <"$work/lines"
}

for case in tests/golden/cases/*.cfg tests/golden/exceptions/*.cfg; do
    file=$(basename "$case" .cfg)
    word=$(sed -n 's/^# each \([A-Z]*\) .*/\1/p' "$case")
    if [ -z "$word" ]; then
        one "$file" "$case" "$@"
        continue
    fi
    for value in $(sed -n 's/^# each [A-Z]* //p' "$case"); do
        sed "/^#/!{s/$word\$/$value/;s/;/\\n/g}" "$case" >"$work/case.cfg"
        one "$file:$value" "$work/case.cfg" "$@"
    done
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
