# complete.zsh: completes each line of standard input in an interactive zsh, which has _rankscope from this folder, and prints what
# it offers for it, sorted, on a line. The shell's own compadd is told to say what matches; a line's end is a widget that zsh runs
# behind the completion, so nothing waits for a time.
zmodload zsh/zpty
cat >inner.zsh <<'INNER'
fpath=($PWD $fpath)
autoload -Uz compinit && compinit -u -D
setopt no_auto_list no_auto_menu
bindkey '^I' complete-word
bindkey '^T' tell
tell() { BUFFER= && : >done.txt; }
zle -N tell
zle-line-init() { : >ready.txt; }
zle -N zle-line-init
compadd() {
    local -a hits
    [[ " $* " == *' '-[OAD]' '* ]] || builtin compadd -O hits "$@"
    (( ! $#hits )) || print -rl -- $hits >>hits.txt
    builtin compadd "$@"
}
INNER
wait_for() {
    repeat 600; do
        [[ -e $1 ]] && return
        zpty -r -t inner drained '*'
        sleep 0.1
    done
    print "zsh says nothing" && exit 1
}
rm -f ready.txt
zpty inner zsh -f -i
zpty -w inner 'source ./inner.zsh'
wait_for ready.txt
while IFS= read -r line; do
    rm -f hits.txt done.txt
    zpty -n -w inner "$line"$'\t\C-T'
    wait_for done.txt
    [[ ! -e hits.txt ]] || LC_ALL=C sort -u hits.txt | tr '\n' ' '
    print
done
zpty -d inner
