#!/usr/bin/env bash
# Installs the Debian packages of the clients that crates/serve/tests/clients.rs and the scripts here and in vm/ use.
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends \
    fio libnbd-bin python3-libnbd qemu-utils nbdkit nbdkit-plugin-python \
    e2fsprogs xfsprogs btrfs-progs fuse3 util-linux stress-ng sqlite3
# Of vm/: the machine, and what runs in it.
apt-get install -y --no-install-recommends \
    qemu-system-x86 busybox-static kmod cpio zstd xz-utils nbd-client f2fs-tools
command -v fsx >/dev/null || cargo install fsx
