#!/bin/sh
# Alpine: makes the user.
addgroup -S smartdrive 2>/dev/null
adduser -S -D -H -h /var/lib/smartdrive -s /sbin/nologin -G smartdrive -g SmartDrive smartdrive 2>/dev/null
exit 0
