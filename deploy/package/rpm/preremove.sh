# Fedora and others: stops the service before it is removed; an upgrade has 1 here.
if [ "$1" -eq 0 ]; then
	systemctl disable smartdrive.service || :
	[ ! -d /run/systemd/system ] || systemctl stop smartdrive.service || :
fi
