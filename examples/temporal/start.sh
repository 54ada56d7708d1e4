#!/bin/sh
# start worker|gateway [FLAG...]: clones $PROJECT_REMOTE into $HOME/project the first time, and runs manager-temporal there.
set -eu
cd "$HOME"
if [ ! -d project ]; then
    git clone "$PROJECT_REMOTE" project.new
    mv project.new project
fi
cd project
command=$1
shift
exec manager-temporal "$command" --git-remote origin "$@"
