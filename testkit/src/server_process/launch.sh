# Becomes a server, after its process is on record. Arguments: the folder, the program, its
# arguments. If the folder is gone meanwhile, so is who wanted the server: then there is none.
folder=$1
shift
echo $$ >"$folder/process" && [ -e "$folder/process" ] && exec "$@"
