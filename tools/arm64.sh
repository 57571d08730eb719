#!/bin/sh
# Runs the package on aarch64 Linux, emulated by qemu, on a Debian machine (amd64), as root:
#
#   sh tools/arm64.sh [TEST...]
#
# It unpacks Debian's arm64 R into a folder, cross-compiles the Rust code with arm64's standard library and installs the
# package in that folder. There it runs install_pjrt("cpu"), the tests of the small crates, the tests of data and libraries in
# the large ones, the demo, and the named R tests. This takes some minutes on an idle machine and is not part of CI.
#
# Tests that need MPI, Redis, Python or a browser are not among the default ones, because the folder has none of these.
#
# It unpacks packages without running their scripts, which would take half an hour under emulation. All files are in .arm64/
# (2 GB); ARM64_FOLDER names another folder. qemu-user-static, the cross compiler and the binfmt_misc entry for arm64 programs
# remain installed on the machine.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/setup.sh
. tools/debian-rust.sh
[ "$(id -u)" -eq 0 ] || stop "chroot requires root"
[ $# -gt 0 ] || set -- buffer transfer execute exactness dtype altrep async dlpack donation linear-algebra serialize tree

[ -e /usr/lib/binfmt.d/qemu-aarch64.conf ] || {
    update_index
    # the static qemu, which newer releases have under the second name only
    install_packages "$(available_packages qemu-user-static qemu-user-binfmt | head -n 1)"
}
missing=$(missing_packages gcc-aarch64-linux-gnu g++-aarch64-linux-gnu)
# shellcheck disable=SC2086
[ -z "$missing" ] || install_packages $missing

folder=${ARM64_FOLDER:-$PWD/.arm64}
root=$folder/root
target=aarch64-unknown-linux-gnu

# Runs apt for arm64 with this machine's package sources. It uses separate lists and a separate cache, and ignores installed
# packages.
apt_arm64() {
    command=$1
    shift
    "apt-$command" -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
        -o Dir::State="$folder/apt" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt" "$@"
}

fetch() {
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
    : >"$folder/apt/status"
    apt_arm64 get update || stop "apt-get update failed for arm64"
    # the packages from bash to findutils are part of every Debian
    apt_arm64 get install -y --download-only --no-install-recommends \
        bash dash coreutils debianutils diffutils grep sed gawk findutils tar gzip hostname libc-bin base-files \
        r-base-core r-cran-bit64 r-cran-callr r-cran-testthat r-cran-withr gcc g++ make libc6-dev python3-pip ||
        stop "apt-get could not fetch arm64's packages"
}

# Does the necessary parts of the packages' scripts.
configure_root() {
    printf '%s\n' /usr/lib/aarch64-linux-gnu/blas /usr/lib/aarch64-linux-gnu/lapack >"$root/etc/ld.so.conf.d/r.conf"
    ln -sfn which.debianutils "$root/usr/bin/which"
    ln -sfn gawk "$root/usr/bin/awk"
    ln -sfn gcc "$root/usr/bin/cc"
    cp "$root/usr/lib/R/etc/Renviron.ucf" "$root/etc/R/Renviron"
    echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
    mkdir -p "$root/etc/ssl/certs"
    cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
    inside ldconfig
}

make_root() {
    say "unpacking arm64's R into $root"
    mkdir -p "$folder/apt"
    fetch
    for name in bin sbin lib; do
        mkdir -p "$root/usr/$name"
        ln -sfn "usr/$name" "$root/$name"
    done
    for deb in "$folder"/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root" || stop "cannot unpack $deb"
    done
    mkdir -p "$root/proc" "$root/dev" "$root/tmp"
    chmod 1777 "$root/tmp"
    configure_root
    touch "$folder/complete"
}

# Runs a command inside the unpacked system.
inside() {
    nice -n 15 chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 R_LIBS=/library NOT_CRAN=true PJRT_TEST=1 \
        PIP_CERT=/etc/ssl/certs/ca-certificates.crt "$@"
}

# Makes the kernel run arm64 programs with qemu.
use_qemu() {
    [ -e /proc/sys/fs/binfmt_misc/register ] || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] ||
        cat /usr/lib/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register || stop "the kernel has no binfmt_misc"
}

