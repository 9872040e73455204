#!/bin/sh
# Debian: makes the user and the data directory, starts the service on install, restarts it on upgrade.
set -e

case "$1" in
configure | abort-upgrade | abort-deconfigure | abort-remove)
	systemd-sysusers smartdrive.conf
	systemd-tmpfiles --create smartdrive.conf || true

	# As debhelper does it: an administrator who has disabled or masked the service finds it so after an upgrade.
	deb-systemd-helper unmask smartdrive.service >/dev/null || true
	if deb-systemd-helper --quiet was-enabled smartdrive.service; then
		deb-systemd-helper enable smartdrive.service >/dev/null || true
	else
		deb-systemd-helper update-state smartdrive.service >/dev/null || true
	fi
	if [ -d /run/systemd/system ]; then
		systemctl --system daemon-reload >/dev/null || true
		action=start
		[ -z "$2" ] || action=restart
		deb-systemd-invoke "$action" smartdrive.service >/dev/null || true
	fi
	if [ -z "$2" ]; then
		echo "SmartDrive: http://127.0.0.1:8320, user admin, password in /var/lib/smartdrive/initial-password."
		echo "Settings, such as other addresses to listen on: /etc/smartdrive/config.yaml."
	fi
	;;
esac
