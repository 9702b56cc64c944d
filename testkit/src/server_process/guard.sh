# Watches over a server. When the process at the other end of standard input has ended, however
# it ended, the server is killed and its folder removed.
#
# Argument: the folder, which does not exist yet. The file `process` in it names the server's process.
# Answer on standard output: `ready`.

# Who holds us ends us by ending.
trap '' HUP INT TERM PIPE
folder=$1
mkdir -m 700 "$folder" || exit 1
# Who asked may be gone already.
echo ready 2>/dev/null

while read -r _; do :; done

# Under its new name the folder takes no new server: a launch that is under way gives up.
mv "$folder" "$folder.gone" || exit 1
if [ -s "$folder.gone/process" ]; then
    read -r server <"$folder.gone/process"
    kill -KILL "$server" 2>/dev/null
    # It is no child of ours, so it cannot be waited for. It may stay a zombie where nobody collects those: then
    # it has ended too.
    rounds=0
    while [ "$rounds" -lt 500 ] && kill -0 "$server" 2>/dev/null; do
        if read -r state 2>/dev/null <"/proc/$server/stat"; then
            case $state in *") Z "*) break ;; esac
        fi
        rounds=$((rounds + 1))
        sleep 0.01
    done
fi
# A server that began between the two has made its folder anew, by its old name.
rm -rf "$folder.gone" "$folder"
