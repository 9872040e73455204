# Fedora and others: /var/lib/smartdrive and its user stay.
if [ "$1" -eq 0 ]; then
	[ ! -d /run/systemd/system ] || systemctl daemon-reload || :
	[ ! -d /var/lib/smartdrive ] || echo "SmartDrive: the files of users stay in /var/lib/smartdrive."
fi
