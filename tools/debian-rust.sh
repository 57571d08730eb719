# shellcheck shell=sh
# Sourced after setup.sh by scripts that compile for other platforms. It provides Debian's newest Rust with the source of its
# standard library, unpacked into a folder, so that the installed Rust does not change. The libraries of cargo are installed.
#
#   use_debian_rust FOLDER    unpacks it once and puts it on the PATH
#   unpack FOLDER PACKAGE...  downloads and unpacks packages

# Prints the first dependency of a package whose name starts with the given prefix.
dependency() {
    apt-cache depends "$1" | sed -n "s/.*Depends: \($2.*\)/\1/p" | head -n 1
}

unpack() {
    into=$1
    shift
    debs=$(mktemp -d)
    chmod 755 "$debs"
    (cd "$debs" && apt-get download -qq -o APT::Sandbox::User=root "$@") || stop "apt-get could not fetch: $*"
    mkdir -p "$into"
    for deb in "$debs"/*.deb; do
        dpkg-deb --extract "$deb" "$into" || stop "cannot unpack $deb"
    done
    rm -rf "$debs"
}

use_debian_rust() {
    if [ ! -e "$1/complete" ]; then
        update_index
        say "unpacking Debian's rustc-web into $1"
        library=$(dependency libstd-rust-web-dev libstd-rust-web-)
        unpack "$1" rustc-web cargo-web rust-web-clippy rust-web-src libstd-rust-web-dev "$library" \
            "$(dependency "$library" libllvm)"
        touch "$1/complete"
    fi
    missing=$(missing_packages "$(dependency cargo-web libgit2)")
    # shellcheck disable=SC2086
    [ -z "$missing" ] || install_packages $missing
    PATH="$1/usr/bin:$PATH"
    LD_LIBRARY_PATH="$1/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export PATH LD_LIBRARY_PATH
    say "using $(rustc --version)"
}
