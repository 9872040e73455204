#!/bin/sh
# Alpine: enables and starts the service.
chgrp smartdrive /etc/smartdrive/config.yaml
rc-update add smartdrive default
rc-service smartdrive start
exit 0
