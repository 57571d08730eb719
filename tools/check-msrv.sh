#!/bin/sh
# Checks that an old Rust, and none at all, are refused with the way to get a new one, and that the oldest Rust is the same
# everywhere it is named. Run by tools/test.sh.
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

# A folder with a cargo, and a rustc of this version.
stand_in() {
    mkdir -p "$work/$1"
    printf '#!/bin/sh\n' >"$work/$1/cargo"
    printf '#!/bin/sh\necho "rustc %s (0000000 2020-01-01)"\n' "$1" >"$work/$1/rustc"
    chmod +x "$work/$1/cargo" "$work/$1/rustc"
}

# What tools/msrv.R says with these folders, and what R itself needs, on the PATH.
find_rust() {
    mkdir -p "$work/system"
    for name in sh rm uname sed grep which; do
        ln -sf "$(command -v $name)" "$work/system/$name"
    done
    HOME=$work/home CARGO_HOME=$work/home/.cargo PATH="$1$work/system" "$rscript" --vanilla tools/msrv.R 2>&1
}

minimum=$(sed -n 's/^SystemRequirements:.*rustc >= \([0-9.]*\).*/\1/p' DESCRIPTION)
[ -n "$minimum" ] || fail "DESCRIPTION names no oldest Rust"
grep -qF "rust-version = \"$minimum\"" src/rust/Cargo.toml || fail "src/rust/Cargo.toml names another oldest Rust"
grep -qF "Rust >= $minimum" README.md || fail "README.md names another oldest Rust"

stand_in 1.40.0
stand_in "$minimum.0"
said=$(find_rust "$work/1.40.0:") && fail "an old Rust was taken"
for part in "rustc >= $minimum" "'$work/1.40.0' has rustc 1.40.0, which is too old" https://rustup.rs \
    "apt-get install rustc-web cargo-web" "apt-get install rustc cargo"; do
    case $said in *"$part"*) ;; *) fail "The message lacks '$part':" "$said" ;; esac
done
said=$(find_rust "") && fail "no Rust was taken for one"
case $said in *"There is no cargo on the PATH"*https://rustup.rs*) ;; *) fail "Without Rust it says:" "$said" ;; esac
said=$(find_rust "$work/1.40.0:$work/$minimum.0:") || fail "the oldest Rust was refused"
[ "$said" = "$work/$minimum.0" ] || fail "The oldest Rust was not found:" "$said"
exit $status
