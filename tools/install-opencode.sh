#!/usr/bin/env bash
# Installs the OpenCode release pinned in package.json under tools/node_modules and checks that it runs.
# Returns at once if that is done. Concurrent runs are safe: the second waits for the first.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"

fail() {
  printf 'install-opencode: %s\n' "$@" >&2
  exit 1
}

binary=$PWD/node_modules/.bin/opencode
# Inside node_modules, so that it goes with the directory.
stamp=node_modules/.installed-from-lock

# The stamp is a copy of the lock file: after a changed pin or an aborted install, this installs again.
installed() {
  [ -x "$binary" ] && cmp -s package-lock.json "$stamp"
}

installed && exit 0

for tool in node npm; do
  command -v "$tool" >/dev/null || fail "$tool is not on PATH; OpenCode comes as an npm package." \
    'Install Node.js 20 or later, then run this again.'
done

# A kernel lock ends with its holder, even a killed one. macOS has Perl instead of flock(1).
exec 9>.install.lock
flock 9 2>/dev/null || perl -MFcntl=:flock -e 'open(F, ">&=", 9) && flock(F, LOCK_EX) or die "$!\n"' ||
  fail 'cannot lock tools/.install.lock (neither flock nor perl works).'
installed && exit 0

# OpenCode creates its state directories even for --version. Keep them out of the user's home.
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
isolated() {
  env HOME="$home" XDG_DATA_HOME="$home/data" XDG_CONFIG_HOME="$home/config" XDG_STATE_HOME="$home/state" \
    XDG_CACHE_HOME="$home/cache" OPENCODE_DISABLE_AUTOUPDATE=1 "$@"
}

# Whether npm runs install scripts depends on its version and the user's settings (ignore-scripts, allowScripts). So npm
# runs none, and we run the one that puts the binary for this CPU in place. Its fallback, a download of another package,
# is off: npm ci has installed all that is needed.
# npm ci insists that the lock names the packages of all platforms. Only those for Linux on x64 carry a checksum; the
# others are pinned by version alone.
npm ci --ignore-scripts --include=optional --no-audit --no-fund --loglevel=error ||
  fail 'npm ci failed (see above). Check that the npm registry can be reached, then run this again.'
isolated npm_config_offline=true node node_modules/opencode-ai/postinstall.mjs ||
  fail 'OpenCode has no binary for this machine. Supported: Linux and macOS, x64 and arm64.'

want=$(node -p 'require("./package.json").dependencies["opencode-ai"]')
got=$(isolated "$binary" --version) || fail "$binary does not run on this machine."
[ "$got" = "$want" ] || fail "$binary is version $got, but tools/package.json pins $want."

cp package-lock.json "$stamp"
