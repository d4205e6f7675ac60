#!/usr/bin/env bash
# Sees to it that there is a Chromium for the tests of the review page; prints nothing where there is.
set -euo pipefail

for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null; then
        exit 0
    fi
done

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "no Chromium on the PATH, and it cannot be installed from here: install one, on Debian or" >&2
    echo "Ubuntu with 'sudo apt-get install --no-install-recommends chromium', then try again" >&2
    exit 1
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# With one font: without any, text has no width and nothing on a page is where it should be.
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
