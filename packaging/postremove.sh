#!/bin/sh
# Keeps /var/lib/postrider, the user and the secrets, also when the package is purged: without the
# database postrider does not know which messages were forwarded. docs/packages.md says how to
# delete them.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
