# SPDX-License-Identifier: MIT OR Apache-2.0
# Tests of a device that the process drives, run in the virtual machine by `cargo xtask vm --test direct`: LeNet, a lost
# interrupt, a device that hangs, a program that is killed. Arguments: the loadable and an image of a seven.
#
# LeNet has four groups of operations, so it starts the device four times. The model's server loses the first interrupt, lets the
# sixth start hang, which is in the second run, and lets each start take 100 ms, so that a program can be killed in the middle of
# a task.

failed=0
program="nvdla_runtime --device $NVDLA_DEVICE --loadable $1 --image $2 --output /tmp/output"
cd /tmp

# result NAME TEST...: whether the test holds.
result() {
    name=$1
    shift
    if "$@"; then
        echo "test $name ... ok"
    else
        echo "test $name ... FAILED"
        cat /tmp/log
        failed=1
    fi
}

# A run gives the class 7.
classifies() {
    rm -f output
    $program >log 2>&1 && grep -A 1 '^output' log | tail -n 1 | grep -q '^ *7 '
}

loses() {
    classifies && grep -q 'an interrupt did not arrive' log
}

hangs() {
    start=$(date +%s)
    $program --timeout 2000 >log 2>&1
    [ $? = 5 ] && grep -q 'did not end within 2s:' log && [ $(($(date +%s) - start)) -lt 30 ]
}

dies() {
    $program >log 2>&1 &
    sleep 0.4
    kill -9 $!
    wait $!
    [ $? = 137 ] && ! grep -q '^output' log
}

# Interrupts of UIO's line so far. VFIO's are counted only while the device is open.
interrupts() {
    grep uio_pci_generic /proc/interrupts | { read line first second rest; echo $((first + second)); }
}

# A line without a cause would give thousands of interrupts, because QEMU keeps it asserted.
counted() {
    before=$(interrupts)
    classifies
    count=$(($(interrupts) - before))
    echo "interrupts of a run: $count"
    [ $count -gt 0 ] && [ $count -le 20 ]
}

result a_lost_interrupt_delays_a_run loses
result a_device_that_hangs_ends_its_task_alone hangs
result the_next_program_runs_after_a_hang classifies
result a_program_is_killed_in_the_middle_of_a_task dies
result the_next_program_runs_after_a_kill classifies
[ ! -e /dev/uio0 ] || result a_run_takes_a_handful_of_interrupts counted
exit $failed
