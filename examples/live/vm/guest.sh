# Runs the job of vm.sh in the machine, says its status and turns the power off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
cd /tmp || exit
busybox ip link set lo up
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mapfile -t arguments </tmp/host/arguments
bash /tmp/host/job.sh "${arguments[@]}" </dev/null
echo $? >/tmp/host/status
sync
echo o >/proc/sysrq-trigger
sleep 60
