# What the scripts here share: a virtual machine with a stock Debian kernel, for what the host's kernel may lack (nbd, F2FS).
#
# Nothing is installed in it: its root is the host's, read-only over 9p under a tmpfs, so that every program of the host is there,
# and ours. It has no network and needs no KVM. qemu emulates the processor, which makes it slow (boot 15-30 s) and the same everywhere.
#   vm_run SCRIPT [argument...]      runs the script in the machine; its exit status is that of vm_run
# The script finds `wearwell` and what else lies in $SHARE under /tmp/host, where it may write too; modprobe works.
#
# VM_CACHE keeps the kernel, 110 MB that are downloaded once from Debian. VM_KERNEL is a package of another kernel, VM_MEMORY_MIB and
# VM_SECONDS are limits. VM_ACCEL=kvm is faster where KVM works.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$HERE/../common.sh"
VM_CACHE=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wearwell-vm}
SHARE=$WORK/share
MACHINE=
require qemu-system-x86_64 busybox depmod modprobe cpio zstd xz apt-get dpkg-deb "$WEARWELL"

# The kernel and its modules, from Debian's package.
vm_kernel() {
    KERNEL=$VM_CACHE/kernel
    if [ ! -e "$KERNEL/complete" ]; then
        local package=${VM_KERNEL:-$(apt-cache depends linux-image-6.12-amd64 2>/dev/null | sed -n 's/.*Depends: //p' | head -1)}
        [ -n "$package" ] || package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -1)
        [ -n "$package" ] || { echo "$0: no kernel is known to apt: run apt-get update, or name a package in VM_KERNEL" >&2; exit 1; }
        echo "downloading $package into $VM_CACHE"
        rm -rf "$KERNEL" && mkdir -p "$KERNEL"
        (cd "$KERNEL" && apt-get download -qq -o APT::Sandbox::User=root "$package" && dpkg-deb -x "$package"_*.deb . && rm -- *.deb) ||
            { echo "$0: $package could not be downloaded" >&2; exit 1; }
        # Where /lib is a link in newer packages.
        [ -d "$KERNEL/lib/modules" ] || { mkdir -p "$KERNEL/lib" && mv "$KERNEL/usr/lib/modules" "$KERNEL/lib/"; }
        depmod -b "$KERNEL" "$(ls "$KERNEL/lib/modules")"
        touch "$KERNEL/complete"
    fi
    KERNEL_VERSION=$(ls "$KERNEL/lib/modules")
}

# Just enough to mount the host's root.
vm_initramfs() {
    local root=$WORK/initramfs module
    mkdir -p "$root"/{bin,modules,proc,sys,dev,host,rw,new}
    cp "$(command -v busybox)" "$root/bin/busybox"
    for module in virtio_pci 9pnet_virtio 9p overlay; do
        modprobe -d "$KERNEL" -S "$KERNEL_VERSION" --show-depends "$module"
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r module; do
        case $module in
        *.xz) xz -dc "$module" >"$root/modules/$(basename "${module%.xz}")" ;;
        *.zst) zstd -qdc "$module" >"$root/modules/$(basename "${module%.zst}")" ;;
        *) cp "$module" "$root/modules/" ;;
        esac
        basename "$module" | sed 's/\.\(xz\|zst\)$//' >>"$root/modules/order"
    done
    cp "$HERE/init.sh" "$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet | zstd -q -9) >"$WORK/initrd.img"
}

vm_run() { # script, arguments
    local options=trans=virtio,version=9p2000.L,msize=512000
    vm_kernel
    vm_initramfs
    mkdir -p "$SHARE"
    cp "$(command -v "$WEARWELL")" "$SHARE/wearwell"
    cp "$1" "$SHARE/job.sh"
    cp "$HERE/guest.sh" "$SHARE/"
    printf '%s\n' "${@:2}" >"$SHARE/arguments"
    rm -f "$SHARE/status"
    timeout "${VM_SECONDS:-1500}" qemu-system-x86_64 -accel "${VM_ACCEL:-tcg,thread=multi,tb-size=512}" -cpu max -smp 2 -m "${VM_MEMORY_MIB:-3072}" \
        -nodefaults -no-user-config -display none -no-reboot -serial stdio \
        -kernel "$(ls "$KERNEL"/boot/vmlinuz-*)" -initrd "$WORK/initrd.img" \
        -append "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off wearwell.mount=$options" \
        -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
        -virtfs "local,path=$KERNEL/lib/modules,mount_tag=modules,security_model=none,readonly=on" \
        -virtfs "local,path=$SHARE,mount_tag=share,security_model=none" </dev/null > >(sed -u 's/\r//g') 2>&1 &
    MACHINE=$!
    wait "$MACHINE" || true
    MACHINE=
    [ -e "$SHARE/status" ] || { echo "$0: the machine ended without a result (VM_SECONDS=${VM_SECONDS:-1500})" >&2; return 1; }
    return "$(cat "$SHARE/status")"
}
