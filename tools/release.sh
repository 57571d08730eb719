#!/bin/sh
# Checks what can be checked before a release, and prints what remains to be done by hand:
#
#   sh tools/release.sh          everything, which takes hours
#   sh tools/release.sh --quick  without the tests and R CMD check
#
# Prints "ok" or "FAILED" for each item, and fails if one failed.
set -u
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

item() {
    name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        echo "ok      $name"
    else
        echo "FAILED  $name"
        tail -n 20 "$work/log" | sed 's/^/        /'
        failures=$((failures + 1))
    fi
}

version=$(sed -n 's/^Version: //p' DESCRIPTION)

same_version() {
    grep -qx "version = \"$version\"" src/rust/Cargo.toml || { echo "src/rust/Cargo.toml has another version"; return 1; }
    [ "$(head -n 1 NEWS.md)" = "# pjrt $version" ] || { echo "NEWS.md starts with another version"; return 1; }
}

clean_tree() {
    [ -z "$(git status --porcelain)" ] || { git status --short; return 1; }
}

# DESCRIPTION and Cargo.toml name the same authors, and LICENSE has them.
same_authors() {
    authors=$(sed -n 's/^Authors@R: person("\([^"]*\)".*/\1/p' DESCRIPTION)
    [ -n "$authors" ] && grep -q "\"$authors <" src/rust/Cargo.toml && grep -q "$authors" LICENSE
}

build_package() {
    git archive --prefix=pjrt/ HEAD | tar -xf - -C "$work" && (cd "$work" && R CMD build --no-build-vignettes pjrt)
}

# A source package without crates has little more than text.
small_package() {
    size=$(wc -c <"$work/pjrt_$version.tar.gz") || return 1
    echo "$size bytes"
    [ "$size" -le 5000000 ]
}

# CRAN's limit for a source package with its crates.
vendored_package() {
    (cd "$work" && sh pjrt/tools/vendor.sh && R CMD build --no-build-vignettes pjrt) || return 1
    size=$(wc -c <"$work/pjrt_$version.tar.gz")
    echo "$size bytes"
    [ "$size" -le 10000000 ]
}

check_package() {
    (cd "$work" && R CMD check --no-manual --no-tests --ignore-vignettes "pjrt_$version.tar.gz") || return 1
    ! grep '^Status:.*\(ERROR\|WARNING\)' "$work/pjrt.Rcheck/00check.log"
}

# Licences, sources and duplicates of crates.
allowed_crates() {
    command -v cargo-deny >/dev/null || {
        echo "cargo-deny is missing: cargo install cargo-deny --locked"
        return 1
    }
    cargo deny --manifest-path src/rust/Cargo.toml --locked check --hide-inclusion-graph licenses bans sources
}

item "the version is $version in DESCRIPTION, Cargo.toml and NEWS.md" same_version
item "nothing is uncommitted" clean_tree
item "the authors agree in DESCRIPTION, Cargo.toml and LICENSE" same_authors
item "the style of R code" Rscript --vanilla tools/lint.R
item "the wording" sh tools/words.sh
item "the licences of crates" Rscript --vanilla tools/authors.R --check
item "the crates are those that deny.toml allows" allowed_crates
item "R CMD build" build_package
item "the source package has at most 5 MB" small_package
if [ "${1:-}" != --quick ]; then
    item "R CMD check" check_package
    item "all tests" env CI=true sh tools/test.sh
    item "both commands on Debian 13 and sid" env CI=true sh tools/releases.sh trixie sid
    item "the long tests" sh tools/soak.sh
    item "the source package with crates has at most 10 MB" vendored_package
fi

cat <<END

By hand:
  1. Read NEWS.md as a user of the last release.
  2. Run the tests on a machine with a GPU: Rscript tools/gpu-check.R
  3. Run sh tools/cross.sh, sh tools/arm64.sh, sh tools/memcheck.sh (unless soak.sh did) and sh tools/deb.sh test, and renew
     bench/results.
  4. Look for known problems of crates: cargo deny --manifest-path src/rust/Cargo.toml check advisories
     It downloads the list of problems. Run each fuzz target for an hour: sh tools/fuzz.sh 3600
  5. Compare the list of plugins, inst/plugins.toml, with what the index has. Check the source package with the crates as
     cran-comments.md describes, and renew that file.
  6. Tag the commit: git tag -a v$version
  7. Publish the source package, with and without the crates (sh tools/vendor.sh), and their SHA-256.
  8. Raise the version in DESCRIPTION and src/rust/Cargo.toml, and start a section in NEWS.md.
END
[ "$failures" -eq 0 ]
