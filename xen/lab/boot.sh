#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# boot.sh LOG "XEN OPTIONS" "DOM0 OPTIONS": boots scripts/xen.sh's hypervisor with dom0 in QEMU, the serial console in LOG and what
# dom0 emits in LOG.data. Time is counted in instructions: two runs with the same options and files give the same LOG. A machine that
# does not come to its end in time leaves its CPUs' registers in LOG.registers.
# Ends with 3 if the emulator itself failed: a flags register that no CPU can have. That says nothing about what was to be seen; another
# TAKT_QEMU_SEED is another run.
#
# DOM0 OPTIONS name the case (lab.case=churn) and its parameters. From the environment come CPUS (4), SHIFT (2; an instruction takes
# 2^SHIFT ns of one CPU at a time), TAKT_QEMU_SEED (1; the machine's randomness), SECONDS_MAX (600, real time), VARIANT (lab; what
# scripts/xen.sh builds), PLAN (a file, of cases scenario and calls), CALLS (not empty: with what case calls needs) and TAKT (a program,
# of cases calls and tool).
set -eu

log=$1 xen_options=$2 dom0_options=$3
here=$(cd "$(dirname "$0")" && pwd)
cache=${TAKT_CACHE:-$here/../../target/cache}
packages=$("$here/packages.sh" "$cache")
xen=$("$here/../../scripts/xen.sh" "${VARIANT:-lab}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$here/initrd.sh" "$packages" "$xen" "$dir/initrd" ${PLAN:+"$PLAN"}
if [ -n "${CALLS:-}" ]; then
	"$here/calls.sh" "$packages" "$dir/calls"
	cat "$dir/calls" >> "$dir/initrd"
fi
kernel=$(find "$packages/kernel/boot" -name 'vmlinuz-*' | head -n 1)

# Its own libraries, whatever this system has. A CPU with SMAP stops dom0 at once, and one with RDTSCP PVH guests. QEMU's XSAVE and XRSTOR
# do not trap while CR0.TS is set: if the hypervisor switched FPU registers on demand, a Linux that saves its program's would save another
# VCPU's, and programs would die. With eager-fpu, as on Intel's processors, TS is never set. ERMS and FSRM would have memory copied and
# cleared byte by byte, an emulated instruction each; and init_on_alloc=0: a page is not cleared twice.
q=$packages/qemu
loader=$(find "$q/lib64" "$q/usr/lib64" -name 'ld-linux-x86-64.so.2' 2>/dev/null | head -n 1)

# QEMU gives its CPUs turns until a timer of the machine expires, in the order in which they were made. One whose turn begins just as the
# timer expires has none; and if the one before it computes until the timer expires each time, it has none for ever. So there is a CPU
# that is never started before each: to that it may happen. Xen, which numbers them by their IDs, does not use those (maxcpus).
cpus=${CPUS:-4}
processors="-smp 1,maxcpus=$((2 * cpus - 1))"
for n in $(seq $((cpus - 1))); do
	for id in $((cpus - 1 + n)) "$n"; do processors="$processors -device max-x86_64-cpu,socket-id=0,core-id=$id,thread-id=0"; done
done

# Bits 22 to 31 of RFLAGS are 0 on every CPU and no instruction sets them. In QEMU 7.2 they were seen set, and the direction flag with
# them, after which dom0 crashes somewhere. The formats are those of Linux, of Xen and of QEMU's monitor.
impossible='(EFLAGS: |RFLAGS: 0{8}|RFL=)(00[4-9a-f]|0[1-9a-f]|[1-9a-f])'
code=0
export QEMU_MODULE_DIR="$q/usr/lib/x86_64-linux-gnu/qemu"
mkfifo "$dir/monitor.in" "$dir/monitor.out"
cat "$dir/monitor.out" > "$log.registers" &
registers=$!
trap 'kill "$registers" 2> /dev/null || true; rm -rf "$dir"' EXIT
# shellcheck disable=SC2016
timeout --foreground "${SECONDS_MAX:-600}" sh -c '
	monitor=$1
	log=$2
	impossible=$3
	shift 3
	"$@" < /dev/null &
	qemu=$!
	trap "echo info registers -a 1<> $monitor.in; sleep 5; kill $qemu" TERM
	while kill -0 $qemu && sleep 5; do grep -aqE "$impossible" "$log" && kill $qemu; done > /dev/null 2>&1 &
	wait $qemu' sh "$dir/monitor" "$log" "$impossible" \
	"$loader" --library-path "$q/lib/x86_64-linux-gnu:$q/usr/lib/x86_64-linux-gnu" "$q/usr/bin/qemu-system-x86_64" \
	-L "$q/usr/share/qemu" -L "$q/usr/share/seabios" -machine q35 -cpu max,-smap,-rdtscp,-erms,-fsrm $processors -m 4096 -nodefaults \
	-display none -serial "file:$log" -chardev "file,id=data,path=$log.data" -device isa-debugcon,iobase=0xe9,chardev=data \
	-chardev "pipe,id=monitor,path=$dir/monitor" -mon chardev=monitor \
	-device i6300esb -no-reboot -seed "${TAKT_QEMU_SEED:-1}" -rtc base=2024-01-01T00:00:00,clock=vm -icount "shift=${SHIFT:-2},sleep=off" -kernel "$xen/xen" \
	-append "console=com1 com1=115200 loglvl=all guest_loglvl=all dom0_mem=1024M,max:1024M dom0_max_vcpus=1 maxcpus=$cpus spec-ctrl=eager-fpu $xen_options" \
	-initrd "$kernel console=hvc0 quiet init_on_alloc=0 $dom0_options,$dir/initrd" || code=$?
if [ $code = 124 ]; then
	wait "$registers"
	echo "xen lab: not at its end after ${SECONDS_MAX:-600} s; see $log and $log.registers" >&2
	grep -o 'RIP=[0-9a-f]*.*' "$log.registers" >&2 || true
fi
if grep -aqE "$impossible" "$log" "$log.registers"; then
	echo "xen lab: the emulator failed, not what it emulates: $(grep -aohE "$impossible[0-9a-f]*" "$log" "$log.registers" | head -n 1)" >&2
	exit 3
fi
[ $code != 124 ] || exit 1
rm -f "$log.registers"
[ $code = 0 ] || { echo "xen lab: QEMU ended with $code; see $log" >&2; exit 1; }
tr -d '\r' < "$log" | grep -q '] end$' || { echo "xen lab: dom0 did not come to its end; see $log" >&2; exit 1; }
echo "xen lab: dom0 came to its end; the console is in $log" >&2
