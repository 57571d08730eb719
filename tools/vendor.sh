#!/bin/sh
# Creates src/rust/vendor.tar.xz with the sources of all crates, so that a source package builds without a network.
# `R CMD build` includes the file if it exists. Remove it to build with downloaded crates again. For crates that none of
# the systems below needs, only the manifest is kept, because cargo reads it. Tests, benchmarks and examples of the others are
# removed.
set -eu
cd "$(dirname "$0")/../src/rust"
systems="x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin x86_64-pc-windows-gnu"

rm -rf vendor vendor.tar.xz
cargo vendor --locked --quiet --versioned-dirs vendor >/dev/null

needed=$(for system in $systems; do
    cargo tree --locked --edges normal,build --target "$system" --prefix none --format '{p}'
done | sed 's/^\([^ ]*\) v\([^ ]*\).*/\1-\2/' | sort -u)
for crate in vendor/*; do
    if ! echo "$needed" | grep -qxF "${crate#vendor/}"; then
        find "$crate" -type f ! -name Cargo.toml ! -name .cargo-checksum.json -delete
        find "$crate" -type d -empty -delete
        mkdir -p "$crate/src"
        : >"$crate/src/lib.rs"
        sed -i 's/"files":{[^}]*}/"files":{}/' "$crate/.cargo-checksum.json"
    elif ! grep -rqE 'include[a-z_]*!\("(\.\./)+(tests|benches|examples)/' "$crate/src"; then
        rm -rf "$crate/tests" "$crate/benches" "$crate/examples" "$crate/test-macros"
        sed -i -E 's/"(tests|benches|examples|test-macros)\/[^"]*":"[0-9a-f]{64}",?//g; s/,\}/}/g' "$crate/.cargo-checksum.json"
    fi
done

tar --create --xz --file vendor.tar.xz --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner vendor
rm -rf vendor
echo "wrote src/rust/vendor.tar.xz ($(du -h vendor.tar.xz | cut -f1))"
