#!/usr/bin/env bash
# Install Debian's Chromium and Firefox, which the tests of the page drive. Does nothing where both are there.
set -euo pipefail

missing=()
command -v chromium > /dev/null || missing+=(chromium)
command -v firefox-esr > /dev/null || missing+=(firefox-esr)
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get > /dev/null; then
    echo "install_browser.sh: install ${missing[*]} by hand; this system has no apt-get" >&2
    exit 1
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update --quiet --quiet
# Fonts too: without any, text has no width.
"${as_root[@]}" apt-get install --quiet --quiet --yes --no-install-recommends "${missing[@]}" fonts-dejavu-core
