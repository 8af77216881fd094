#!/bin/sh
# Rules of the tree that a compiler does not check. Prints each breach; the exit status is 1 if there is any.
cd "$(dirname "$0")/.." || exit 2
bad=0
breach() { # breach RULE < lines
    while IFS= read -r line; do
        echo "$line: $1"
        bad=1
    done
}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
found=$work/found

code() { # code PATTERN: the lines that have it outside comments, and outside strings other than the names of headers
    grep -rniE "$1" src --include='*.[ch]*' | sed 's|/\*.*||; /#include/!s|"[^"]*"||g' | grep -v '^[^ ]*: \*' |
        grep -iE "^[^:]*:[0-9]*:.*$1"
}
code '\b(dnnl|onednn|cuda|cudnn|cublas|nccl)[a-z_]*\b' | grep -v '^src/backend/\(cpu\|cuda\)/\|^src/compat/.* cuda_set_device(' >"$found"
breach 'vendor words belong to src/backend/<name>/' <"$found"
code '\bMPI_[A-Za-z]|mpi\.h' | grep -v '^src/group/mpi\.c' >"$found"
breach 'MPI belongs to src/group/mpi.c' <"$found"
code '\b(cv::|opencv2/|tj[A-Z]|turbojpeg\.h|stbi?_)' | grep -v '^src/data/decoders/' >"$found"
breach 'image libraries belong to src/data/decoders/' <"$found"
grep -rnE '\b(exit|abort|printf|puts|putchar|fprintf\(std(out|err))\s*\(' src --include='*.[ch]*' |
    grep -vE '^src/(main\.c|cli/|compat/)|snprintf|vsnprintf|fprintf\([a-z]|format\(printf' >"$found"
breach 'the library neither prints nor exits' <"$found"
grep -rnE '\b(malloc|calloc|realloc|free)\s*\(' src --include='*.[ch]*' | grep -vE '^src/core/mem\.c|^src/compat/|mem_free|[>.]free\(|define STBI' >"$found"
breach 'memory comes from core/mem.h' <"$found"
up() { # up FOLDER FORBIDDEN...
    folder=$1
    shift
    for f in "$@"; do grep -rn "#include \"$f/" "src/$folder" --include='*.[ch]*'; done
}
{
    up core group backend data net layers train api cli
    up group backend data net layers train api cli
    up backend data net layers train api cli
    up data backend net layers train api cli
    up net data layers train api cli
    up layers data train api cli
    up train layers api cli
    up api layers cli
    up cli api
    up compat core backend data net layers train api cli
} >"$found"
breach 'a folder includes only what lies below it' <"$found"
# NAME.c and NAME.h are one module; a line "A B" for each B whose header A includes.
(cd src && grep -rE '^#include "' --include='*.[ch]*' .) | while IFS=:\" read -r file _ header _; do
    file=${file#./}
    for path in "${file%/*}/$header" "$header"; do
        [ -f "src/$path" ] || continue
        [ "${path%.*}" = "${file%.*}" ] || echo "${file%.*} ${path%.*}"
        break
    done
done | sort -u >"$work/includes"
tsort "$work/includes" 2>&1 >"$work/sorted" | awk '
    /contains a loop/ { if (line) print line; line = ""; next }
    { line = line (line ? " -> " : "") "src/" $2 }
    END { if (line) print line }' >"$found"
breach 'modules include one another in a circle' <"$found"
grep -rnE '#include ".*\.(c|cpp|cu)"' src tests --include='*.[ch]*' >"$found"
breach 'sources are compiled and linked, not included' <"$found"
find src -name '*.[ch]*' -exec wc -l {} + | awk '$2 != "total" && $1 > 500 { print $2 ": " $1 " lines" }' >"$found"
breach 'a file of src has at most 500 lines' <"$found"
exit $bad
