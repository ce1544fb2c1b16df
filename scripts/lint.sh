#!/bin/sh
# lint.sh: the arrows between the rooms, what the command line includes, who sets numbers of threads, what comments and pages name, lines of prose,
# subjects of commits; texts that mutations change; shellcheck over every shell script of the project (exit 77: it is not installed here).
set -eu
cd "$(dirname "$0")/.."
scripts/arrows.sh
scripts/outside.sh
scripts/threads.sh
scripts/citations.sh
scripts/prose.sh
scripts/subjects.sh
scripts/mutations.sh
command -v shellcheck >/dev/null 2>&1 || { echo "shellcheck is not here: the scripts are not checked"; exit 77; }
find . -type d \( -name 'build*' -o -name '.git' -o -name .venv -o -name node_modules \) -prune -o \
    \( -name '*.sh' -o -path ./.ci/run \) -type f -exec shellcheck -x -P SCRIPTDIR {} +
