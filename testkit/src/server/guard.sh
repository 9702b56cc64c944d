# Ends a server and removes its folder when the process at the other end of standard input has ended for any reason.
#
# Arguments: the folder, which does not exist yet, and the signal that ends the server.
# Standard input: the id of the server's process after each start, and an empty line after its end.
# Standard output: `ready`.

# Ctrl-C ends the tests, and thereby standard input.
trap '' HUP INT TERM PIPE
folder=$1
signal=$2
mkdir -m 700 "$folder" || exit 1
# The other process may have ended.
echo ready 2>/dev/null

server=
while read -r line; do server=$line; done

# The server is not a child of this shell, so the shell cannot wait for it. A zombie has ended, and stays if
# nothing collects it.
is_running() {
    kill -0 "$server" 2>/dev/null || return 1
    if read -r state 2>/dev/null <"/proc/$server/stat"; then
        case $state in *") Z "*) return 1 ;; esac
    fi
}

rounds=0
if [ -n "$server" ]; then
    kill "-$signal" "$server" 2>/dev/null
    while is_running && [ "$rounds" -lt 3000 ]; do
        rounds=$((rounds + 1))
        sleep 0.01
    done
    kill -KILL "$server" 2>/dev/null
fi
# A program that prepares the data may still write.
until rm -rf "$folder" 2>/dev/null || [ "$rounds" -ge 6000 ]; do
    rounds=$((rounds + 1))
    sleep 0.01
done
