#!/bin/sh
# The browser tests drive a Chromium of the system. Install Debian's where none is found; say what to do elsewhere.
set -eu
for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
  [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 && exit 0
done
if ! command -v apt-get >/dev/null 2>&1; then
  echo "No Chromium found. Install chromium (or set CHROMIUM to its path) and Noto CJK fonts, then run make test again." >&2
  exit 1
fi
sudo=""
[ "$(id -u)" -eq 0 ] || sudo="sudo"
echo "Installing Chromium and a Korean font for the browser tests ..."
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq chromium fonts-noto-cjk
