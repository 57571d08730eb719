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

# Prints the suffix of the packages with the newest Rust: "-web" where Debian also has one for its browsers, or empty.
newest_rust() {
    candidate() {
        apt-cache policy "$1" | sed -n 's/.*Candidate: \([0-9].*\)/\1/p'
    }
    ! dpkg --compare-versions "$(candidate rustc-web)" gt "$(candidate rustc)" || echo -web
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
    if [ ! -e "$1/suffix" ]; then
        update_index
        rust_suffix=$(newest_rust)
        say "unpacking Debian's rustc$rust_suffix into $1"
        library=$(dependency "libstd-rust$rust_suffix-dev" "libstd-rust$rust_suffix-")
        unpack "$1" "rustc$rust_suffix" "cargo$rust_suffix" "rust$rust_suffix-clippy" "rust$rust_suffix-src" \
            "libstd-rust$rust_suffix-dev" "$library" "$(dependency "$library" libllvm)"
        echo "$rust_suffix" >"$1/suffix"
    fi
    rust_suffix=$(cat "$1/suffix")
    missing=$(missing_packages "$(dependency "cargo$rust_suffix" libgit2)")
    # shellcheck disable=SC2086
    [ -z "$missing" ] || install_packages $missing
    PATH="$1/usr/bin:$PATH"
    LD_LIBRARY_PATH="$1/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export PATH LD_LIBRARY_PATH
    say "using $(rustc --version)"
}
