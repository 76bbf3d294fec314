#!/bin/sh
# Makes the user that postrider runs as, before its files are unpacked.
set -e
if ! getent group postrider >/dev/null; then
  groupadd --system postrider
fi
if ! getent passwd postrider >/dev/null; then
  useradd --system --gid postrider --home-dir /var/lib/postrider --no-create-home \
    --shell /usr/sbin/nologin --comment "postrider" postrider
fi
