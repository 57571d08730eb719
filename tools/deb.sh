#!/bin/sh
# Builds a Debian package with the recipe in tools/debian. The build has no network: it uses the vendored crates.
#
#   sh tools/deb.sh build    builds into .deb/ with the tools of this machine
#   sh tools/deb.sh test     builds into .deb/ in a bare chroot, with Debian's Rust, and does the next:
#   sh tools/deb.sh install  installs the package in .deb/ in a bare chroot that has only R, and pip, which knows the index of
#                            plugins. Prints sizes, times and the first result of a program.
#
# A chroot needs root, who may mount, and debootstrap.
#
# PJRT_DEB_SOURCE=pjrt_x.y.z.tar.gz builds this source package instead of the checkout. It must contain the crates.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
out=$PWD/.deb
mode=${1:-}
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
# a program for bash: runs a command and prints what it took
timed='TIMEFORMAT="==> $0: %R s, user %U s, system %S s"; time "$@"'

# Creates the folder $work/source: an unpacked source package with the recipe, and the archive that Debian calls "orig" next
# to it.
make_source() {
    source=${PJRT_DEB_SOURCE:-}
    if [ -z "$source" ]; then
        say "making a source package"
        mkdir "$work/pjrt"
        git ls-files -z | tar --create --null --files-from=- | tar --extract --directory "$work/pjrt"
        crates=src/rust/vendor.tar.xz
        if [ "$crates" -nt src/rust/Cargo.lock ]; then
            cp "$crates" "$work/pjrt/$crates"
        else
            sh "$work/pjrt/tools/vendor.sh"
        fi
        (cd "$work" && R CMD build --no-build-vignettes pjrt >build.log 2>&1) || { cat "$work/build.log"; stop "R CMD build failed"; }
        rm -rf "$work/pjrt"
        source=$(echo "$work"/pjrt_*.tar.gz)
    fi
    tar --extract --file "$source" --directory "$work"
    mv "$work/pjrt" "$work/source"
    [ -f "$work/source/src/rust/vendor.tar.xz" ] || stop "the source package has no crates"
    version=$(sed -n 's/^Version: //p' "$work/source/DESCRIPTION")
    cp "$source" "$work/r-other-pjrt_$version.orig.tar.gz"
    cp -R tools/debian "$work/source/debian"
    # DESCRIPTION is the only place with the version
    cat >"$work/source/debian/changelog" <<END
r-other-pjrt ($version-1) unstable; urgency=medium

  * Version $version, see NEWS.md.

 -- $(sed -n 's/^Maintainer: //p' tools/debian/control)  $(git log -1 --format=%cD)
END
}

# Copies the results to .deb/.
keep() {
    mkdir -p "$out"
    rm -f "$out"/r-other-pjrt*
    cp "$work"/r-other-pjrt_* "$out"
    (cd "$out" && ls -l r-other-pjrt_*)
}

build_here() {
    # the build has another HOME, in which rustup does not find its toolchains
    use_rust || stop "there is no recent enough Rust"
    PATH=$(rustc --print sysroot)/bin:$PATH
    (cd "$work/source" && dpkg-checkbuilddeps -d 'debhelper-compat (= 13), dh-r, r-base-dev, r-cran-bit64') || stop "install these first"
    say "building; load $(cut -d ' ' -f 1 /proc/loadavg)"
    # -d: Rust need not come from a Debian package
    (cd "$work/source" && bash -c "$timed" built dpkg-buildpackage -d -us -uc) >"$work/log" 2>&1 || failed "the build failed"
    grep -E '^(==> |using (rustc|cargo))|Using r-' "$work/log"
}

failed() {
    tail -n 60 "$work/log"
    stop "$1"
}

# Builds as a user without a home folder and without a network.
build_in() {
    say "installing what the build needs"
    mkdir "$1/build"
    mv "$work/source" "$work"/*.orig.tar.gz "$1/build/"
    enter "$1" sh -c 'cd /build/source && apt-get build-dep -y -qq --no-install-recommends ./' >"$work/log" 2>&1 ||
        failed "cannot install what the build needs"
    chown -R 1000:1000 "$1/build"
    say "building; load $(cut -d ' ' -f 1 /proc/loadavg)"
    enter "$1" bash -c "$timed" built unshare --net setpriv --reuid=1000 --regid=1000 --clear-groups \
        env -i PATH=/usr/bin:/bin LANG=C.UTF-8 sh -c 'cd /build/source && dpkg-buildpackage -us -uc' >"$work/log" 2>&1 ||
        failed "the build failed"
    grep -E '^(==> |using (rustc|cargo))|Using r-' "$work/log"
    mv "$1"/build/r-other-pjrt_* "$work/"
}

# Installs the package as the first one after R, and runs a program.
install_in() {
    say "installing R and pip"
    enter "$1" apt-get install -y -qq --no-install-recommends r-base-core python3-pip >"$work/log" 2>&1 ||
        failed "cannot install R and pip"
    cp "$out"/r-other-pjrt_*.deb "$1/tmp/"
    cat >"$1/tmp/first.R" <<'END'
library(pjrt)
square <- pjrt_compile(pjrt_program(path = system.file("programs", "square.mlir", package = "pjrt")))
cat("the square of 3 is", as_array(pjrt_execute(square, pjrt_scalar(3))), "\n")
END
    say "installing the package; load $(cut -d ' ' -f 1 /proc/loadavg)"
    {
        enter "$1" bash -c "$timed" "installed the package" sh -c 'apt-get install -y -qq /tmp/r-other-pjrt_*.deb' &&
            enter "$1" bash -c "$timed" "downloaded the plugin" Rscript -e 'pjrt::install_pjrt("cpu")' &&
            enter "$1" bash -c "$timed" "first result" Rscript /tmp/first.R &&
            enter "$1" bash -c "$timed" "same result in another session" Rscript /tmp/first.R
    } >"$work/log" 2>&1 || failed "the package does not work"
    grep -E '^(==> |Setting up|the square)' "$work/log"
    grep -q '^the square of 3 is 9 $' "$work/log" || failed "wrong result"
    # ${...} is for dpkg-query
    # shellcheck disable=SC2016
    enter "$1" dpkg-query -W -f='${Package}: ${Installed-Size} kB installed; Depends: ${Depends}\n' r-other-pjrt
    echo "plugin: $(du -sm "$1/root/.cache/R/pjrt" | cut -f 1) MB installed"
}

case $mode in
build)
    make_source
    build_here
    keep
    ;;
test | install)
    . tools/chroots.sh
    [ "$mode" = install ] || make_source
    make_root "$work/base"
    enter "$work/base" apt-get update -qq
    cp -a "$work/base" "$work/other"
    if [ "$mode" = test ]; then
        build_in "$work/base"
        keep
    fi
    install_in "$work/other"
    ;;
*) stop "usage: sh tools/deb.sh build|test|install" ;;
esac
