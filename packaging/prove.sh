#!/bin/sh
# Proves the packages in a clean Debian that scripts/package --prove has prepared; it runs there as
# root. one.deb and two.deb are two versions, whose templates of the configuration differ.
set -eu

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
step() { printf '\n-- %s\n' "$*"; }

# is WANT COMMAND...: what it prints
is() {
  want="$1"
  shift
  said="$("$@" 2>&1)" || fail "$* ended with $?: $said"
  [ "$said" = "$want" ] || fail "$* printed \"$said\", want \"$want\""
}
postrider_user() { setpriv --reuid postrider --regid postrider --clear-groups "$@"; }

# data_is_there: what the administrator and postrider wrote
data_is_there() {
  is "the database" cat /var/lib/postrider/kept
  is "600 postrider postrider" stat -c "%a %U %G" /var/lib/postrider/postrider.db
  is "600 postrider postrider" stat -c "%a %U %G" /etc/postrider/smtp-password
}
configuration_is_there() {
  grep -q "host: relay.firm.example" /etc/postrider/postrider.yaml || fail "the configuration was replaced"
  is "640 root postrider" stat -c "%a %U %G" /etc/postrider/postrider.yaml
}

step "install"
dpkg -i one.deb
is "640 root postrider" stat -c "%a %U %G" /etc/postrider/postrider.yaml
is "750 root postrider" stat -c "%a %U %G" /etc/postrider
is "700 postrider postrider" stat -c "%a %U %G" /var/lib/postrider
is "/etc/postrider/postrider.yaml" sh -c "dpkg-query -f '\${Conffiles}' -W postrider | awk '{print \$1}' | grep ."
is "" dpkg --verify postrider
postrider version | grep -q "^postrider 0.0.1 " || fail "postrider version: $(postrider version)"

step "demo"
postrider demo

step "manual pages"
# man says with a warning what it does not understand
is "" sh -c "for page in /usr/share/man/man1/postrider*; do man --warnings=all -l \$page 2>&1 >/dev/null; done"
man postrider-inbox-add | head -n 8

step "units"
units="postrider.service postrider-watch.service"
is "" systemd-analyze verify --man=no postrider.timer $units
for unit in $units; do
  # 20 is an exposure of 2.0
  security="$(systemd-analyze security --offline=yes --threshold=20 --no-pager "/usr/lib/systemd/system/$unit")" ||
    fail "the exposure of $unit is above 2.0: $security"
  echo "$security" | tail -n 1
done

step "the template, as the user postrider"
install -o postrider -g postrider -m 600 /dev/null /etc/postrider/smtp-password
echo "secret" >/etc/postrider/smtp-password
# from a directory that this user may not enter, as after sudo -u
chmod 700 /root
(cd /root && postrider_user postrider migrate)
postrider_user sh -c "echo 'the database' >/var/lib/postrider/kept"
data_is_there

step "upgrade, with a configuration that was changed"
sed -i "s/smtp.example.com/relay.firm.example/" /etc/postrider/postrider.yaml
dpkg --force-confdef --force-confold -i two.deb
postrider version | grep -q "^postrider 0.0.2 " || fail "postrider version: $(postrider version)"
configuration_is_there
data_is_there

step "remove"
dpkg -r postrider
[ ! -e /usr/bin/postrider ] || fail "the binary is still there"
configuration_is_there
data_is_there

step "install again, and purge"
dpkg --force-confdef --force-confold -i two.deb
configuration_is_there
dpkg -P postrider
[ ! -e /etc/postrider/postrider.yaml ] || fail "the configuration is still there"
data_is_there

for rpm in *.rpm; do
  step "$rpm"
  rpm -qp --scripts --list --nosignature "$rpm"
  is "/etc/postrider/postrider.yaml" rpm -qp --configfiles "$rpm"
done
echo "all proved"
