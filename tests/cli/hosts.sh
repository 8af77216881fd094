#!/bin/bash
# Training by processes on two hosts: network namespaces, each with a host name of its own, joined by a virtual cable.
. "$(dirname "$0")/common.inc"
alone=${MPI_DARKNET:-none}
a=dn-a-$$ b=dn-b-$$
inside() { # inside NAMESPACE COMMAND...
    local ns=$1
    shift
    ip netns exec "$ns" unshare -u sh -c 'hostname "$0"; exec "$@"' "$ns" "$@"
}
lay_cable() {
    ip netns add $a && ip netns add $b && ip link add va netns $a type veth peer name vb netns $b &&
        ip -n $a addr add 10.9.0.1/24 dev va && ip -n $b addr add 10.9.0.2/24 dev vb &&
        ip -n $a link set lo up && ip -n $b link set lo up && ip -n $a link set va up && ip -n $b link set vb up
}
take_down() {
    for ns in $a $b; do
        kill -9 $(ip netns pids $ns 2>/dev/null) 2>/dev/null
        ip netns del $ns 2>/dev/null
    done
}
if [ ! -x "$alone" ] || ! command -v mpirun >/dev/null; then
    skip "no build with MPI=1 (MPI_DARKNET), or no mpirun"
    finish
fi
trap 'take_down; cd "$here"; rm -rf "$work"' EXIT
if ! lay_cable 2>/dev/null; then
    skip "network namespaces: not root, no ip, or not allowed"
    finish
fi
. "$here/tests/cli/group.inc"
# What mpirun calls instead of ssh: agent ADDRESS COMMAND...
cat >agent <<END
#!/bin/sh
case \$1 in 10.9.0.1) ns=$a ;; *) ns=$b ;; esac
shift
exec ip netns exec \$ns unshare -u sh -c "hostname \$ns; \$*"
END
chmod +x agent
keepalive="--mca oob_tcp_keepalive_time 3 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3"
begin() { # begin ARGUMENTS...: in the background, as $run
    rm -f out
    rm -rf backup
    inside $a timeout -s KILL 120 mpirun --mca plm_rsh_agent "$work/agent" --mca btl tcp,self --mca btl_tcp_if_include 10.9.0.0/24 \
        --mca oob_tcp_if_include 10.9.0.0/24 $keepalive --host 10.9.0.1,10.9.0.2 --bind-to none -np 2 \
        "$alone" classifier train "$work/mini.data" "$work/mini.cfg" -threads 1 "$@" >out 2>err </dev/null &
    run=$!
}
make_data
sed -i "s|^backup = .*|backup = $work/backup\nsavelast = 10|" mini.data
make_cfg mini.cfg "$(printf '[itra]\nlambda=.6\nwarmup=0')"
sed -i 's/^batch=6/batch=12/' mini.cfg

begin
wait $run
check "two hosts: status" test $? = 0
cp backup/mini_final.weights hosts.weights
rm -rf backup
timeout 60 mpirun -np 2 "$alone" classifier train mini.data mini.cfg -threads 1 >out 2>err </dev/null
check "two hosts: the bytes of one" cmp hosts.weights backup/mini_final.weights

for how in "a killed process" "a cable that is cut"; do
    begin -set net.max_batches=1000000
    await grep -q '^40, ' out
    start=$SECONDS
    if [ "$how" = "a killed process" ]; then
        for p in $(ip netns pids $b); do [ "$(cat /proc/$p/comm)" = darknet ] && kill -9 $p; done
    else
        ip -n $b link set vb down
    fi
    wait $run
    check "$how: status" test $? != 0
    check "$how: all end within 20 s" test $((SECONDS - start)) -le 20
    sleep 1
    check "$how: nobody is left here" eval '! ip netns pids $a | xargs -r -n 1 sh -c "cat /proc/\$0/comm" 2>/dev/null | grep -q darknet'
    check "$how: the state is there" test -s backup/mini_last.state
done
finish
