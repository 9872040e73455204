#!/bin/sh
# Alpine: restarts the service if it runs.
chgrp smartdrive /etc/smartdrive/config.yaml
rc-service --ifstarted smartdrive restart
exit 0
