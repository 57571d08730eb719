#!/bin/sh
# Compiles the Rust code for Windows and macOS on a Debian machine (amd64), with Debian's newest Rust, which builds the
# standard library from source. It prints the result for each target on one line:
#
#   sh tools/cross.sh [TARGET...]
#
# check    cargo check of the package's code
# clippy   clippy of all code, including tests, without warnings
# linked   only for Windows, with mingw-w64: the DLL, linked with the flags of configure, and its exports
#
# The code is not run. Rust and the build are in .cross/ (3 GB); CROSS_FOLDER names another folder.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/setup.sh
. tools/debian-rust.sh
windows=x86_64-pc-windows-gnu
[ $# -gt 0 ] || set -- $windows aarch64-apple-darwin x86_64-apple-darwin

missing=$(missing_packages gcc-mingw-w64-x86-64-posix g++-mingw-w64-x86-64-posix binutils-mingw-w64-x86-64)
# shellcheck disable=SC2086
[ -z "$missing" ] || install_packages $missing

folder=${CROSS_FOLDER:-$PWD/.cross}
mkdir -p "$folder/darwin" "$folder/dll"
use_debian_rust "$folder/rust"

# Two crates have build scripts: extendr-ffi queries R's version, and ring compiles C. Checking Rust code needs no C compiler for
# macOS, so a dummy compiler creates empty object files.
R_HOME=$(R RHOME)
R_INCLUDE_DIR=$(Rscript --vanilla -e 'cat(R.home("include"))')
cat >"$folder/darwin/cc" <<'END'
#!/bin/sh
# answers ring's query for the compiler's name
case " $* " in
    *" -E "*) echo '#pragma message "clang"' ;;
    *" -? "*) exit 1 ;;
esac
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || : >"$2"
    shift
done
END
chmod +x "$folder/darwin/cc"
export R_HOME R_INCLUDE_DIR SDKROOT="$folder/darwin"
export CC_aarch64_apple_darwin="$folder/darwin/cc" CC_x86_64_apple_darwin="$folder/darwin/cc"
export CC_x86_64_pc_windows_gnu=x86_64-w64-mingw32-gcc-posix
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$folder/target" CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0

# Runs a cargo command with its arguments.
rust() {
    command=$1
    shift
    cargo "$command" --quiet --locked --manifest-path src/rust/Cargo.toml -Zbuild-std=std,panic_unwind,test \
        --target "$target" "$@"
}

# Clippy reports const thread-locals wrongly on targets that emulate them, such as mingw.
lint() {
    rust clippy --workspace --all-targets -- -D warnings -A clippy::missing_const_for_thread_local
}

# Creates the import library of R.dll, which R for Windows includes, from the symbols that this R exports and the library uses.
import_r() {
    nm --dynamic --defined-only "$R_HOME/lib/libR.so" | awk '{print $3}' | sort >"$folder/dll/exported"
    x86_64-w64-mingw32-nm "$1" 2>/dev/null | awk '$1 == "U" {print $2}' | sort -u >"$folder/dll/used"
    {
        echo "LIBRARY R.dll"
        echo "EXPORTS"
        comm -12 "$folder/dll/exported" "$folder/dll/used"
    } >"$folder/dll/R.def"
    x86_64-w64-mingw32-dlltool --def "$folder/dll/R.def" --output-lib "$folder/dll/libR.dll.a"
}

# Links the DLL as R for Windows does, see share/make/winshlib.mk there.
link_dll() {
    rust build --package pjrt || return 1
    library=$CARGO_TARGET_DIR/$target/debug
    flags=$(Rscript --vanilla -e 'source("tools/link.R"); cat(link_flags("Windows"))')
    import_r "$library/libpjrt.a" || return 1
    x86_64-w64-mingw32-gcc-posix -Wall -O2 -c src/entrypoint.c -o "$folder/dll/entrypoint.o" &&
        x86_64-w64-mingw32-g++-posix -Wall -O2 -c src/guard.cpp -o "$folder/dll/guard.o" || return 1
    # shellcheck disable=SC2086
    x86_64-w64-mingw32-g++-posix -shared -s -static-libgcc -o "$folder/dll/pjrt.dll" src/pjrt-win.def \
        "$folder/dll/entrypoint.o" "$folder/dll/guard.o" -L"$library" -lpjrt $flags -L"$folder/dll" -lR
}

# Prints the names in a DLL's export table.
exports() {
    x86_64-w64-mingw32-objdump -p "$1" | awk '/Ordinal\/Name Pointer/ {on = 1; next} on && NF == 0 {exit} on {print $NF}'
}

# Prints the end of the line for Windows.
linked() {
    link_dll >"$log" 2>&1 || {
        echo ", NOT linked"
        return 1
    }
    names=$(exports "$folder/dll/pjrt.dll" | tr '\n' ' ')
    [ "$names" = "R_init_pjrt " ] || {
        echo ", pjrt.dll exports WRONG names: $names"
        return 1
    }
    echo ", linked pjrt.dll (1 export: R_init_pjrt)"
}

# Runs a step and adds its result to the line.
step() {
    name=$1
    shift
    if "$@" >"$log" 2>&1; then
        line="$line $name ok"
    else
        line="$line $name FAILED"
        cat "$log"
        status=1
    fi
}

status=0
log=$folder/log
for target in "$@"; do
    say "$target"
    line="$target:"
    step "check" rust check --workspace
    line="$line,"
    step "clippy" lint
    if [ "$target" = "$windows" ]; then
        end=$(linked) || {
            cat "$log"
            status=1
        }
        line="$line$end"
    fi
    echo "$line"
done
exit $status
