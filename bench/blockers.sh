#!/usr/bin/env bash
# Measures the commands about blockers (SC-005, SC-006) at 50 and at 1,000 of them against `manager version` in the same
# run. Arguments go to the program, see run.sh.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" -only blockers "$@"
