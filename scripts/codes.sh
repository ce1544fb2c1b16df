#!/bin/sh
# codes.sh: prints the codes of findings and verdicts that are raised anywhere in src/, one a line: what stands beside a severity, is
# assigned to a code, or is the first text handed to a function that raises one. tests/cli/explain.sh asks `rankscope explain` for each.
set -eu
cd "$(dirname "$0")/.."
code='"[a-z][a-z0-9_]*"'
severity='RS_(INFO|WARN|CRITICAL)'
raises='(rs_finding_of|rs_edition_note|finding_for|note|note_group|add_finding|say_finding|say|tell|raise|each_reason|verdict_of|rs_verdict_say)'
pattern="$severity\s*,\s*([^;\",]*\?\s*)?$code(\s*:\s*$code)?|$code\s*,\s*$severity\b"
pattern="$pattern|(?<![a-z_])code(\[\])?\s*=\s*([^;\",]*\?\s*$code\s*:\s*)*([^;\",]*\?\s*)?$code(\s*:\s*$code)?"
pattern="$pattern|\b$raises\s*\((?:[^\";()]|\([^()]*\))*$code(\s*:\s*$code)?"
grep -rhozP --include='*.c' --include='*.inc' "$pattern" src | tr '\0' '\n' | grep -oE "$code" | tr -d '"' | sort -u
