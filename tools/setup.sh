# shellcheck shell=sh
# Sourced by demo.sh and test.sh from the top folder of the checkout: sets up a Debian or Ubuntu machine and prints what it
# installs. It keeps what is already installed, so a second run takes seconds.
#
#   install_system    R and its packages, pip, pandoc, a browser and Rust
#   install_lint      Rust's formatter and linter, if available
#   install_package   this package, into a library in the checkout: .lib/, or .lib-VERSION/ for another R
#   install_friends   tengen and safetensors, into that library, if their sources are next to the checkout
#   install_plugin    the CPU plugin, into the user's cache
#   install_python    the Python packages that tests use, into .python/ in the checkout
#   use_r             switches to another R

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
library=.lib
R_LIBS="$PWD/$library${R_LIBS:+:$R_LIBS}"
export R_LIBS

# A folder next to the checkout that can contain the development version of R and the sources of R packages that Debian lacks.
kit=../shared/r-devel

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
        sudo --preserve-env=DEBIAN_FRONTEND "$@"
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

update_index() {
    [ -z "${index_updated:-}" ] || return 0
    say "updating the list of packages"
    as_root apt-get update -qq </dev/null || stop "apt-get update failed"
    index_updated=yes
}

install_packages() {
    update_index
    say "installing: $*"
    apt_log=$(mktemp)
    if ! as_root apt-get install -y -qq --no-install-recommends "$@" </dev/null >"$apt_log" 2>&1; then
        tail -n 20 "$apt_log" >&2
        stop "apt-get could not install these packages"
    fi
    rm -f "$apt_log"
}

# Prints the suffix of the apt packages with a recent enough Rust: empty, "-web" (Debian 12) or "-1.NN" (Ubuntu).
rust_ending() {
    minimum=$(sed -n 's/^SystemRequirements:.*rustc >= \([0-9.]*\).*/\1/p' DESCRIPTION)
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

# Puts a recent enough Rust on the PATH.
use_rust() {
    rust_bin=$(Rscript --vanilla tools/msrv.R 2>/dev/null) || return 1
    [ "$(command -v cargo)" = "$rust_bin/cargo" ] || PATH="$rust_bin:$PATH"
    export PATH
}

install_rust() {
    if ! use_rust; then
        update_index
        ending=$(rust_ending) || stop "apt has no recent enough Rust: install it with rustup (https://rustup.rs)"
        install_packages "rustc$ending" "cargo$ending"
        PATH="/usr/lib/rust$ending/bin:$PATH"
        use_rust || stop "the Rust from apt does not work"
    fi
    say "using $(rustc --version) in $rust_bin"
}

# Installs packages that not every system with apt has: without them, some tests are skipped.
install_optional() {
    for package in "$@"; do
        [ -n "$(missing_packages "$package")" ] || continue
        update_index
        if apt-cache policy "$package" | grep -q 'Candidate: [0-9]'; then
            install_packages "$package"
        fi
    done
}

install_system() {
    command -v dpkg-query >/dev/null || stop "this script sets up Debian and Ubuntu only: see README.md for other systems"
    missing=$(missing_packages ca-certificates r-base-core r-base-dev pandoc graphviz python3 python3-pip \
        r-cran-bit64 r-cran-callr r-cran-cli r-cran-future r-cran-ggplot2 r-cran-knitr r-cran-rmarkdown r-cran-testthat \
        r-cran-waldo r-cran-withr r-cran-checkmate r-cran-jsonlite r-cran-later r-cran-pillar r-cran-promises r-cran-r6 \
        r-cran-reticulate r-cran-rlang r-cran-shiny \
        libpython3-dev redis-server openmpi-bin libopenmpi3 libopenmpi-dev mpich libmpich12 r-cran-rmpi iproute2)
    if [ -n "$missing" ]; then
        # shellcheck disable=SC2086
        install_packages $missing
    fi
    # a browser, in which tests open Shiny apps, and PyTorch, of which pip has no small package
    install_optional chromium python3-torch
    install_rust
}

# Installs Rust's formatter and linter for a Rust from apt. rustup includes them.
install_lint() {
    if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
        return 0
    fi
    owner=$(dpkg-query --search "$rust_bin/cargo" 2>/dev/null | cut -d : -f 1)
    if [ -n "$owner" ]; then
        ending=${owner#cargo}
        install_packages "rustfmt$ending" "rust$ending-clippy"
    fi
}

# Prints a checksum of everything that the installed package is built from.
package_stamp() {
    {
        R --version | head -n 1
        rustc --version
        find DESCRIPTION NAMESPACE R configure inst man src tools/config.R tools/link.R tools/msrv.R -type f \
            ! -path 'src/rust/target/*' ! -path 'src/rust/vendor/*' ! -path src/Makevars ! -name '*.o' ! -name '*.so' \
            -exec sha256sum {} + | sort
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

# Installs R packages that tests use together with this one.
install_friends() {
    for package in tengen safetensors; do
        source=$kit/r-packages/$package
        [ -d "$source" ] && [ ! -d "$library/$package" ] || continue
        say "installing $package into $library"
        # the build may write to the source folder
        copy=$(mktemp -d)
        cp -R "$source" "$copy" && chmod -R u+w "$copy"
        R CMD INSTALL --no-docs --library="$library" "$copy/$package" >"$library/$package.log" 2>&1 </dev/null || {
            tail -n 20 "$library/$package.log" >&2
            stop "cannot install $package: see $library/$package.log"
        }
        rm -rf "$copy"
    done
}

r_version() {
    R --vanilla -s -e 'cat(format(getRversion()))'
}

# Makes `R` and `Rscript` run the given R, with a separate library. Missing packages are copied from the current R if they
# contain only R code.
use_r() {
    packages=$(Rscript --vanilla -e 'cat(.libPaths(), sep = ":")')
    # R warns on standard output about the R_HOME of another R
    unset R_HOME
    home=$("$1" RHOME 2>/dev/null) || stop "not an R executable: $1"
    PATH="$home/bin:$PATH"
    R_HOME=$home
    unset R_LIBS R_LIBS_SITE R_LIBS_USER
    library=.lib-$(r_version)
    mkdir -p "$library"
    R_LIBS=$PWD/$library
    export PATH R_HOME R_LIBS
    Rscript --vanilla tools/borrow.R "$library" "$packages" || stop "cannot copy R packages into $library"
}

# Unpacks the R of the kit into .r-devel/, if the kit exists, and prints the path of its executable.
kit_r() {
    [ -f "$kit/unpack.sh" ] || return 0
    kit_stamp=$({ echo "$PWD" && cat "$kit"/*.tar.* "$kit/unpack.sh"; } | sha256sum)
    if [ "$kit_stamp" != "$(cat .r-devel/stamp 2>/dev/null)" ]; then
        rm -rf .r-devel
        sh "$kit/unpack.sh" .r-devel >&2 || stop "cannot unpack the R of the kit"
        echo "$kit_stamp" >.r-devel/stamp
    fi
    echo "$PWD/.r-devel/bin/R"
}

install_plugin() {
    say "looking for the CPU plugin, and downloading it if missing"
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

# Unpacks an MPI with the standard ABI into .python/mpich: no Debian or Ubuntu has one yet. Without it, its test is skipped.
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
