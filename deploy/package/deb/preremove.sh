#!/bin/sh
# Debian: stops the service before it is removed.
set -e

if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	deb-systemd-invoke stop smartdrive.service >/dev/null || true
fi
