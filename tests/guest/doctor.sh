# SPDX-License-Identifier: MIT OR Apache-2.0
# `nvdla doctor` on a device with a fault, run in the virtual machine by `cargo xtask vm --test doctor`. Arguments: the fault's name, the
# exit status that the command must have, a text that it must print, and its options.

name=$1 status=$2 text=$3
shift 3
nvdla doctor --device "$NVDLA_DEVICE" "$@" >/tmp/log 2>&1
ended=$?
if [ $ended = $status ] && grep -qF "$text" /tmp/log; then
    echo "test $name ... ok"
    exit 0
fi
echo "test $name ... FAILED: status $ended, and \"$text\" is expected"
cat /tmp/log
exit 1
