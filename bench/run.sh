#!/usr/bin/env bash
# Measures bin/manager on the pinned OpenCode and prints one table; see docs/benchmarks.md. Exits with 1 if a limit is
# missed. Arguments go to the program: `bench/run.sh -only sessions,status`, `bench/run.sh -h`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -x bin/manager ] || { echo "bench: there is no bin/manager: run make build" >&2; exit 1; }
[ -x tools/node_modules/.bin/opencode ] || { echo "bench: OpenCode is not installed: run make tools" >&2; exit 1; }
go build -o bin/bench ./bench
exec bin/bench "$@"
