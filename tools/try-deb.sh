#!/usr/bin/env bash
# Installs this architecture's package from dist/ in a throw-away Debian, tries it, and removes it.
# Argument: the Debian release; defaults to this machine's. Needs root and mmdebstrap.
set -euo pipefail
cd "$(dirname "$0")/.."
deb=$(ls dist/manager_*_linux_"$(dpkg --print-architecture)".deb)
. /etc/os-release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$deb" "$work/manager.deb"
cat >"$work/try" <<'END'
set -eu
cd "$(mktemp -d)"
# Lists all files but those that dpkg, mandb and this script write.
files() { find / -xdev ! -path '/var/lib/dpkg/*' ! -path '/var/cache/man/*' ! -path '/var/log/*' ! -path "$PWD/*" | sort; }
files >before
dpkg -i /manager.deb
manager version
MANWIDTH=80 man manager >page
grep -q '^EXIT STATUS' page && grep -q '^FILES' page
man manager-blockers-answer | head -4
bash -nx /usr/share/bash-completion/completions/manager
test -s /usr/share/zsh/vendor-completions/_manager -a -s /usr/share/fish/vendor_completions.d/manager.fish
code=0
manager doctor >doctor 2>&1 || code=$?
test "$code" = 1 && grep '^✗ opencode' doctor
dpkg -r manager
files >after
diff before after
echo "try-deb: all is well, and nothing is left"
END
mmdebstrap --quiet --variant=minbase --include=man-db --format=null \
	--customize-hook="copy-in $work/manager.deb $work/try /" \
	--customize-hook='chroot "$1" sh /try' "${1:-$VERSION_CODENAME}" /dev/null
