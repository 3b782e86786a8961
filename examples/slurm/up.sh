#!/usr/bin/env bash
# A Slurm of one machine, for trying out and for tests: installs slurm-wlm and munge (Debian, as root), writes /etc/slurm/slurm.conf and
# starts the three daemons. Run again, it starts those that are not running. `down` as argument ends them.
set -euo pipefail

conf=/etc/slurm/slurm.conf
mark="# One machine; made by wearwell's examples/slurm/up.sh."
state=/var/lib/wearwell-slurm

if [[ ${1-} == down ]]; then
    for daemon in slurmd slurmctld; do kill "$(cat "/run/$daemon.pid" 2>/dev/null)" 2>/dev/null || true; done
    exit 0
fi
[[ $EUID == 0 ]] || { echo "slurm: this sets up system daemons, so it needs root" >&2; exit 1; }
if [[ -e $conf ]] && ! grep -qF "$mark" "$conf"; then
    echo "slurm: $conf belongs to another set-up; it is left alone" >&2
    exit 1
fi
if ! command -v slurmctld slurmd munged sbatch >/dev/null; then
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends slurm-wlm munge
fi

host=$(hostname -s)
mkdir -p /etc/slurm "$state/ctld" "$state/d"
cat >"$conf" <<END
$mark
ClusterName=wearwell
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$state/ctld
SlurmdSpoolDir=$state/d
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$state/slurmctld.log
SlurmdLogFile=$state/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
MinJobAge=10
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$(($(awk '/MemTotal/ { print $2 }' /proc/meminfo) / 1024 * 9 / 10))
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
END

if [[ ! -e /etc/munge/munge.key ]]; then
    (umask 077 && head -c 1024 /dev/urandom >/etc/munge/munge.key)
    chown munge: /etc/munge/munge.key
fi
mkdir -p /run/munge && chown munge: /run/munge
pgrep -x munged >/dev/null || runuser -u munge -- /usr/sbin/munged
pgrep -x slurmctld >/dev/null || slurmctld
pgrep -x slurmd >/dev/null || slurmd

for _ in $(seq 60); do
    # A node is `completing` for a minute if a job ended while the controller was away; it is up.
    if [[ $(sinfo --noheader --format=%T 2>/dev/null) == @(idle|mixed|allocated|completing) ]]; then
        sinfo
        exit 0
    fi
    sleep 0.5
done
echo "slurm: the node is not ready after 30 s; see $state/slurmctld.log and $state/slurmd.log" >&2
exit 1
