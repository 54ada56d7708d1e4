#!/bin/sh
# start worker|gateway [FLAG...]: clones $PROJECT_REMOTE into $HOME/project the first time, and runs manager-temporal there.
set -eu
if [ $# = 0 ] || [ -z "${PROJECT_REMOTE:-}" ]; then
    echo "start worker|gateway [FLAG...], with PROJECT_REMOTE in the environment" >&2
    exit 2
fi
cd "$HOME"
if [ ! -d project ]; then
    rm -rf project.new
    git clone "$PROJECT_REMOTE" project.new
    mv project.new project
fi
cd project
command=$1
shift
exec manager-temporal "$command" --git-remote origin "$@"
