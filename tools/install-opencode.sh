#!/usr/bin/env bash
# Installs the OpenCode release pinned in package.json under tools/node_modules and proves that it runs.
# Returns at once when that was done before. Two runs at the same time are safe: the second waits for the first.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"

fail() {
  printf 'install-opencode: %s\n' "$@" >&2
  exit 1
}

binary=$PWD/node_modules/.bin/opencode
# Inside node_modules, so that removing or replacing that directory also removes the claim that it works.
stamp=node_modules/.installed-from-lock

# The stamp is a copy of the lock file: a changed pin, or an install that was cut off, is installed again.
installed() {
  [ -x "$binary" ] && cmp -s package-lock.json "$stamp"
}

installed && exit 0

for tool in node npm; do
  command -v "$tool" >/dev/null || fail "$tool is not on PATH; OpenCode comes as an npm package." \
    'Install Node.js 20 or later, then run this again.'
done

# A kernel lock goes away with its holder, even with a killed one. macOS has no flock(1), but it has Perl.
exec 9>.install.lock
flock 9 2>/dev/null || perl -MFcntl=:flock -e 'open(F, ">&=", 9) && flock(F, LOCK_EX) or die "$!\n"' ||
  fail 'cannot lock tools/.install.lock (neither flock nor perl works).'
installed && exit 0

# OpenCode creates its state directories even for --version: keep them out of the user's home.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
isolated() {
  env HOME="$home" XDG_DATA_HOME="$home/data" XDG_CONFIG_HOME="$home/config" XDG_STATE_HOME="$home/state" \
    XDG_CACHE_HOME="$home/cache" OPENCODE_DISABLE_AUTOUPDATE=1 "$@"
}

# Whether npm runs install scripts depends on its version and the user's settings (ignore-scripts, allowScripts).
# So it never does here, and the one script that matters, which puts the binary for this CPU in place, is run by us.
# The script's fallback of downloading another package is switched off: npm ci has brought all that is needed.
# The lock names the packages of all platforms, which npm ci insists on; only those for Linux on x64 carry a checksum,
# the others are pinned by version alone.
npm ci --ignore-scripts --include=optional --no-audit --no-fund --loglevel=error ||
  fail 'npm ci failed (see above). Check that the npm registry can be reached, then run this again.'
isolated npm_config_offline=true node node_modules/opencode-ai/postinstall.mjs ||
  fail 'OpenCode has no binary for this machine. Supported: Linux and macOS, x64 and arm64.'

want=$(node -p 'require("./package.json").dependencies["opencode-ai"]')
got=$(isolated "$binary" --version) || fail "$binary does not run on this machine."
[ "$got" = "$want" ] || fail "$binary is version $got, but tools/package.json pins $want."

cp package-lock.json "$stamp"
