#!/bin/sh
# Checks that configuring fails with installation instructions if Rust is too old or missing, and that all files name the same
# minimum Rust version. Run by tools/test.sh.
set -u
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rscript=$(R RHOME)/bin/Rscript
status=0

fail() {
    echo "$*"
    status=1
}

# Creates a folder with a dummy cargo and a dummy rustc of this version.
stand_in() {
    mkdir -p "$work/$1"
    printf '#!/bin/sh\n' >"$work/$1/cargo"
    printf '#!/bin/sh\necho "rustc %s (0000000 2020-01-01)"\n' "$1" >"$work/$1/rustc"
    chmod +x "$work/$1/cargo" "$work/$1/rustc"
}

# Prints the output of tools/msrv.R when the PATH contains only these folders and the tools that R needs.
find_rust() {
    mkdir -p "$work/system"
    for name in sh rm uname sed grep which; do
        ln -sf "$(command -v $name)" "$work/system/$name"
    done
    HOME=$work/home CARGO_HOME=$work/home/.cargo PATH="$1$work/system" "$rscript" --vanilla tools/msrv.R 2>&1
}

minimum=$(sed -n 's/^SystemRequirements:.*rustc >= \([0-9.]*\).*/\1/p' DESCRIPTION)
[ -n "$minimum" ] || fail "DESCRIPTION names no minimum Rust version"
grep -qF "rust-version = \"$minimum\"" src/rust/Cargo.toml || fail "src/rust/Cargo.toml names another minimum Rust version"
grep -qF "Rust >= $minimum" README.md || fail "README.md names another minimum Rust version"

stand_in 1.40.0
stand_in "$minimum.0"
said=$(find_rust "$work/1.40.0:") && fail "An old Rust was accepted."
for part in "rustc >= $minimum" "'$work/1.40.0' has rustc 1.40.0, which is too old" https://rustup.rs \
    "apt-get install rustc-web cargo-web" "apt-get install rustc cargo"; do
    case $said in *"$part"*) ;; *) fail "The message lacks '$part':" "$said" ;; esac
done
said=$(find_rust "") && fail "A missing Rust was accepted."
case $said in *"There is no cargo on the PATH"*https://rustup.rs*) ;; *) fail "Wrong message without Rust:" "$said" ;; esac
said=$(find_rust "$work/1.40.0:$work/$minimum.0:") || fail "The minimum Rust version was refused."
[ "$said" = "$work/$minimum.0" ] || fail "The minimum Rust version was not found:" "$said"
exit $status
