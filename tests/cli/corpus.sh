#!/bin/sh
# corpus.sh: the fuzz targets' seeds are archives below a megabyte, each of a target that there is, and packing gives the same bytes again.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

loose=$(find "$RS_SOURCE_DIR/fuzz/corpus" -type f ! -name '*.tar.gz')
[ -z "$loose" ] || note_failure "fuzz/corpus holds loose files (scripts/corpus.sh pack): $loose"
rm -rf tree seeds before again third
mkdir -p tree/scripts tree/fuzz/corpus
cp "$RS_SOURCE_DIR/scripts/corpus.sh" tree/scripts/
cp "$RS_SOURCE_DIR"/fuzz/corpus/*.tar.gz tree/fuzz/corpus/
expect 0 tree/scripts/corpus.sh unpack seeds
for archive in tree/fuzz/corpus/*.tar.gz; do
    target=$(basename "$archive" .tar.gz)
    [ -f "$RS_SOURCE_DIR/fuzz/fuzz_$target.c" ] || note_failure "$target.tar.gz: there is no fuzz/fuzz_$target.c"
    [ "$(wc -c <"$archive")" -lt 1000000 ] || note_failure "$target.tar.gz has a megabyte or more"
    [ -n "$(find "seeds/$target" -type f)" ] || note_failure "$target.tar.gz holds no seed"
done

if tar --version 2>/dev/null | grep -q GNU; then
    mkdir -p before
    for archive in tree/fuzz/corpus/*.tar.gz; do gzip -dc "$archive" >"before/$(basename "$archive" .gz)"; done
    find seeds -type f -exec touch {} + # another day
    expect 0 tree/scripts/corpus.sh pack seeds
    for archive in tree/fuzz/corpus/*.tar.gz; do
        gzip -dc "$archive" | cmp - "before/$(basename "$archive" .gz)" || note_failure "$archive: packed again, it differs"
    done

    # A seed that is added arrives; a corpus that is too large is refused, and the old one stays.
    echo new >seeds/arch/added
    expect 0 tree/scripts/corpus.sh pack seeds arch
    expect 0 tree/scripts/corpus.sh unpack again arch
    cmp seeds/arch/added again/arch/added || note_failure "an added seed is lost"
    head -c 1100000 /dev/urandom >seeds/arch/too_large
    expect 1 tree/scripts/corpus.sh pack seeds arch
    says err "1000000 are too many"
    expect 0 tree/scripts/corpus.sh unpack third arch
    [ ! -f third/arch/too_large ] || note_failure "a corpus that is too large was stored"
fi
expect 2 tree/scripts/corpus.sh
expect 2 tree/scripts/corpus.sh list seeds
finish
