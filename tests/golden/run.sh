#!/bin/sh
# Golden tests: every cfg of cases/ and exceptions/ through Debian's libdarknet and through us, on each backend.
#
#   tests/golden/run.sh [BUILD [BACKEND...]]      $BUILD, or build/float; cpu ref
#
# The first lines of a case say what is run:
#   # golden train STEPS TOLERANCE: reason        outputs, loss, gradients, changed parameters of so many steps
#   # golden infer TOLERANCE: reason              outputs of one forward pass
#   # golden train STEPS differs at NAME: cause   (exceptions/) libdarknet is known to differ, first there
#   # golden train STEPS crash: cause             (exceptions/) libdarknet is known to crash
#   # loss RATIO: reason                          libdarknet's loss over ours where it is not 1; 0: not compared
#   # each WORD a b c                             the case is run with WORD replaced by a, by b, by c
#                                                 (";" starts a new line)
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${1:-${BUILD:-build/float}}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- cpu ref
oracle=$(tests/golden/build-oracle.sh) || exit 2
replay=$build/tests/golden/replay
if [ -z "$oracle" ]; then
    echo "skip  golden tests: Debian's package darknet is not installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 jobs=0

pass() { passed=$((passed + 1)); printf 'ok    %-34s %s\n' "$1" "$2"; }
miss() { failed=$((failed + 1)); printf 'FAIL  %-34s %s\n' "$1" "$2"; }

# add NAME CFG: one folder of $work for every `golden` line of a case, with what is to be run in its file `job`
add() {
    loss=$(sed -n 's/^# loss \([0-9.]*\): .*/\1/p' "$2")
    found=0
    while IFS=: read -r what because; do
        found=1
        if [ -z "$because" ]; then miss "$1" "no reason is given for: $what"; continue; fi
        jobs=$((jobs + 1))
        job=$work/$(printf %04d $jobs) steps=0 mode=${what%% *} rest=${what#* }
        if [ "$mode" = train ]; then steps=${rest%% *} rest=${rest#* }; fi
        mkdir "$job"
        cp "$2" "$job/case.cfg"
        echo "$1 $mode $steps ${loss:-1} $rest" >"$job/job"
        if [ "$rest" != crash ]; then echo "$job/case.cfg $steps $job" >>"$work/list"; fi
    done <<END
$(sed -n 's/^# golden //p' "$2")
END
    [ $found = 1 ] || miss "$1" "the case does not say what to run"
}

# compare NAME JOB BACKEND MODE LOSS TOLERANCE [WHERE]
compare() {
    $replay "$3" "$2/case.cfg" "$2" "$4" "$6" "$5" >"$work/report" 2>&1
    rc=$?
    said=$(tr '\n' ' ' <"$work/report")
    first=$(sed -n 's/^differs at //p' "$work/report")
    if [ $rc -eq 0 ] && [ $# -eq 6 ]; then
        pass "$1" "$said"
    elif [ $rc -eq 1 ] && [ $# -eq 7 ] && [ "$first" = "$7" ]; then
        pass "$1" "differs at $first, as known"
    elif [ $# -eq 7 ]; then
        miss "$1" "expected to differ at $7: $said"
    else
        miss "$1" "tolerance $6: $said"
    fi
}

crashes() { # in a shell of its own, which keeps its remark on the crash to itself
    (
        ulimit -c 0
        $oracle run "$1/case.cfg" 1 "$1" >"$1/log" 2>&1
        exit $?
    ) 2>/dev/null
    [ $? -gt 128 ]
}

for case in tests/golden/cases/*.cfg tests/golden/exceptions/*.cfg; do
    name=$(basename "$case" .cfg)
    word=$(sed -n 's/^# each \([A-Z]*\) .*/\1/p' "$case")
    if [ -z "$word" ]; then
        add "$name" "$case"
        continue
    fi
    for value in $(sed -n 's/^# each [A-Z]* //p' "$case"); do
        sed "/^#/!{s/$word\$/$value/;s/;/\\n/g}" "$case" >"$work/case.cfg"
        add "$name:$value" "$work/case.cfg"
    done
done

# All in one process: loading libdarknet and what it links to takes longer than a case.
# shellcheck disable=SC2046
$oracle run $(cat "$work/list") >"$work/log" 2>&1 || echo "oracle: status $?: $(tail -n 1 "$work/log")"

for job in "$work"/[0-9]*; do
    read -r name mode steps loss rest <"$job/job"
    if [ "$rest" = crash ]; then
        if crashes "$job"; then pass "$name" "libdarknet crashes, as known"
        else miss "$name" "libdarknet no longer crashes"; fi
        continue
    fi
    for backend in "$@"; do
        case $rest in
        "differs at "*) compare "$name $mode $backend" "$job" "$backend" "$mode" "$loss" 1e-3 "${rest#differs at }" ;;
        *) compare "$name $mode $backend" "$job" "$backend" "$mode" "$loss" "$rest" ;;
        esac
    done
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
