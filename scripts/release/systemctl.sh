#!/bin/sh
# Stands in for systemctl where try.sh installs packages: runs smartdrive.service as its unit says.
verb='' pid=/run/smartdrive.pid unit=/usr/lib/systemd/system/smartdrive.service wants=/etc/systemd/system/multi-user.target.wants/smartdrive.service
for a; do
	case $a in -*) ;; *) [ -n "$verb" ] || verb=$a ;; esac
done
value() { sed -n "s/^$1=//p" $unit; }
stop() {
	[ -f $pid ] || return 0
	kill "$(cat $pid)" 2>/dev/null
	while kill -0 "$(cat $pid)" 2>/dev/null; do sleep 0.1; done
	rm $pid
}
start() {
	[ ! -f $pid ] || return 0
	user=$(value User)
	# shellcheck disable=SC2046 # words
	setsid setpriv --reuid "$user" --regid "$(value Group)" --init-groups --no-new-privs \
		env -i PATH="$PATH" $(value Environment) $(value ExecStart) </dev/null >>/run/smartdrive.out 2>&1 &
	echo $! >$pid
}
case $verb in
start) start ;;
stop) stop ;;
restart) stop && start ;;
try-restart) [ ! -f $pid ] || { stop && start; } ;;
is-active) [ -f $pid ] ;;
enable | preset) mkdir -p "${wants%/*}" && ln -sf $unit $wants ;;
disable) rm -f $wants ;;
is-enabled) [ -L $wants ] && echo enabled ;;
*) exit 0 ;;
esac
