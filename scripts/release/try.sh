#!/usr/bin/env bash
# Tries the packages and images of a release as their users would: installs, starts, stores a file, upgrades, removes, purges.
#   try.sh NEW OLD [PART...]
# NEW and OLD are directories that "release" has written, OLD of an earlier version. Parts are deb, rpm, image and arm64; without one,
# all. It needs Linux and root: everything happens in namespaces of its own, on a copy of this machine's root directory that is thrown
# away. What this machine cannot try is skipped with the reason.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [ -z "${TRY_INSIDE:-}" ]; then
	[ "$(id -u)" = 0 ] || { echo "SKIP everything: this needs root"; exit 0; }
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	new=$(cd "$1" && pwd) old=$(cd "$2" && pwd)
	parts=("${@:3}")
	[ ${#parts[@]} -gt 0 ] || parts=(deb rpm image arm64)
	unshare --mount --net --pid --fork --kill-child true || { echo "SKIP everything: no namespaces can be made here"; exit 0; }
	for part in "${parts[@]}"; do
		TRY_INSIDE=$work NEW=$new OLD=$old unshare --mount --net --pid --fork --kill-child --mount-proc "$here/try.sh" "$part"
	done
	exit
fi

work=$TRY_INSIDE
arch=$(uname -m)
case $arch in x86_64) go=amd64 ;; aarch64) go=arm64 ;; *) echo "SKIP $1: not on $arch"; exit 0 ;; esac
python3 - <<'END' # brings the loopback up; iproute2 may be missing
import fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
END

