#!/bin/sh
# Stops the services if the package is removed, and not if it is upgraded: Debian calls this with
# "upgrade", RPM with 1, the number of versions that stay.
set -e
case "${1-}" in
  remove | deconfigure | 0)
    if [ -d /run/systemd/system ]; then
      systemctl --no-reload disable --now postrider.timer postrider-watch.service || true
      systemctl stop postrider.service || true
    fi
    ;;
esac
