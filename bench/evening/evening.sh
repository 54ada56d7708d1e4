#!/usr/bin/env bash
# An evening with manager, from the clone to a landed result and what is left of it. Called by main.go: REPOSITORY ROOT SCREENS.
# Each screen is a file in SCREENS, in order. A step that does not come to its words in time ends it with the screen so far.
set -eu -o pipefail
repository=$1 root=$2 screens=$3
for tool in tmux chromium; do
  command -v $tool >/dev/null || { echo "evening: $tool is needed" >&2; exit 1; }
done
rm -rf "$screens"
mkdir -p "$screens" "$root/greeter"
mux() { tmux -L "evening$$" "$@"; }
trap 'mux kill-server 2>/dev/null || true' EXIT
mux -f /dev/null new-session -d -s e -x 120 -y 40 -c "$root/greeter" "PS1='\$ ' bash --norc --noprofile"

n=0
screen() { # NAME
  n=$((n + 1))
  mux capture-pane -p -t e -S -400 >"$screens/$(printf %02d $n)-$1.txt"
  echo "$(date +%T) $1"
}
until_says() { # PATTERN
  for ((i = 0; i < 600; i++)); do
    if mux capture-pane -p -t e | grep -qE "$1"; then return; fi
    sleep 0.3
  done
  screen "stuck"
  echo "evening: the terminal does not say: $1" >&2
  exit 1
}
typed() { mux send-keys -t e "$@"; }
# step NAME COMMAND: runs a command to its end, and keeps the screen.
step() {
  mux send-keys -t e "clear" Enter
  mux clear-history -t e
  typed "$2; echo \"[exit \$?]\"" Enter
  until_says '^\[exit [0-9]+\]'
  screen "$1"
}

# The clone and the demo: the time to the first success.
git clone --quiet "$repository" "$root/clone"
cp -rL "$repository/tools/node_modules" "$root/clone/tools/"
began=$(date +%s)
(cd "$root/clone" && HOME=$CLONE_HOME make demo) >"$screens/00-demo.txt" 2>&1
echo "time to first success, with OpenCode installed: $(($(date +%s) - began)) s" | tee "$screens/time.txt"

# A project as projects are: ignored files that it needs, dependencies, a hook that fails; later also a submodule.
cd "$root/greeter"
cp -r "$repository/cmd/internal/cli/demo/project/." .
git init --quiet --initial-branch=main
git config user.name Evening && git config user.email evening@example.com
mkdir -p node_modules/left-pad && echo '{}' >node_modules/left-pad/package.json && echo "PORT=1" >.env
printf 'node_modules/\n.env\n' >.gitignore
git add --all && git commit --quiet --message Start
printf '#!/bin/sh\nexit 1\n' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit

step doctor "manager doctor"
step plan "manager plan 'Add a greeting and a farewell to the greeter, each in a file of its own, and a command that uses both. Show in EXAMPLE.md what it prints.'"
step edit "sed -i 's/priority: high/priority: medium/; s/^task: /task: /' .manager/plan.yaml && manager validate && manager graph"

typed "clear; manager run --blockers; echo \"[exit \$?]\"" Enter
until_says 'Run this plan\?'
screen preview
typed "yes" Enter
until_says 'Writing the (greeting|farewell)'
screen run
typed C-c
until_says '^\[exit [0-9]+\]'
screen interrupted
step resume "manager resume --yes"
step question "manager blockers"
step answer "manager blockers answer B1 'With Goodbye: it is a formal program.'"
step resumed "manager resume --yes"
step why "manager show --why command"
step report "manager report"

# The same in a browser: the page of the boulder as a file, since the live one never ends to load, which a picture waits for.
step page "manager report -o $root/report.html"
timeout 60 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,1600 --user-data-dir="$root/chromium" \
  --screenshot="$screens/$(printf %02d $n)-page.png" "file://$root/report.html" >/dev/null 2>&1 || echo "evening: no picture" >&2

step land "manager land --files; git status --short"
step redo "manager redo example --dry-run"
git init --quiet --initial-branch=main "$root/theme" && git -C "$root/theme" -c user.name=E -c user.email=e@example.com \
  commit --quiet --allow-empty --message Theme
git -c protocol.file.allow=always submodule --quiet add "$root/theme" theme
step submodule "manager doctor"
step gc "manager gc --dry-run; manager archive; manager gc; manager list --archived"
step uninstall "manager uninstall --yes --drop; git status --short; ls -A .manager 2>/dev/null"
echo "Look at them: $screens"
