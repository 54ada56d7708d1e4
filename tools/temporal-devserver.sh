#!/usr/bin/env bash
# Builds temporal/devserver (minutes of CPU time) into the user's cache, shared by all clones of this repository, under a
# name with the hash of its sources and the Go version. bin/temporal-devserver links to it.
# Returns at once if the binary exists. Concurrent runs are safe.
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
  mkdir -p "${binary%/*}" # the final mv is atomic: an aborted build leaves nothing under this name
  CGO_ENABLED=0 nice $go -C temporal/devserver build -trimpath -ldflags='-s -w' -o "$binary.$$" .
  mv "$binary.$$" "$binary"
fi
mkdir -p bin
ln -sfn "$binary" bin/temporal-devserver
