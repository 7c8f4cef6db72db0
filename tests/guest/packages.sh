# SPDX-License-Identifier: MIT OR Apache-2.0
# The package `nvdla` on a Debian in the virtual machine, run by `tools/xtask/package/machine`, which has installed it.
#
# A user who is in the group `nvdla` runs a network on the device, and one who is not is refused. With UIO root runs it, and the member is
# refused, because who may open a UIO node can make the device write any memory.

failed=0
root=/debian

# result NAME TEST...: whether the test holds.
result() {
    name=$1
    shift
    if "$@" >/tmp/log 2>&1; then
        echo "test $name ... ok"
    else
        echo "test $name ... FAILED"
        cat /tmp/log
        failed=1
    fi
}

# udevadm does nothing in a chroot unless it is told that this is the whole system.
on() { chroot $root /usr/bin/env -i SYSTEMD_IGNORE_CHROOT=1 PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"; }
as() {
    user=$1
    shift
    on setpriv --reuid "$user" --regid "$user" --init-groups "$@"
}

for folder in proc sys dev; do
    mkdir -p $root/$folder
    mount --bind /$folder $root/$folder
done
mount -t tmpfs run $root/run

# The rules give the node to the group, and a name to it. udevd needs inotify and signalfd, which the module's kernel has not: there udevadm
# tells what the rules say, and this script does it.
has_rules() {
    if [ $kind != render ]; then
        on /usr/lib/systemd/systemd-udevd --daemon || return
        on udevadm trigger --action=add && on udevadm settle --timeout=120 || return
    fi
    if [ $kind = uio ]; then
        ls -l $root/dev/uio0
        [ "$(on stat -L -c '%U %a' /dev/uio0)" = 'root 600' ]
        return
    fi
    if [ $kind = vfio ]; then
        ls -l $root/dev/nvdla/by-path/*-vfio || return
        node=$(readlink -f $root/dev/nvdla/by-path/*-vfio | sed "s,^$root,,")
    else
        node=$device
        on udevadm test --action=add "/sys/class/drm/${node##*/}" >/tmp/rules 2>&1
        cat /tmp/rules
        for line in '/dev/nvdla/by-path/pci-.*-render' 'nvdla (gid=[0-9]*)' 0660; do
            grep -qx "  $line" /tmp/rules || return
        done
        on chgrp nvdla "$node" && on chmod 660 "$node" || return
    fi
    [ "$(on stat -L -c '%G %a' "$node")" = 'nvdla 660' ]
}

examples=/usr/share/doc/nvdla/examples
runs() {
    as "$1" nvdla run --device $device --loadable $examples/lenet.$config.nvdla --image $examples/seven.pgm
}
classifies() {
    runs $owner >/tmp/output
    status=$?
    cat /tmp/output
    [ $status = 0 ] && grep -A 1 '^output' /tmp/output | tail -n 1 | grep -q '^ *7 '
}
refuses() {
    runs $refused >/tmp/refused 2>&1 && return 1
    cat /tmp/refused
    grep -qi 'permission denied' /tmp/refused
}
examines() { as $owner nvdla doctor --device $device --config $config; }
lists() { as $owner nvdla list; }

config=nv_small owner=member refused=other
case $NVDLA_DEVICE in
    vfio:*) kind=vfio device=$NVDLA_DEVICE ;;
    uio:*) kind=uio device=$NVDLA_DEVICE owner=root refused=member ;;
    *) kind=render device=/dev/dri/renderD128 ;;
esac
result the_rules_decide_who_has_the_device has_rules
result ${owner}_runs_a_network classifies
result ${owner}_examines_the_device examines
result ${owner}_lists_devices lists
result ${refused}_is_refused refuses
exit $failed
