#!/bin/bash
# Which device computes: -i, -gpus, -nogpu, -device, -precision, -deterministic, in this build and in whatever builds
# with a GPU backend there are (its kernels on the host; the real one, on a machine without a GPU).
. "$(dirname "$0")/common.inc"
make_data
make_cfg good.cfg
sed 's/^\[net\]$/&\nprecision=tf32/' good.cfg >rounded.cfg

# says WHAT WORDS COMMAND...: fails with one line, which fits the regular expression.
says() {
    local what=$1 words=$2 status
    shift 2
    timeout 60 "$program" "$@" >said.out 2>said.err </dev/null
    status=$?
    if [ $status -eq 1 ] && [ "$(wc -l <said.err)" -eq 1 ] && grep -qE "^darknet: .*($words)" said.err; then
        pass
    else
        fail "$what ($program): exit status $status: $(head -n 2 said.err)"
    fi
}
opens() { # opens WHAT FLAG...
    local what=$1
    shift
    check "$what ($program)" timeout 60 "$program" ops good.cfg "$@"
}

everywhere() {
    says "a GPU that is no number" "-i one: expected the number of a GPU" ops good.cfg -i one
    says "a GPU below 0" "-i -1: expected the number of a GPU" ops good.cfg -i -1
    opens "a GPU and none: none" -i 0 -nogpu
    opens "several GPUs and none: none" -gpus 0,1 -nogpu
    says "no GPU and one" "-nogpu contradicts -device cuda:0" ops good.cfg -nogpu -device cuda:0
    says "a misspelt precision" "did you mean bf16" ops good.cfg -precision bf61
    says "a precision that ref does not have" "precision bf16: device ref computes in fp32$" ops good.cfg -device ref -precision bf16
    says "a precision that the CPU does not have" "precision tf32: device [a-z]* computes in fp32( or bf16)?$" ops good.cfg -nogpu -precision tf32
    says "a precision of the cfg that the CPU does not have" "rounded.cfg:2: .*: try -precision fp32$" ops rounded.cfg -nogpu
    says "a number that no device has" "expected a number after ':'" ops good.cfg -device ref:4294967296
    says "a device that only begins like one" "'c' is not one of those built in" ops good.cfg -device c
    says "a misspelt flag" "did you mean -deterministic" ops good.cfg -determinstic
    opens "-nogpu" -nogpu
    opens "-nogpu with a device that is none" -nogpu -device ref
    opens "-precision fp32" -nogpu -precision fp32
    opens "-precision goes before the cfg" -nogpu -set net.precision=bf16 -precision fp32
    "$program" classifier train --help >help
    check "--help lists the flags ($program)" grep -qE '^ +-i N ' help
    check "--help with a GPU" "$program" ops --help -i 0
    "$program" classifier train mini.data good.cfg -nogpu -deterministic -set net.max_batches=2 >said.out 2>said.err
    check "the device is told before training ($program)" grep -qE '^seed 1, device (cpu|ref), [0-9]' said.out
}

with_gpus() {
    says "several GPUs" "-gpus 0,1: a process uses one GPU: .*: mpirun -np N " ops good.cfg -gpus 0,1
    says "several GPUs and one" "-gpus 0,1 contradicts GPU 2" ops good.cfg -i 2 -gpus 0,1
    says "several GPUs and the CPU" "-device ref contradicts -i and -gpus" ops good.cfg -device ref -gpus 0,1
    says "two GPUs" "-gpus 1 contradicts GPU 0" ops good.cfg -i 0 -gpus 1
    says "a GPU and the CPU" "-device ref contradicts -i" ops good.cfg -device ref -i 0
}

# No build with a misspelt variable: it would be one for the CPU.
make -C "$here" GPU=yes >said.out 2>said.err
check "a misspelt GPU= builds nothing" grep -q 'GPU=yes: expected 0, 1 or host' said.err

program=$DARKNET
everywhere
if [[ " $devices " != *cuda* ]]; then
    for flags in "-i 0" "-gpus 0" "-gpus 0,1,2,3"; do
        "$program" classifier train mini.data good.cfg $flags -set net.max_batches=2 >said.out 2>said.err
        check "a program for CPUs takes $flags" test $? = 0
        check "a program for CPUs says of $flags what it does" grep -q "^without effect here: ${flags% *} (.*GPU=1" said.err
    done
    says "a GPU by our own flag" "'cuda:0' is not one of those built in: .*for a GPU, build with make GPU=1" ops good.cfg -device cuda:0
fi

program=${GPU_HOST:-none}
if [ -x "$program" ]; then
    everywhere
    with_gpus
    "$program" version >version
    check "cuda comes first" grep -q '^device cuda (default): .' version
    "$program" classifier train mini.data good.cfg -precision bf16 -set net.max_batches=1 >said.out 2>said.err
    check "the card is told before training" grep -q '^seed 1, device cuda:0 (kernels on the host) in bf16, [0-9]' said.out
    says "a GPU that is not there" "cuda:7: there is 1 GPU" ops good.cfg -i 7
    says "a GPU that is not there, by -gpus" "cuda:7: there is 1 GPU" ops good.cfg -gpus 7
    says "a GPU that is not there, by its name" "cuda:7: there is 1 GPU" ops good.cfg -device cuda:7
    for flags in "" "-i 0" "-gpus 0" "-device cuda" "-device cuda:0" "-i 0 -gpus 0" "-precision bf16" \
        "-i 0 -precision tf32 -deterministic"; do
        opens "device ${flags:-by default}" $flags
    done
else
    skip "no build with the kernels of the GPU on the host"
fi

program=${GPU_REAL:-none}
if [ ! -x "$program" ]; then
    skip "no build with GPU=1"
elif [ -e /dev/nvidiactl ]; then
    skip "what a program for GPUs says without one: here is one"
else
    everywhere
    with_gpus
    "$program" version >version
    check "its libraries are listed" grep -qE '^device cuda \(default\): .*cuDNN' version
    for flags in "" "-i 0" "-device cuda:0 -precision bf16"; do
        says "no GPU, asked for by '$flags'" "no NVIDIA driver .*-nogpu|finds no GPU.*-nogpu" ops good.cfg $flags
    done
fi
finish
