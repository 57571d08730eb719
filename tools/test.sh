#!/bin/sh
# Sets up the machine, builds the package and runs all checks. The last line is `N passed, N failed`. With CI=true, a
# skipped test also fails the run, unless tools/test.R excuses it.
#
#   sh tools/test.sh         everything
#   sh tools/test.sh --r     only what depends on R: R tests, examples and vignettes
#   sh tools/test.sh --fast  less than a minute once the machine is set up: builds what changed, and runs the unit tests of the
#                            crates below core and the R test files that are not marked as slow
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/setup.sh
case "$*" in
"" | --r | --fast) mode=${1:-} ;;
*) stop "usage: sh tools/test.sh [--r | --fast]" ;;
esac
install_base
manifest=src/rust/Cargo.toml
R_HOME=$(R RHOME)
export R_HOME

# Compiles for the Rust checks what does not depend on packages. cargo lets the checks wait for it, and report its errors.
compile_rust() {
    cargo clippy --quiet --workspace --all-targets --locked --manifest-path "$manifest" -- -D warnings
    cargo test --workspace --no-run --locked --manifest-path "$manifest"
} >/dev/null 2>&1 </dev/null

if [ ! "$mode" ] && [ "${PJRT_TEST_BESIDE:-}" != no ]; then
    # Ctrl-C does not reach what runs in the background
    trap 'kill 0' INT
    compile_rust &
fi
install_tests
[ "$mode" ] || install_lint
install_package
install_plugin
install_python

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
counts=$work/counts
: >"$counts"
PJRT_PLUGIN_PATH_CPU=$(Rscript --vanilla -e 'cat(pjrt:::plugin_path("cpu"))')

# Runs a command as a single check and counts it as passed or failed by its exit status.
check() {
    say "$1"
    name=$1
    shift
    if "$@" </dev/null; then
        echo "1 0 0" >>"$counts"
    else
        echo "FAILED: $name"
        echo "0 1 0" >>"$counts"
    fi
}

# Runs a part of tools/test.R, which adds its own counts. A part that crashes counts as one failure.
r_part() {
    say "$2"
    rscript tools/test.R "$1" "$counts" || {
        echo "FAILED: $2"
        echo "0 1 0" >>"$counts"
    }
}

# The checks that depend on R.
r_parts() {
    with="with R $(r_version)"
    r_part tests "R tests $with"
    r_part examples "examples of the help pages $with"
    r_part vignettes "vignettes $with"
    check "R's API $with" Rscript --vanilla tools/api.R
}

# Runs cargo's tests of the packages that the arguments select, and adds their counts. A failed build or a crash counts as one
# failure.
rust_tests() {
    say "Rust tests"
    LD_LIBRARY_PATH="$R_HOME/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" PJRT_PLUGIN_PATH_CPU="$PJRT_PLUGIN_PATH_CPU" \
        cargo test "$@" --no-fail-fast --locked --manifest-path "$manifest" </dev/null >"$work/rust.log" 2>&1
    status=$?
    totals=$(sed -n 's/^test result: .*\. \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored.*/\1 \2 \3/p' \
        "$work/rust.log" | awk '{p += $1; f += $2; s += $3} END {print p + 0, f + 0, s + 0}')
    if [ "$status" -ne 0 ]; then
        # without what cargo does between tests, and the kilobytes of a linker's command
        grep -v '^ *\(Compiling\|Downloaded\|Downloading\) ' "$work/rust.log" | cut -c 1-1000
        case $totals in *" 0 "*) echo "0 1 0" >>"$counts" ;; esac
    fi
    echo "$totals" | awk '{printf "%d passed, %d failed, %d ignored\n", $1, $2, $3}'
    echo "$totals" >>"$counts"
}

