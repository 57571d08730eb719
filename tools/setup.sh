# shellcheck shell=sh
# Sourced by demo.sh, test.sh and other scripts from the top folder of the checkout: sets up a Debian or Ubuntu machine and prints
# what it installs. It keeps what is already installed, so a second run takes seconds.
#
#   install_base      what the demo needs: R, a C++ compiler, make, bit64, pip and Rust
#   install_tests     what the tests need beyond that
#   install_lint      Rust's formatter and linter, if available
#   install_package   this package, into the library .lib/ in the checkout
#   install_plugin    the CPU plugin, into the user's cache
#   install_python    the Python packages that tests use, into .python/ in the checkout

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
library=.lib
R_LIBS="$PWD/$library${R_LIBS:+:$R_LIBS}"
export R_LIBS

say() {
    printf '==> %s\n' "$*"
}

stop() {
    printf 'Error: %s\n' "$*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo --preserve-env=DEBIAN_FRONTEND,LC_ALL "$@"
    else
        stop "installing packages requires root or sudo: $*"
    fi
}

# Prints which of these packages are not installed.
missing_packages() {
    installed=$(dpkg-query --show --showformat='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
        awk '$2 == "installed" {print $1}')
    for package in "$@"; do
        printf '%s\n' "$installed" | grep -qxF "$package" || echo "$package"
    done
}

# Prints which of these packages apt can install.
available_packages() {
    apt-cache policy "$@" 2>/dev/null | awk '/^[^ ]/ {name = substr($1, 1, length($1) - 1)} /Candidate: [0-9]/ {print name}'
}

update_index() {
    [ -z "${index_updated:-}" ] || return 0
    say "updating the list of packages"
    as_root apt-get update -qq </dev/null || stop "apt-get update failed"
    index_updated=yes
}

