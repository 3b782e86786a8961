#!/bin/busybox sh
# First process of the virtual machine (vm.sh): mounts the host's root and hands over to guest.sh.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do insmod "/modules/$module"; done </modules/order
options=$(sed -n 's/.*wearwell\.mount=\([^ ]*\).*/\1/p' /proc/cmdline)
mount -t 9p -o "$options,ro,cache=loose" host /host
mount -t tmpfs tmpfs /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work overlay /new
for folder in proc sys dev; do mount --move "/$folder" "/new/$folder"; done
mount -t tmpfs -o size=90% tmpfs /new/tmp
mount -t tmpfs tmpfs /new/run
mkdir -p /new/tmp/host /new/lib/modules
mount -t 9p -o "$options" share /new/tmp/host
mount -t 9p -o "$options,ro,cache=loose" modules /new/lib/modules
exec switch_root /new /bin/bash /tmp/host/guest.sh
