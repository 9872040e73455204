# Fedora and others: makes the user and the data directory; starts the service on install, restarts it on upgrade.
systemd-sysusers smartdrive.conf
systemd-tmpfiles --create smartdrive.conf || :
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
	if [ "$1" -ge 2 ]; then
		systemctl try-restart smartdrive.service || :
	fi
fi
if [ "$1" -eq 1 ]; then
	systemctl enable smartdrive.service || :
	[ ! -d /run/systemd/system ] || systemctl start smartdrive.service || :
	echo "SmartDrive: http://127.0.0.1:8320, user admin, password in /var/lib/smartdrive/initial-password."
	echo "Settings, such as other addresses to listen on: /etc/smartdrive/config.yaml."
fi
