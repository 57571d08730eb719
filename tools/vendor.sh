#!/bin/sh
# Creates src/rust/vendor.tar.xz with the sources of all crates, so that a source package builds without a network.
# `R CMD build` includes the file if it exists. Remove it to build with downloaded crates again. For crates that none of
# the systems below needs, only the manifest is kept, because cargo reads it. Tests, benchmarks and examples of the others are
# removed, and the largest files that are for other systems only: CRAN's limit for a source package is 10 MB.
set -eu
cd "$(dirname "$0")/../src/rust"
systems="x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin x86_64-pc-windows-gnu"

rm -rf vendor vendor.tar.xz
cargo vendor --locked --quiet --versioned-dirs vendor >/dev/null

# lines "crate-version features", with commas between the features
used=$(for system in $systems; do
    cargo tree --locked --edges normal,build --target "$system" --prefix none --format '{p}|{f}'
done | sed 's/^\([^ ]*\) v\([^ |]*\)[^|]*|\([^ ]*\).*/\1-\2 \3/' | sort -u)
needed=$(echo "$used" | cut -d ' ' -f 1 | sort -u)
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

# Removes files and folders of a crate, and their checksums.
remove() {
    crate=$1
    shift
    for path in "$@"; do
        [ -e "$crate/$path" ] || continue
        (cd "$crate" && find "$path" -type f) | sed 's/.*/s|"&":"[0-9a-f]*",\\{0,1\\}||/'
        rm -rf "${crate:?}/$path"
    done >remove.sed
    echo 's/,}/}/g' >>remove.sed
    sed -i -f remove.sed "$crate/.cargo-checksum.json"
    rm remove.sed
}

# The modules of windows-sys that no enabled feature needs: the feature Win32_System_IO has src/Windows/Win32/System/IO/.
for crate in vendor/windows-sys-*; do
    features=$(echo "$used" | grep "^${crate#vendor/} " | cut -d ' ' -f 2 | tr ',' '\n')
    unused=$(cd "$crate" && find src -path 'src/Windows/*/*.rs' | while read -r file; do
        feature=$(dirname "${file#src/Windows/}" | tr / _)
        echo "$features" | grep -qxF "$feature" || echo "$file"
    done)
    # shellcheck disable=SC2086
    remove "$crate" $unused
done
for crate in vendor/linux-raw-sys-*; do
    # shellcheck disable=SC2046
    remove "$crate" $(cd "$crate" && ls -d src/*/ | grep -vE '^src/(x86_64|aarch64)/$' | sed 's|/$||')
done
for crate in vendor/ring-*; do
    # shellcheck disable=SC2046
    remove "$crate" $(cd "$crate" && ls -d pregenerated/* | grep -E -e '-linux32[.]S|-x86-(elf|win32n)[.]|-win64[.]S|-armv[47]-')
done
for crate in vendor/libc-*; do
    for system in aix android cygwin emscripten fuchsia haiku hurd l4re newlib nto nuttx qurt redox solid teeos vxworks; do
        remove "$crate" "src/$system" "src/new/$system" "src/unix/$system" "src/unix/linux_like/$system"
    done
    remove "$crate" src/psp.rs src/unix/solarish src/unix/bsd/freebsdlike src/unix/bsd/netbsdlike src/unix/linux_like/linux/uclibc
done

tar --create --xz --file vendor.tar.xz --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner vendor
rm -rf vendor
echo "wrote src/rust/vendor.tar.xz ($(du -h vendor.tar.xz | cut -f1))"
