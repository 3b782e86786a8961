#!/usr/bin/env bash
# The kernel's own nbd client (recipe A13), in a virtual machine with a stock Debian kernel: what the device offers, fio with
# verification, discard; then ext4, XFS, btrfs and F2FS, each created, loaded, trimmed and checked, and each cut off under load by
# SIGKILL of the server, with the hash of every file that was acknowledged compared afterwards. About six minutes a design on an idle machine.
# Needs the packages of ../install.sh and 110 MB from Debian: WEARWELL=target/release/wearwell examples/live/vm/kernel_nbd.sh [design...]
# KILLS is how often each file system is cut off, FILESYSTEMS="ext4 xfs btrfs f2fs" chooses. LIAR=1 puts the image of the
# first kill in place after the others: the script must then fail.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/vm.sh"
require nbd-client fio blkdiscard stress-ng mkfs.ext4 mkfs.xfs mkfs.btrfs mkfs.f2fs e2fsck xfs_repair btrfs fsck.f2fs fstrim
DESIGNS=("$@")
[ $# -gt 0 ] || DESIGNS=(page-map remap integrated)
VM_SECONDS=${VM_SECONDS:-$((1800 * ${#DESIGNS[@]}))}
mkdir -p "$SHARE"
cp "$HERE/device.sh" "$SHARE/"
vm_run "$HERE/kernel_nbd_job.sh" "${KILLS:-2}" "${FILESYSTEMS:-ext4 xfs btrfs f2fs}" "${LIAR:-}" "${DESIGNS[@]}"
