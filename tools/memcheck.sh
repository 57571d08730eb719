#!/bin/sh
# Detects memory errors: in the bridge, from R under valgrind, and in the other crates, with AddressSanitizer, both with the
# real plugin. Run it on Linux in the package's sources, with the package and valgrind installed. It fails on any report that
# tools/valgrind.supp and tools/lsan.supp do not suppress.
#
#   sh tools/memcheck.sh [r|crates]
#
# runs one part, or both by default. It does not detect data races, because valgrind's tools do not support Rust's locks, and
# ThreadSanitizer needs an instrumented standard library.
set -u
cd "$(dirname "$0")/.." || exit 1
command -v valgrind >/dev/null || {
    echo "valgrind is not installed."
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

# Runs a session that calls every routine of the library.
r_session() {
    R --vanilla --no-echo -f tools/memcheck.R -d "valgrind --error-exitcode=9 --num-callers=40 \
        --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --suppressions=tools/valgrind.supp"
}

# Runs the crates' tests, including those with the real plugin. RUSTC_BOOTSTRAP enables sanitizers in a stable compiler.
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
