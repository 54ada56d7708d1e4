#!/usr/bin/env bash
# Builds temporal/devserver, minutes of CPU time, and keeps the program in the user's cache, for all clones of this
# repository: under a name that its sources, its go.sum and the Go version make. bin/temporal-devserver is a link to it.
# Returns at once when that was done before. Two runs at the same time are safe.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go=${GO:-go}
case $($go env GOOS) in
darwin) cache=$HOME/Library/Caches ;;
*) cache=${XDG_CACHE_HOME:-$HOME/.cache} ;;
esac
key=$({ $go -C temporal/devserver env GOVERSION GOOS GOARCH && cat temporal/devserver/{go.mod,go.sum,main.go}; } | git hash-object --stdin)
binary=$cache/manager-dev/temporal-devserver-$key

if ! [ -x "$binary" ]; then
  echo 'building the Temporal dev server: once, 4 to 9 minutes on two cores' >&2
  mkdir -p "${binary%/*}" # moved into place as a whole: a build that is cut off leaves nothing under the name
  CGO_ENABLED=0 nice $go -C temporal/devserver build -trimpath -ldflags='-s -w' -o "$binary.$$" .
  mv "$binary.$$" "$binary"
fi
mkdir -p bin
ln -sfn "$binary" bin/temporal-devserver
