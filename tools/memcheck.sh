#!/bin/sh
# Looks for wrong uses of memory: of the bridge in R under valgrind, and of the other crates with AddressSanitizer, both with the
# real plugin. On Linux, with the package installed, its sources here, and valgrind. Fails if there is any report but those
# in tools/valgrind.supp and tools/lsan.supp.
#
#   sh tools/memcheck.sh [r|crates]
#
# does one part, or both. Races between threads are not looked for: valgrind's tools do not know Rust's locks, and
# ThreadSanitizer needs a standard library made for it.
set -u
cd "$(dirname "$0")/.." || exit 1
command -v valgrind >/dev/null || {
    echo "There is no valgrind."
    exit 1
}
target=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-$PWD/src/rust/target}
PJRT_PLUGIN_PATH_CPU=$(Rscript --vanilla -e 'cat(pjrt:::plugin_path("cpu"))')
export PJRT_PLUGIN_PATH_CPU
status=0

part() {
    echo "== $1"
    shift
    if "$@"; then echo "== nothing found"; else
        echo "== FAILED"
        status=1
    fi
}

# A session that uses every routine of the library.
r_session() {
    R --vanilla --no-echo -f tools/memcheck.R -d "valgrind --error-exitcode=9 --num-callers=40 \
        --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --suppressions=tools/valgrind.supp"
}

# The crates' tests, those on the real plugin, too. RUSTC_BOOTSTRAP allows a stable compiler its sanitizers.
crate_tests() {
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address -Zrandomize-layout" ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1 \
        LSAN_OPTIONS="suppressions=$PWD/tools/lsan.supp:print_suppressions=0" \
        cargo test --quiet --locked --no-fail-fast --workspace --exclude pjrt --manifest-path src/rust/Cargo.toml \
        --target "$target" --target-dir "$folder/sanitized"
}

case ${1:-all} in
    r | all) part "R session under valgrind" r_session ;;
esac
case ${1:-all} in
    crates | all) part "crates with AddressSanitizer" crate_tests ;;
esac
exit "$status"