fail() { echo "FAIL: $*" >&2; cat "$work/out" "$work/err" 2>/dev/null | tail -5 >&2; exit 1; }
one() { [ $# -eq 1 ] && [ -e "$1" ] && echo "$1" || fail "not exactly one file: $*"; }
# until COMMAND...: tries it for 60 seconds
until_true() {
	local end=$((SECONDS + 60))
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "for 60 s in vain: $*"
		sleep 0.2
	done
}
version_of() { basename "$(one "$1"/smartdrive_*_linux_"$go".tar.gz)" | sed "s/^smartdrive_//; s/_linux_$go.tar.gz$//"; }
old_version=$(version_of "$OLD") new_version=$(version_of "$NEW")
head -c 3000000 /dev/urandom >"$work/file"

# overlay: a copy of / at $root whose changes stay in memory, with a stand-in for systemctl
overlay() {
	root=$work/root
	mkdir -p "$work/memory" "$root"
	mount -t tmpfs -o size=2g tmpfs "$work/memory"
	mkdir -p "$work/memory/upper" "$work/memory/work"
	mount -t overlay -o "lowerdir=/,upperdir=$work/memory/upper,workdir=$work/memory/work" overlay "$root"
	mount --rbind /dev "$root/dev"
	mount -t proc proc "$root/proc"
	mount -t tmpfs tmpfs "$root/run"
	mount -t tmpfs tmpfs "$root/tmp"
	rm -f "$root/usr/sbin/policy-rc.d"
	sed -i /man-db/d "$root/var/lib/dpkg/triggers/File" 2>/dev/null || true # indexing all manual pages takes minutes
	mkdir -p "$root/run/systemd/system" "$root/run/lock"
	cp "$here/systemctl.sh" "$root/usr/bin/systemctl.new"
	chmod 755 "$root/usr/bin/systemctl.new"
	mv -f "$root/usr/bin/systemctl.new" "$root/usr/bin/systemctl" # also where /bin is /usr/bin
	cp "$work/file" "$root/run/file"
}
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
config=/etc/smartdrive/config.yaml
ready() { inside smartdrive admin ready --config $config; }
alive() { inside smartdrive admin status --config $config | grep -F alive; }
mode_of() { inside stat -c '%a %U:%G' "$1"; }

# lifecycle INSTALL UPGRADE REMOVE PURGE: commands of a package manager; PURGE may be empty
lifecycle() {
	inside $1
	until_true ready
	[ "$(mode_of /var/lib/smartdrive)" = "700 smartdrive:smartdrive" ] || fail "the data directory is $(mode_of /var/lib/smartdrive)"
	[ "$(mode_of $config)" = "640 root:smartdrive" ] || fail "the settings are $(mode_of $config)"
	[ -L "$root/etc/systemd/system/multi-user.target.wants/smartdrive.service" ] || fail "the service is not enabled"
	[[ $(alive) == *"$old_version"* ]] || fail "the instance that runs is not $old_version: $(alive)"
	inside sh -c 'smartdrive login http://127.0.0.1:8320 --user admin --password-stdin </var/lib/smartdrive/initial-password'
	inside smartdrive put /run/file /kept
	echo 'default-quota: 33GiB' >>"$root$config"

	inside $2
	until_true ready
	[[ $(alive) == *"$new_version"* ]] || fail "after the upgrade the instance that runs is not $new_version: $(alive)"
	grep -q '^default-quota: 33GiB' "$root$config" || fail "the upgrade has replaced the settings"
	inside smartdrive get /kept /run/got && cmp "$root/run/file" "$root/run/got"

	inside $3
	! inside sh -c 'kill -0 $(cat /run/smartdrive.pid)' 2>/dev/null || fail "it still runs after it was removed"
	[ ! -e "$root/usr/bin/smartdrive" ] || fail "the program is still there"
	[ -e "$root/var/lib/smartdrive/smartdrive.db" ] || fail "the data are gone"
	if [ -n "$4" ]; then
		[ -e "$root$config" ] || fail "the settings are gone before the purge"
		inside $4
	fi
	[ ! -e "$root$config" ] || fail "the settings are still there"
	[ ! -L "$root/etc/systemd/system/multi-user.target.wants/smartdrive.service" ] || fail "the service is still enabled"

	inside ${2/--force-confold -i/-i}
	until_true ready
	inside smartdrive get /kept /run/again && cmp "$root/run/file" "$root/run/again"
	inside systemctl stop smartdrive.service
	inside setpriv --reuid smartdrive --regid smartdrive --init-groups smartdrive admin fsck --deep --config $config
}

try_deb() {
	command -v dpkg >/dev/null || { echo "SKIP deb: there is no dpkg"; return; }
	local from to
	from=$(one "$OLD"/smartdrive_*_"$go".deb) to=$(one "$NEW"/smartdrive_*_"$go".deb)
	overlay
	cp "$from" "$root/run/old.deb"
	cp "$to" "$root/run/new.deb"
	lifecycle "dpkg -i /run/old.deb" "dpkg --force-confold -i /run/new.deb" "dpkg -r smartdrive" "dpkg -P smartdrive"
	if command -v lintian >/dev/null; then
		lintian --fail-on error --allow-root "$to"
	else
		echo "SKIP lintian: it is not installed"
	fi
	echo "PASS deb: installed, started, upgraded, removed, purged; the data are still there"
}

try_rpm() {
	command -v rpm >/dev/null || { echo "SKIP rpm: there is no rpm"; return; }
	local from to
	from=$(one "$OLD"/smartdrive-*."$arch".rpm) to=$(one "$NEW"/smartdrive-*."$arch".rpm)
	overlay
	cp "$from" "$root/run/old.rpm"
	cp "$to" "$root/run/new.rpm"
	# This machine's packages are no RPMs: what it depends on is not checked.
	lifecycle "rpm -U --nodeps /run/old.rpm" "rpm -U --nodeps /run/new.rpm" "rpm -e smartdrive" ""
	echo "PASS rpm: installed, started, upgraded, removed; the data are still there"
}

# enter_image VOLUME: mounts the image read-only, with the volume (if not empty) and what every container has
enter_image() {
	mount --bind "$work/image" "$work/image"
	mount -o remount,ro,bind "$work/image"
	mount -t proc proc "$work/image/proc"
	mount --rbind /dev "$work/image/dev"
	[ -z "$1" ] || mount --bind "$1" "$work/image/data"
}
# in_image UID ARG...: runs smartdrive in the image as a user, as "docker run --user UID --read-only IMAGE ARG..."
in_image() { env -i $(cat "$work/env") /usr/bin/timeout 60 /usr/sbin/chroot --userspec="$1:$1" "$work/image" /usr/local/bin/smartdrive "${@:2}"; }

# explains VOLUME WORDS: the server does not start on this volume, and says why
explains() {
	enter_image "$1"
	! in_image 12345 serve >"$work/out" 2>"$work/err" || fail "it runs on a volume that it may not write to"
	cat "$work/err"
	grep -q "$2" "$work/err" || fail "it does not say: $2"
	umount -R "$work/image"
}

try_image() {
	mkdir -p "$work/archive" "$work/image"
	tar -xf "$(one "$NEW"/smartdrive_*_image_"$go".docker.tar)" -C "$work/archive"
	python3 - "$work" <<'END'
import json, os, subprocess, sys
work = sys.argv[1]
archive = work + "/archive/"
manifest, = json.load(open(archive + "manifest.json"))
for layer in manifest["Layers"]:
    subprocess.check_call(["tar", "-xzpf", archive + layer, "-C", work + "/image", "--same-owner"])
config = json.load(open(archive + manifest["Config"]))["config"]
assert config["Entrypoint"] + config["Cmd"] == ["smartdrive", "serve"], config
assert config["User"] not in ("", "0", "root"), config
assert config["Healthcheck"]["Test"] == ["CMD", "smartdrive", "admin", "ready"], config
assert "/data" in config["Volumes"] and "8320/tcp" in config["ExposedPorts"], config
open(work + "/env", "w").write("\n".join(config["Env"]))
open(work + "/uid", "w").write(config["User"].split(":")[0])
END
	mkdir -p "$work/image/proc" "$work/image/dev" # as runtimes do
	for uid in "$(cat "$work/uid")" 12345; do
		cp -a "$work/image/data" "$work/volume.$uid" # as Docker fills a new volume
		enter_image "$work/volume.$uid"
		(exec env -i $(cat "$work/env") /usr/sbin/chroot --userspec="$uid:$uid" "$work/image" /usr/local/bin/smartdrive serve >"$work/out" 2>"$work/err") &
		local pid=$!
		until_true in_image "$uid" admin ready
		grep -q '^First user: admin, password: ' "$work/err" || fail "it prints no password"
		export SMARTDRIVE_SERVER=http://127.0.0.1:8320 XDG_CONFIG_HOME=$work/client.$uid
		"$work/image/usr/local/bin/smartdrive" login $SMARTDRIVE_SERVER --user admin --password-stdin <"$work/volume.$uid/smartdrive/initial-password"
		"$work/image/usr/local/bin/smartdrive" put "$work/file" /kept
		kill "$pid" && wait "$pid"
		! in_image "$uid" admin ready 2>/dev/null || fail "the health check passes without a server"
		in_image "$uid" admin fsck --deep
		umount -R "$work/image"
	done
	mkdir -m 755 "$work/forbidden"
	explains "$work/forbidden" 'may not write to /data/smartdrive'
	explains "" 'mounted read-only'

	if command -v umoci >/dev/null; then
		mkdir "$work/oci"
		tar -xf "$(one "$NEW"/smartdrive_*_image.oci.tar)" -C "$work/oci"
		umoci unpack --image "$work/oci:$new_version-$go" "$work/bundle"
		cmp "$work/image/usr/local/bin/smartdrive" "$work/bundle/rootfs/usr/local/bin/smartdrive"
	else
		echo "SKIP umoci: it is not installed"
	fi
	echo "PASS image: serves as two users with a read-only root, and explains volumes that cannot be written"
}

try_arm64() {
	command -v qemu-aarch64-static >/dev/null || { echo "SKIP arm64: there is no qemu-aarch64-static"; return; }
	ls "$NEW"/smartdrive_*_linux_arm64.tar.gz >/dev/null 2>&1 || { echo "SKIP arm64: it was not built"; return; }
	tar -xzf "$NEW"/smartdrive_*_linux_arm64.tar.gz -C "$work"
	local arm="qemu-aarch64-static $work/smartdrive-$new_version/smartdrive"
	export SMARTDRIVE_DATA=$work/arm64 XDG_CONFIG_HOME=$work/client.arm64
	$arm serve >"$work/out" 2>"$work/err" &
	local pid=$!
	until_true $arm admin ready
	$arm login http://127.0.0.1:8320 --user admin --password-stdin <"$work/arm64/initial-password"
	$arm put "$work/file" /kept
	$arm get /kept "$work/got" && cmp "$work/file" "$work/got"
	kill $pid && wait $pid
	$arm admin fsck --deep
	echo "PASS arm64: serves, takes a file and passes fsck under qemu"
}

"try_$1"