mount_root() {
    cp /etc/resolv.conf "$root/etc/"
    mount --bind /proc "$root/proc" && mount --bind /dev "$root/dev" || stop "cannot mount into $root"
    trap 'umount "$root/proc" "$root/dev"' EXIT
}

# Cross-compiles the static library and the crates' tests for the R and the C library inside.
compile() {
    use_debian_rust "$folder/rust"
    [ -d "$folder/rust/usr/lib/rustlib/$target" ] || {
        (cd "$folder/apt" && apt_arm64 get download "libstd-rust$rust_suffix-dev") || stop "apt-get could not fetch arm64's Rust library"
        dpkg-deb --extract "$folder/apt/libstd-rust$rust_suffix-dev"_*.deb "$folder/rust"
    }
    export CARGO_TARGET_DIR="$folder/target" CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export R_HOME="$root/usr/lib/R" R_INCLUDE_DIR="$root/usr/share/R/include"
    say "compiling"
    cargo build --quiet --locked --package pjrt --package pjrt-compiler --release --target "$target" --manifest-path src/rust/Cargo.toml || stop "the build failed"
    cargo test --quiet --locked --no-run --release --target "$target" --manifest-path src/rust/Cargo.toml -p pjrt-base \
        -p pjrt-data -p pjrt-ffi -p pjrt-handlers -p pjrt-lapack -p pjrt-store -p pjrt-mpi -p pjrt-plugins -p pjrt-core \
        --lib --message-format json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' >"$folder/test-programs"
    [ "$(wc -l <"$folder/test-programs")" -eq 9 ] || stop "the crates' tests were not built"
    unset R_HOME R_INCLUDE_DIR
}

# Runs R CMD INSTALL inside, with dummy Rust tools, because the library is already compiled.
install_inside() {
    rm -rf "$root/pjrt"
    mkdir -p "$root/pjrt" "$root/library" "$root/rust/bin" "$root/target/release"
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$root/pjrt"
    for tool in rustc cargo; do
        printf '#!/bin/sh\n[ "$1" != --version ] || echo "%s"\n' "$($tool --version)" >"$root/rust/bin/$tool"
        chmod +x "$root/rust/bin/$tool"
    done
    cp "$folder/target/$target/release/libpjrt.a" "$folder/target/$target/release/pjrt-compiler" "$root/target/release/"
    inside PATH=/rust/bin:/usr/sbin:/usr/bin CARGO_TARGET_DIR=/target R CMD INSTALL --no-docs --library=/library /pjrt
}

status=0
part() {
    say "$1"
    shift
    "$@" || {
        echo "FAILED"
        status=1
    }
}

crate_tests() {
    plugin=$(inside Rscript -e 'cat(pjrt:::plugin_path("cpu"))') || return 1
    while read -r program; do
        cp "$program" "$root/tmp/crate-tests"
        # of the large crates, what depends on the processor; all of the others
        case $program in
            */pjrt_core-* | */pjrt_data-* | */pjrt_plugins-*)
                modules="convert:: transpose:: minifloat:: registers:: cpu_features:: library:: decimal:: dlpack::"
                ;;
            *) modules= ;;
        esac
        # shellcheck disable=SC2086
        inside PJRT_PLUGIN_PATH_CPU="$plugin" /tmp/crate-tests $modules || return 1
    done <"$folder/test-programs"
}

r_tests() {
    inside sh -c "cd /pjrt && Rscript -e 'testthat::test_file(\"tests/testthat/test-$1.R\", package = \"pjrt\",
        load_package = \"installed\", reporter = \"summary\", stop_on_failure = TRUE)'"
}

use_qemu
[ -e "$folder/complete" ] || make_root
mount_root
compile
part "R CMD INSTALL" install_inside
part "install_pjrt" inside Rscript -e 'library(pjrt); print(install_pjrt("cpu")); print(pjrt_client("cpu"))'
part "tests of the crates" crate_tests
part "demo" inside sh -c 'cd /pjrt && Rscript tools/demo.R'
for test in "$@"; do
    part "test-$test.R" r_tests "$test"
done
exit "$status"