# Runs `R CMD check` on the source package, without the parts that have already run. Errors and warnings fail. The project's
# crates are not optimized, which is soon done; the others were compiled before.
package_check() {
    tar -cf - --exclude=./.git --exclude=./.lib --exclude=./.python --exclude=./.releases --exclude=./.cross --exclude=./.arm64 \
        --exclude=./.plugins --exclude=./src/rust/target . | (mkdir "$work/pjrt" && tar -xf - -C "$work/pjrt")
    sed -i '/^\[profile[.]release[.]package[.]pjrt-/,/^$/ s/^opt-level = .*/opt-level = 0/' "$work/pjrt/$manifest"
    (
        cd "$work" || exit 1
        R CMD build --no-build-vignettes pjrt >build.log 2>&1 || {
            cat build.log
            exit 1
        }
        CARGO_TARGET_DIR="$target_dir" _R_CHECK_FORCE_SUGGESTS_=false _R_CHECK_SYSTEM_CLOCK_=false \
            R CMD check --no-manual --no-tests --no-examples --ignore-vignettes pjrt_*.tar.gz
        ! grep -q '^Status:.*\(ERROR\|WARNING\)' pjrt.Rcheck/00check.log && grep -q '^Status:' pjrt.Rcheck/00check.log
    )
}

# Prints the counts and fails if any check failed.
finish() {
    skipped=$(awk '{s += $3} END {print s + 0}' "$counts")
    failed=$(awk '{f += $2} END {print f + 0}' "$counts")
    [ "$skipped" -eq 0 ] || say "$skipped skipped"
    awk '{p += $1; f += $2} END {printf "%d passed, %d failed\n", p, f}' "$counts"
    [ "$failed" -eq 0 ] || exit 1
    [ "${CI:-}" != true ] || [ "$skipped" -eq 0 ]
}

if [ "$mode" = --r ]; then
    r_parts
    finish
    exit
fi
if [ "$mode" = --fast ]; then
    rust_tests -p pjrt-base -p pjrt-data -p pjrt-ir -p pjrt-program -p pjrt-plugins -p pjrt-ffi -p pjrt-handlers --lib >"$work/rust" &
    r_part quick "quick R tests with R $(r_version)"
    wait
    cat "$work/rust"
    finish
    exit
fi

# Prints the second number of clippy's version, or 0 if there is none.
clippy_version() {
    version=$(cargo clippy --version 2>/dev/null | sed -n 's/^clippy 0[.]1[.]\([0-9]*\).*/\1/p')
    echo "${version:-0}"
}

# The checks that depend on Rust.
rust_parts() {
    target_dir=${CARGO_TARGET_DIR:-$PWD/src/rust/target}
    if cargo fmt --version >/dev/null 2>&1; then
        check "Rust format" cargo fmt --all --check --manifest-path "$manifest"
    else
        say "no Rust format check: this Rust has no rustfmt"
    fi
    # older ones have other lints
    if [ "$(clippy_version)" -ge 95 ]; then
        check "Rust lint" cargo clippy --quiet --workspace --all-targets --locked --manifest-path "$manifest" -- -D warnings
    else
        say "no Rust lint: it requires clippy 1.95 or newer"
    fi
    check "licences of crates" Rscript --vanilla tools/authors.R --check
    check "refusal of an old Rust" sh tools/check-msrv.sh
    rust_tests --workspace
    check "R CMD check" package_check
}

other_parts() {
    check "R style" Rscript --vanilla tools/lint.R
    check "words" sh -c 'sh tools/words.sh --self-test && sh tools/words.sh'
    if [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null; then
        check "another user in a chroot" sh tools/chroot.sh
    else
        say "no test in a chroot: it needs root, who may mount"
    fi
    r_parts
    check "demo" Rscript --vanilla tools/demo.R
}

# Both wait now and then, so together they take less time than one after the other.
if [ "${PJRT_TEST_BESIDE:-}" = no ]; then
    rust_parts
    other_parts
else
    say "Rust checks, which are shown at the end"
    trap 'rm -rf "$work"; kill 0' INT
    rust_parts >"$work/rust" 2>&1 &
    other_parts
    wait
    cat "$work/rust"
fi
finish
