#!/bin/sh
# Repeats for hours what the tests do for seconds: finds rare errors, small leaks and missing protection of R objects.
#
#   sh tools/soak.sh [PART...]
#
# Parts, all by default:
#   tests       the tests that repeat something, as often as they did when they were written: garbage collections at every
#               allocation, 10,000 damaged programs, long loops (PJRT_SOAK=1; see tests/testthat/helper-soak.R)
#   damage      the Rust tests of the readers of programs, with ten times as many damaged programs
#   inside      all tests, with programs that are compiled in R's process
#   leaks       each use of the package 100,000 times or for a minute (tools/leaks.R)
#   stress      random work for ten minutes (tools/stress.R)
#   interrupts  Ctrl-C during every kind of wait (tools/interrupts.R)
#   endings     1,000 sessions that end with pending work (tools/endings.R)
#   programs    10,000 more damaged programs (tests/testthat/fixtures/mutate-programs.R)
#   memcheck    valgrind and AddressSanitizer, if valgrind is installed (tools/memcheck.sh)
#
# Prints a line for each part, and the output of those that failed. The last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/setup.sh
[ $# -gt 0 ] || set -- tests damage inside leaks stress interrupts endings programs memcheck
for part in "$@"; do
    case $part in
    tests | damage | inside | leaks | stress | interrupts | endings | programs | memcheck) ;;
    *) stop "usage: sh tools/soak.sh [tests|damage|inside|leaks|stress|interrupts|endings|programs|memcheck]..." ;;
    esac
done
install_base
install_tests
install_package
install_plugin
install_python

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
PJRT_PLUGIN_PATH_CPU=$(Rscript --vanilla -e 'cat(pjrt:::plugin_path("cpu"))')
export PJRT_PLUGIN_PATH_CPU

# Runs a part of tools/test.R: tests or soak.
tests() {
    : >"$work/counts"
    rscript tools/test.R "$1" "$work/counts" || return 1
    awk '{p += $1; f += $2} END {exit !(p > 0 && f == 0)}' "$work/counts"
}

# Runs a part and says how long it took.
part() {
    start=$(date +%s)
    if "$@" >"$work/log" 2>&1; then
        state=ok passed=$((passed + 1))
    else
        state=FAILED failed=$((failed + 1))
    fi
    printf '%-7s %s, %d s: %s\n' "$state" "$name" "$(($(date +%s) - start))" "$(tail -n 1 "$work/log")"
    [ "$state" = ok ] || sed 's/^/        /' "$work/log"
}

for name in "$@"; do
    case $name in
    tests) part tests soak ;;
    damage)
        part env PJRT_SOAK=1 cargo test --package pjrt-ir --package pjrt-program --lib --locked \
            --manifest-path src/rust/Cargo.toml
        ;;
    inside)
        export PJRT_TEST_COMPILE=inside
        part tests tests
        unset PJRT_TEST_COMPILE
        ;;
    programs) part rscript tests/testthat/fixtures/mutate-programs.R 10000 2 ;;
    memcheck)
        if command -v valgrind >/dev/null; then
            part sh tools/memcheck.sh
        else
            echo "skipped memcheck: valgrind is not installed"
        fi
        ;;
    *) part rscript "tools/$name.R" ;;
    esac
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
