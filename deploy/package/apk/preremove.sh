#!/bin/sh
# Alpine: stops the service. /var/lib/smartdrive and its user stay.
rc-service --ifstarted smartdrive stop
rc-update del smartdrive default
exit 0
