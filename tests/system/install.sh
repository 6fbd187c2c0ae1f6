#!/usr/bin/env bash
# Installs the Debian packages that the system tests need. Quick when all are there; starts and enables no service.
set -euo pipefail

packages=(postgresql-15 pgbouncer openssl redis-server chromium curl nginx-light prometheus)
# Debian's npm conflicts with the nodejs of other repositories, which brings its own.
command -v npm >/dev/null || packages+=(npm)
policy=/usr/sbin/policy-rc.d

missing=()
for package in "${packages[@]}"; do
    # Asked of dpkg itself: a package that was removed but not purged does not count.
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ $status == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

refuse() {
    echo "The system tests need these Debian packages: ${missing[*]}" >&2
    echo "$1" >&2
    exit 1
}
command -v apt-get >/dev/null ||
    refuse "This is no Debian system: install PostgreSQL 15, PgBouncer 1.18, OpenSSL, Redis 7, Chromium, curl, nginx, Prometheus and npm where Debian has them."
((EUID == 0)) || refuse "Run as root: apt-get install ${missing[*]}"

# While this policy stands, maintainer scripts start nothing. What was there before is put back, whatever happens.
saved=$(mktemp -d)
restore() {
    rm -f "$policy"
    if [[ -e $saved/policy ]]; then mv "$saved/policy" "$policy"; fi
    rm -rf "$saved"
}
trap restore EXIT
if [[ -e $policy ]]; then mv "$policy" "$saved/policy"; fi
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

# A service that somebody already uses stays as it is; one that comes with a new package is not started at boot.
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet --quiet
apt-get install --quiet --quiet --yes --no-install-recommends "${missing[@]}"
for service in postgresql pgbouncer redis-server nginx prometheus; do
    for package in "${missing[@]}"; do
        if [[ $package == "$service"* ]]; then systemctl --quiet disable "$service" 2>/dev/null || true; fi
    done
done
