# SPDX-License-Identifier: MIT OR Apache-2.0
# The cameras of docs/examples.md, run in the virtual machine of `cargo xtask vm --camera --debian DIR`: DIR has the packages `nvdla` and
# `python3-nvdla`, and in its folder /camera the program, camera.py, centerface.py, the network and a picture with one face.
#
# The kernel's virtual camera shows the picture. The program and the script must find the face, without an access to a frame.

failed=0
root=/debian
cd $root/camera || exit 1

for folder in proc sys dev; do
    mkdir -p $root/$folder
    mount --bind /$folder $root/$folder
done
on() { chroot $root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"; }

# finds NAME LINE COMMAND...: whether the command prints the line, and one face.
finds() {
    name=$1 line=$2
    shift 2
    on "$@" >/tmp/log 2>&1
    cat /tmp/log
    if grep -qx "$line" /tmp/log && [ "$(grep -c '^face 0\.[89]' /tmp/log)" = 1 ]; then
        echo "test $name ... ok"
    else
        echo "test $name ... FAILED"
        failed=1
    fi
}

on /camera/camera /camera/centerface.nvdla show /camera/picture.png /dev/video1 /dev/video0 >/tmp/shown &
until grep -q shown /tmp/shown; do sleep 1; done
finds camera_in_rust 'pages of frames that the processor touched: 0' \
    /camera/camera /camera/centerface.nvdla /dev/video0 20 /tmp/boxes.ppm
finds camera_in_python 'frames that this process can read: 0' \
    python3 /camera/camera.py /camera/centerface.nvdla /dev/video0 10 /tmp/boxes.ppm
exit $failed
