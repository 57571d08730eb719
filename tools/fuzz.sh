#!/bin/sh
# Runs the fuzz targets in src/rust/fuzz, one after the other. Needs cargo-fuzz (`cargo install cargo-fuzz --locked`) and Linux:
#
#   sh tools/fuzz.sh SECONDS [TARGET...]   runs each for so long, by default all of them
#   sh tools/fuzz.sh --keep [TARGET...]    renews src/rust/fuzz/seeds from what was found
#
# Inputs that were found stay in src/rust/fuzz/corpus, which is not committed. Fails if a target found a bug; the input is then in
# src/rust/fuzz/artifacts. Mend the bug, and add the input to the seeds: tests/seeds.rs of core reads all seeds again.
#
# A released Rust does, although cargo-fuzz wants a nightly one.
set -eu
cd "$(dirname "$0")/../src/rust"
export RUSTC_BOOTSTRAP=1
# A target writes a file for each input.
[ -n "${TMPDIR:-}" ] || [ ! -w /dev/shm ] || export TMPDIR=/dev/shm

# The names that cargo-fuzz gives.
hash=????????????????????????????????????????

stop() {
    echo "$*" >&2
    exit 1
}

# The fixtures that a target begins with.
fixtures() {
    case $1 in
    mlir) find program/fixtures ../../inst -name '*.mlir' ;;
    bytecode) find program/fixtures ../../inst -name '*.mlirbc' -o -name '*.artifact' -o -name '*.bytecode' ;;
    jax) find program/fixtures ../../inst -name '*.jaxexport' ;;
    pytorch) find program/fixtures ../../inst -name '*.meta' ;;
    safetensors) find ../../inst -name '*.safetensors' ;;
    numpy) find ../../inst -name '*.np[yz]' ;;
    esac
}

# Replaces the seeds that have a hash as name: by a sample of the small files that reach code which others do not, 11 kB in all.
keep() {
    cargo fuzz cmin -O "$1" -- -rss_limit_mb=2048 -max_len=40000
    mkdir -p "fuzz/seeds/$1"
    find "fuzz/seeds/$1" -name "$hash" -delete
    total=0
    for file in $(find "fuzz/corpus/$1" -name "$hash" -size -1500c | sort); do
        total=$((total + $(wc -c <"$file")))
        [ "$total" -le 11000 ] || break
        cp "$file" "fuzz/seeds/$1/"
    done
}

command -v cargo-fuzz >/dev/null || stop "cargo-fuzz is not installed: cargo install cargo-fuzz --locked"
[ $# -gt 0 ] || stop "usage: sh tools/fuzz.sh SECONDS|--keep [TARGET...]"
seconds=$1
shift
[ $# -gt 0 ] || set -- $(cargo fuzz list)
failed=
for target in "$@"; do
    mkdir -p "fuzz/corpus/$target"
    for file in $(fixtures "$target") fuzz/seeds/"$target"/*; do
        [ ! -f "$file" ] || cp "$file" "fuzz/corpus/$target/"
    done
    if [ "$seconds" = --keep ]; then
        keep "$target"
    else
        echo "$target"
        # -O: the profile decides about debug assertions
        cargo fuzz run -O "$target" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
            -max_len=40000 -print_final_stats=1 || failed="$failed $target"
    fi
done
[ -z "$failed" ] || stop "bugs were found by:$failed"
