#!/bin/sh
# Rules of the tree that a compiler does not check. Prints each breach; exit status 1 if there is any.
cd "$(dirname "$0")/.." || exit 2
bad=0
breach() { # breach RULE < lines
    while IFS= read -r line; do
        echo "$line: $1"
        bad=1
    done
}
found=$(mktemp)
trap 'rm -f "$found"' EXIT

code() { # code PATTERN: the lines that have it outside comments, and outside strings other than the names of headers
    grep -rniE "$1" src --include='*.[ch]*' | sed 's|/\*.*||; /#include/!s|"[^"]*"||g' | grep -v '^[^ ]*: \*' |
        grep -iE "^[^:]*:[0-9]*:.*$1"
}
code '\b(dnnl|onednn|cuda|cudnn|cublas)[a-z_]*\b' | grep -v '^src/backend/\(cpu\|cuda\)/' >"$found"
breach 'vendor words belong to src/backend/<name>/' <"$found"
code '\b(cv::|opencv2/|tj[A-Z]|turbojpeg\.h|stbi?_)' | grep -v '^src/data/decoders/' >"$found"
breach 'image libraries belong to src/data/decoders/' <"$found"
grep -rnE '\b(exit|abort|printf|puts|putchar|fprintf\(std(out|err))\s*\(' src --include='*.[ch]*' |
    grep -vE '^src/(main\.c|cli/)|snprintf|vsnprintf|fprintf\([a-z]|format\(printf' >"$found"
breach 'the library neither prints nor exits' <"$found"
grep -rnE '\b(malloc|calloc|realloc|free)\s*\(' src --include='*.[ch]*' | grep -vE '^src/core/mem\.c|mem_free|[>.]free\(|define STBI' >"$found"
breach 'memory comes from core/mem.h' <"$found"
up() { # up FOLDER FORBIDDEN...
    folder=$1
    shift
    for f in "$@"; do grep -rn "#include \"$f/" "src/$folder" --include='*.[ch]*'; done
}
{
    up core backend data net layers train cli
    up backend data net layers train cli
    up data backend net layers train cli
    up net data layers train cli
    up layers data train cli
    up train layers cli
} >"$found"
breach 'a folder includes only what lies below it' <"$found"
exit $bad
