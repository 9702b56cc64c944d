# Holds a PostgreSQL server for the process at the other end of standard input. When that process has
# ended, however it ended, the server is stopped and its folder removed.
#
# Arguments: the folder of the programs, and the folder for the data.
# Commands on standard input: `start PORT`, `stop SIGNAL`, `kill PROCESS…`.
# Answers on standard output: `initialised`, `started PROCESS`, `stopped`.

# Who holds us ends us by ending. A pipe that nobody reads any more must not end us early.
trap '' HUP INT TERM PIPE
programs=$1
folder=$2
server=

# Waits until the server has ended, and its sockets are free.
reap() {
    wait "$server"
    server=
    echo stopped
}

if "$programs/initdb" --pgdata="$folder/data" --username=neuron --pwfile="$folder/password" \
    --auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync >"$folder/initdb.log" 2>&1; then
    echo initialised
else
    cat "$folder/initdb.log" >&2
    rm -rf "$folder"
    exit 1
fi

while read -r command arguments; do
    case $command in
        start)
            "$programs/postgres" -D "$folder/data" -p "$arguments" \
                -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
                -c timezone=GMT -c fsync=on -c full_page_writes=on -c synchronous_commit=on \
                -c max_connections=200 -c logging_collector=off -c log_line_prefix='%p ' >&2 &
            server=$!
            echo "started $server"
            ;;
        stop)
            kill "-$arguments" "$server"
            reap
            ;;
        kill)
            # Without quotes: the processes are words of their own.
            kill -KILL $arguments
            reap
            ;;
    esac
done

if [ -n "$server" ]; then
    kill -QUIT "$server"
    wait "$server"
fi
rm -rf "$folder"
