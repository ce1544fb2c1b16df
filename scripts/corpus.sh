#!/bin/sh
# corpus.sh unpack FOLDER [TARGET...]: puts the seeds of each fuzz target, fuzz/corpus/TARGET.tar.gz, into FOLDER/TARGET;
#   what is there already and not older than its archive stays.
# corpus.sh pack FOLDER [TARGET...]: makes the archives anew from FOLDER/TARGET (needs GNU tar). The same files give the same
#   bytes, whoever packs them and when. An archive has to stay below a megabyte.
# Without TARGET: all that are there. To add seeds: unpack, put them into FOLDER/TARGET, pack.
set -eu
usage() {
    echo "usage: corpus.sh unpack|pack FOLDER [TARGET...]" >&2
    exit 2
}
[ $# -ge 2 ] || usage
action=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2
cd "$(dirname "$0")/.."
limit=1000000

unpack() {
    archive=fuzz/corpus/$1.tar.gz
    [ -f "$archive" ] || return 0 # a target whose only seeds are its past crashers
    [ ! -f "$folder/.$1" ] || [ ! -d "$folder/$1" ] || [ -n "$(find "$archive" -newer "$folder/.$1")" ] || return 0
    rm -rf "${folder:?}/$1"
    gzip -dc "$archive" | tar -xf - -C "$folder"
    touch "$folder/.$1" # behind the files: what is interrupted is done again
}

pack() {
    archive=fuzz/corpus/$1.tar.gz
    tar --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
        -C "$folder" -cf "$archive.tar" "$1"
    gzip -9n <"$archive.tar" >"$archive.new"
    rm "$archive.tar"
    size=$(wc -c <"$archive.new")
    if [ "$size" -ge $limit ]; then
        rm "$archive.new"
        echo "corpus: $archive would have $size bytes; $limit are too many: leave seeds out that reach nothing new" >&2
        exit 1
    fi
    mv "$archive.new" "$archive"
}

case $action in
unpack) [ $# -gt 0 ] || set -- fuzz/corpus/*.tar.gz ;;
pack) [ $# -gt 0 ] || set -- "$folder"/*/ ;;
*) usage ;;
esac
for target in "$@"; do
    "$action" "$(basename "$target" .tar.gz)"
done
