#!/usr/bin/env bash
# Installs the Debian packages of the clients that crates/serve/tests/clients.rs and the scripts beside this one use.
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends \
    fio libnbd-bin python3-libnbd qemu-utils nbdkit nbdkit-plugin-python \
    e2fsprogs xfsprogs btrfs-progs fuse3 util-linux stress-ng sqlite3
command -v fsx >/dev/null || cargo install fsx