# Installs packages, after a line with their number and size.
install_packages() {
    update_index
    size=$(as_root apt-get install --no-install-recommends --assume-no "$@" </dev/null 2>/dev/null | awk '
        / newly installed/ {count = $1 + $3 " packages"}
        /^Need to get/ {sub(/^Need to get /, ""); sub(/ of archives\.$/, ""); sub(/\/.*/, ""); download = ", " $0 " to download"}
        /^After this/ && /will be used/ {disk = ", " $4 " " $5 " on disk"}
        END {if (count) print " (" count download disk ")"}')
    say "installing $*$size"
    apt_log=$(mktemp)
    if ! as_root apt-get install -y -qq --no-install-recommends "$@" </dev/null >"$apt_log" 2>&1; then
        tail -n 20 "$apt_log" >&2
        stop "apt-get could not install these packages"
    fi
    rm -f "$apt_log"
}

# Installs the missing packages that apt has, in one step, and prints which it lacks.
install_available() {
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    update_index
    # shellcheck disable=SC2086
    available=$(available_packages $missing)
    absent=$(for package in $missing; do
        printf '%s\n' "$available" | grep -qxF "$package" || printf ' %s' "$package"
    done)
    [ -z "$absent" ] || say "this system does not have$absent: tests that need them are skipped"
    # shellcheck disable=SC2086
    [ -z "$available" ] || install_packages $available
}

minimum_rust() {
    sed -n 's/^SystemRequirements:.*rustc >= \([0-9.]*\).*/\1/p' DESCRIPTION
}

# Prints the suffix of the apt packages with a recent enough Rust: empty, "-web" (Debian 12) or "-1.NN" (Ubuntu).
rust_ending() {
    minimum=$(minimum_rust)
    numbered=$(apt-cache --names-only search '^rustc-1\.[0-9]+$' | sed 's/^rustc\(-[0-9.]*\) .*/\1/' | sort -V)
    for ending in '' -web $numbered; do
        version=$(apt-cache policy "rustc$ending" | awk '/Candidate:/ {print $2}')
        if dpkg --compare-versions "${version:-0}" ge "$minimum"; then
            echo "$ending"
            return 0
        fi
    done
    return 1
}

# Puts a recent enough Rust on the PATH: the first one there, rustup's, or one of Debian's or Ubuntu's.
use_rust() {
    for rust_bin in "$(dirname "$(command -v rustc || echo /usr/bin/rustc)")" "${CARGO_HOME:-$HOME/.cargo}/bin" \
        /usr/lib/rust-*/bin; do
        version=$(PATH="$rust_bin:$PATH" "$rust_bin/rustc" --version 2>/dev/null | cut -d ' ' -f 2)
        [ -x "$rust_bin/cargo" ] && dpkg --compare-versions "${version:-0}" ge "$(minimum_rust)" || continue
        [ "$(command -v cargo)" = "$rust_bin/cargo" ] || PATH="$rust_bin:$PATH"
        export PATH
        return 0
    done
    return 1
}

install_base() {
    command -v dpkg-query >/dev/null || stop "this script sets up Debian and Ubuntu only: see README.md for other systems"
    set -- $(missing_packages ca-certificates r-base-core g++ make r-cran-bit64 python3 python3-pip)
    if ! use_rust; then
        update_index
        ending=$(rust_ending) || stop "apt has no recent enough Rust: install it with rustup (https://rustup.rs)"
        set -- "$@" "rustc$ending" "cargo$ending"
    fi
    [ $# -eq 0 ] || install_packages "$@"
    use_rust || stop "the Rust from apt does not work"
    say "using $(rustc --version) in $rust_bin"
}

install_tests() {
    install_available r-cran-callr r-cran-cli r-cran-future r-cran-ggplot2 r-cran-jsonlite r-cran-knitr r-cran-later \
        r-cran-pillar r-cran-promises r-cran-reticulate r-cran-rmarkdown r-cran-rmpi r-cran-shiny r-cran-testthat \
        r-cran-waldo r-cran-withr \
        pandoc graphviz liblapack-dev redis-server iproute2 locales openmpi-bin libopenmpi-dev mpich libpython3-dev chromium \
        python3-torch
}

# Installs Rust's formatter and linter for a Rust from apt. rustup includes them.
install_lint() {
    if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
        return 0
    fi
    owner=$(dpkg-query --search "$rust_bin/cargo" 2>/dev/null | cut -d : -f 1)
    if [ -n "$owner" ]; then
        ending=${owner#cargo}
        install_available "rustfmt$ending" "rust$ending-clippy"
    fi
}

# Prints a checksum of everything that the installed package is built from.
package_stamp() {
    {
        R --version | head -n 1
        rustc --version
        find DESCRIPTION NAMESPACE R configure inst man src tools/config.R tools/link.R tools/msrv.R -type f \
            ! -path 'src/rust/target/*' ! -path 'src/rust/vendor/*' ! -path src/Makevars ! -path src/pjrt-compiler \
            ! -name '*.o' ! -name '*.so' -exec sha256sum {} + | sort
    } | sha256sum
}

install_package() {
    mkdir -p "$library"
    stamp=$(package_stamp)
    if [ -d "$library/pjrt" ] && [ "$stamp" = "$(cat "$library/stamp" 2>/dev/null)" ]; then
        say "pjrt in $library is up to date"
        return 0
    fi
    say "building pjrt into $library (minutes the first time, seconds after that)"
    # these may be from another R
    rm -f src/*.o src/*.so
    if ! R CMD INSTALL --library="$library" . >"$library/install.log" 2>&1 </dev/null; then
        tail -n 60 "$library/install.log" >&2
        stop "the build failed: see $library/install.log"
    fi
    echo "$stamp" >"$library/stamp"
}

# Runs Rscript as from a terminal: background jobs ignore Ctrl-C, and R may pass this on to the sessions that tests interrupt.
rscript() {
    if env --default-signal=INT,QUIT true 2>/dev/null; then
        set -- env --default-signal=INT,QUIT Rscript --vanilla "$@"
    else
        set -- Rscript --vanilla "$@"
    fi
    "$@" </dev/null
}

r_version() {
    R --vanilla -s -e 'cat(format(getRversion()))'
}

install_plugin() {
    say "looking for the CPU plugin, and downloading it if missing (60 MB)"
    PJRT_INSTALL=1 Rscript -e 'pjrt::install_pjrt("cpu")' </dev/null || stop "cannot install the CPU plugin"
}

# Installs Python packages into .python/, with a Python wrapper that finds them: PJRT_TEST_PYTHON. If the variable is set
# already, nothing is installed. PJRT_TEST_TORCH_PYTHON is a wrapper that also finds the system's PyTorch, if there is one.
install_python() {
    [ -z "${PJRT_TEST_PYTHON:-}" ] || return 0
    PJRT_TEST_PYTHON=$PWD/.python/python
    export PJRT_TEST_PYTHON
    install_python_packages
    install_standard_mpi
    if .python/system -c 'import jax, torch' >/dev/null 2>&1; then
        PJRT_TEST_TORCH_PYTHON=$PWD/.python/system
        export PJRT_TEST_TORCH_PYTHON
    fi
}

# Unpacks an MPI with the standard ABI into .python/mpich: not every release has one. Without it, its test is skipped.
install_standard_mpi() {
    [ ! -d .python/mpich ] || return 0
    if python3 -m pip download --quiet --no-deps --only-binary :all: --disable-pip-version-check --dest .python/download \
        mpich==5.0.2 >>.python/install.log 2>&1 </dev/null; then
        python3 -m zipfile -e .python/download/mpich-*.whl .python/mpich
        chmod +x .python/mpich/*.data/data/bin/*
    fi
    rm -rf .python/download
}

install_python_packages() {
    python_stamp=$({ python3 --version && cat tools/python.txt; } | sha256sum)
    if [ "$python_stamp" = "$(cat .python/stamp 2>/dev/null)" ]; then
        say "the Python packages in .python are up to date"
        return 0
    fi
    say "installing the Python packages that tests use into .python"
    rm -rf .python
    mkdir .python
    if ! python3 -m pip install --target .python/packages --requirement tools/python.txt --only-binary :all: \
        --disable-pip-version-check --no-warn-conflicts >.python/install.log 2>&1 </dev/null; then
        tail -n 20 .python/install.log >&2
        stop "pip could not install the Python packages: see .python/install.log"
    fi
    printf '#!/bin/sh\nPYTHONPATH="$(dirname "$0")/packages" exec python3 "$@"\n' >.python/python
    printf '#!/bin/sh\nPYTHONPATH="$(dirname "$0")/packages" exec /usr/bin/python3 "$@"\n' >.python/system
    chmod +x .python/python .python/system
    echo "$python_stamp" >.python/stamp
}
