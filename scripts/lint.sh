#!/bin/sh
# lint.sh: shellcheck over every shell script of the project (exit 77: it is not installed here).
set -eu
cd "$(dirname "$0")/.."
command -v shellcheck >/dev/null 2>&1 || { echo "shellcheck is not here: the scripts are not checked"; exit 77; }
find scripts .ci tests bench -type f \( -name '*.sh' -o -path '.ci/run' \) -exec shellcheck -x -P SCRIPTDIR {} +
