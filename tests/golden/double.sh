#!/bin/sh
# The golden cases on ref in double: what is left is libdarknet's own rounding.
exec "$(dirname "$0")/run.sh" build/double-ref ref
