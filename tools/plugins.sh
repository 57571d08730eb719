#!/bin/sh
# Runs the R tests and core's tests on other CPU plugins than the one that install_pjrt() installs: newer builds of XLA, of other
# makers. Downloads them to .plugins/ and checks their SHA-256. For Linux on x86_64.
#
#   sh tools/plugins.sh                      all plugins, all tests
#   sh tools/plugins.sh fastatomstruct       one plugin
#   sh tools/plugins.sh lammps execute copy  its R tests in test-execute.R and test-copy.R, and no other tests
#
# Prints a line for each plugin. Tests that a plugin fails by its own fault are skipped, with the fault as the reason.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/setup.sh
install_base
install_tests
install_package
install_python

# Downloads a Python package of this version and hash, and prints the path of the library in it.
fetch() {
    name=$1 version=$2 sum=$3 library=$4
    [ -f ".plugins/$library" ] || {
        mkdir -p .plugins
        echo "$name==$version --hash=sha256:$sum" >.plugins/wanted
        .python/python -m pip download --quiet --no-deps --only-binary :all: --require-hashes --dest .plugins \
            --requirement .plugins/wanted >&2 || return 1
        (cd .plugins && unzip -q -o "$(echo "$name" | tr - _)-$version"-*.whl) || return 1
    }
    echo "$PWD/.plugins/$library"
}

# The path of a plugin's library.
path_of() {
    case $1 in
    fastatomstruct)
        fetch fastatomstruct-xla-cpu 2026.6.23 88b1c430b341b4bea40a37420311c9c75db6e22b46d2ff95b6986577bee6afe9 \
            fastatomstruct_xla_cpu/libpjrt_cpu.so
        ;;
    lammps)
        fetch lammps-jax-pjrt-cpu 0.11.2 1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1 \
            lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
        ;;
    *) stop "no plugin '$1': fastatomstruct or lammps" ;;
    esac
}

# Runs the tests on a plugin; the arguments after it select files of R tests.
run_plugin() {
    plugin=$1
    shift
    PJRT_TEST_PLUGIN=$(path_of "$plugin") || return 1
    export PJRT_TEST_PLUGIN
    status=0
    if [ $# -gt 0 ]; then
        for file in "$@"; do
            PJRT_TEST=1 NOT_CRAN=true rscript -e 'testthat::test_file(
                commandArgs(TRUE), package = "pjrt", load_package = "installed", reporter = "check", stop_on_failure = TRUE
            )' "tests/testthat/test-$file.R" || status=1
        done
    else
        counts=$(mktemp)
        rscript tools/test.R tests "$counts" || status=1
        PJRT_PLUGIN_PATH_CPU=$PJRT_TEST_PLUGIN LD_LIBRARY_PATH=$(R RHOME)/lib R_HOME=$(R RHOME) \
            cargo test --package pjrt-core --no-fail-fast --locked --manifest-path src/rust/Cargo.toml || status=1
        rm -f "$counts"
    fi
    [ "$status" -eq 0 ] && echo "$plugin: passed" || echo "FAILED: $plugin"
    return "$status"
}

failed=0
if [ $# -gt 0 ]; then
    run_plugin "$@" || failed=1
else
    for plugin in fastatomstruct lammps; do
        run_plugin "$plugin" || failed=1
    done
fi
exit "$failed"
