#!/bin/bash
# lib_users.sh: what the users' tasks (tests/cli/users) share.
# shellcheck source=tests/cli/lib.sh
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

# verdict FILE CODE [TEXT]: the result's verdict has the code, and its answer the text.
verdict() {
    python3 - "$@" <<'END' || note_failure "the verdict of $1"
import json, sys
said = json.load(open(sys.argv[1]))["verdict"]
wanted = sys.argv[3] if len(sys.argv) > 3 else ""
if said["code"] != sys.argv[2] or wanted not in said["answer"]:
    sys.exit(f"{said['code']}: {said['answer']}\n    expected {sys.argv[2]}: ... {wanted}")
END
}
