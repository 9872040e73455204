#!/bin/sh
# Debian: removes what says that the service was enabled. dpkg removes the settings on purge. /var/lib/smartdrive and
# its user stay: whether people's files are deleted is never for a package manager to decide.
set -e

case "$1" in
remove)
	if [ -d /run/systemd/system ]; then
		systemctl --system daemon-reload >/dev/null || true
	fi
	if command -v deb-systemd-helper >/dev/null; then
		deb-systemd-helper mask smartdrive.service >/dev/null || true
	fi
	;;
purge)
	if command -v deb-systemd-helper >/dev/null; then
		deb-systemd-helper purge smartdrive.service >/dev/null || true
		deb-systemd-helper unmask smartdrive.service >/dev/null || true
	fi
	if [ -d /var/lib/smartdrive ]; then
		echo "SmartDrive: the files of users stay in /var/lib/smartdrive."
	fi
	;;
esac
