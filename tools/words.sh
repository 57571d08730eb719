#!/bin/sh
# Finds awkward wording in documentation, comments, messages and test names, and suggests what to write:
#
#   sh tools/words.sh [PATH...]     checks these files and folders, by default the whole checkout
#   sh tools/words.sh --self-test   checks the lint itself
#
# Prints FILE:LINE for each match and fails if there is any. It also finds phrases that are split over two lines. In
# tests/testthat, it checks only comments and test names. Matching ignores case.
set -u
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Phrases to avoid: an extended regular expression, which matches whole words, and the advice.
cat >"$work/patterns" <<'END'
what is no [a-z]+            # write: "a value that is not ...", or name the thing
what are no [a-z]+           # write: "values that are not ...", or name the thing
(is|was|be) no [a-z]+        # write: "is not a ..."
(are|were) no [a-z]+         # write: "are not ..."
(is|are) none                # write: "does not exist", "is not a ...", or "there is no ..."
comes? twice                 # write: "is duplicated", "occurs twice" or "must be unique"
tells? (how|whether|what|which|where) # write: "shows", "returns", "describes" or "checks whether"
each (one )?of (its|their) own # write: "unique", "its own ..." or "separate"
(which|that) (is|are|was|were) not there # write: "does not exist", "is missing" or "is not available"
says (of|no)                 # write: "states that ... is not", or "reports about"
to [a-z]+ takes              # write: "compiling needs ..."
is told by                   # write: "determines", or "... depends on"
(one|those|others|some|these) among them # write: "including ..."
knows (no|nothing)           # write: "does not know ...", or "does not depend on ..."
gives? it back               # write: "returns it"
what (it|they) (takes?|gives?) # write: "its inputs and outputs", or name the thing
for want of                  # write: "without", or "because ... is missing"
as ever                      # write: "as usual", "still" or "unchanged"
lest                         # write: "so that ... not"
those of                     # write: the noun again: "the names of ...", or "X's names"
of which                     # write: two sentences, or "including", "whose", "... of them"
as far as                    # write: "if", "where" or "up to"
such that                    # write: "so that", or "with"
tells                        # write: "returns", "shows" or "reports"
needs? (it|them) no more     # write: "no longer needs ..."
END

# Acceptable phrases, which are removed before the search.
cat >"$work/allowed" <<'END'
there ((is|was|are|were|will be|should be|would be|may be|can be|must be) )?no
(is|are|was|were) there no
(is|are|was|were|be) no (longer|more|less|larger|smaller|greater|bigger|newer|older|later|earlier|faster|slower|better|worse|wider)
there (is|are|was|were) none
END

cat >"$work/words.awk" <<'END'
function whole(regex) { return "(^|[^a-z0-9_])(" regex ")([^a-z0-9_]|$)" }

# The advice of the first pattern that matches.
function advice(text,    i) {
    text = permitted(text)
    for (i = 1; i <= count; i++) if (text ~ pattern[i]) return text_of[i]
}

# The text without the allowed phrases.
function permitted(text) {
    while (text ~ allowed) sub(allowed, " - ", text)
    return text
}

function report(line, text, shown) {
    sub(/^[ \t]+/, "", shown)
    printf "%s:%d: %s\n    %s\n", FILENAME, line, advice(text), shown
}

BEGIN {
    while ((getline line < (work "/patterns")) > 0) {
        split_at = index(line, "# write:")
        regex = substr(line, 1, split_at - 1)
        sub(/ +$/, "", regex)
        pattern[++count] = whole(regex)
        text_of[count] = substr(line, split_at + 2)
        any = any (count > 1 ? "|" : "") regex
    }
    while ((getline line < (work "/allowed")) > 0) allowed = allowed (allowed == "" ? "" : "|") line
    any = whole(any)
    allowed = whole(allowed)
}

FNR == 1 {
    last = ""
    in_tests = FILENAME ~ /tests\/testthat\//
    rust = FILENAME ~ /\.rs$/
}

{
    text = tolower($0)
    # names of Rust tests are sentences, too
    if (rust && text ~ /^ *(async )?fn [a-z0-9]+_[a-z0-9]+_[a-z0-9]+_/) gsub(/_/, " ", text)
    if (in_tests && text !~ /^ *#/ && text !~ /^ *(test_that|describe|it)\(/) text = ""
    sub(/^[ \t]*(#'|#|\/\/[\/!]?|"""|\*|-|>)?[ \t]*/, "", text)
    sub(/[ \t\\]+$/, "", text)
    # list items and blank lines start a new sentence
    if (text == "" || $0 ~ /^ *[-*] /) last = ""
    # prepend the end of the previous line, to find split phrases
    joined = substr(last, length(last) > 40 ? length(last) - 39 : 1) " " text
    last = text
    if (joined ~ any) {
        last = permitted(joined)
        if (last ~ any) {
            if (permitted(text) ~ any) report(FNR, text, $0)
            else report(FNR - 1, joined, joined)
            last = ""
        }
    }
}
END

# Prints the matches in the named files and folders.
find_words() {
    find "$@" \( -name target -o -name vendor -o -name _snaps -o -name results -o -name '.[a-z]*' ! -name .ci ! -name . \) -prune \
        -o -type f \( -name '*.md' -o -name '*.Rmd' -o -name '*.R' -o -name '*.rs' -o -name '*.sh' -o -name '*.py' -o -name '*.c' \
        -o -name '*.cpp' -o -name '*.toml' -o -name '*.yml' -o -name '*.supp' -o -name '*.in' -o -name '*.mlir' -o -name DESCRIPTION \
        -o -name 'configure*' -o -name cleanup -o -path '*.ci/*' \) ! -name bindings.rs ! -name words.sh \
        -exec awk -v work="$work" -f "$work/words.awk" {} +
}

self_test() {
    mkdir -p "$work/self/tests/testthat"
    cat >"$work/self/prose.md" <<'END'
bad: What is no plugin is told by its class.
bad: What are no buffers is refused.
bad: The file is no plugin.
bad: There must be one; it IS NO text in UTF-8.
bad: Dimensions that are no numbers are refused.
bad: `x` are counted from 0; -1 is none.
bad: A name comes twice.
bad: It tells how it goes.
bad: Options must have names, each one of its own.
bad: It needs 3 GB of memory, which are not there.
bad: What the plugin says of itself.
bad: To compile takes 3 GB of memory.
bad: Its kind is told by its class.
bad: Many types are supported, those among them.
bad: The core knows nothing of R.
bad: The function gives it back.
bad: An executable tells what it takes and gives.
bad: An executable shows what it takes and gives.
bad: It fails for want of memory.
bad: R ends as ever.
bad: It waits, lest the plugin ends.
bad: The names are those of the inputs.
bad: There are two devices, of which one is used.
bad: It reads as far as it can.
bad: A name such that it fits.
bad: The index tells the file.
bad: The device needs them no more.
bad: The buffer is
no array at all.
good: There is no plugin, and there are no devices.
good: It fails if there is none, and there must be no more.
good: The buffer is no longer valid, and takes no memory.
good: It has no name. The file is not a plugin.
good: A shard is no larger than this.
good: Where is it? No plugin was found.
good: `x` must be non-negative: got -1. `is_none()` stays.
good: Each device has its own memory.
good: The sentence says that there
is no plugin here.
good: The answer is

no plugin.
END
    cat >"$work/self/tests/testthat/test-x.R" <<'END'
test_that("a file that is no plugin is refused", {
  # this is no comment
  expect_error(f(), "is no plugin")
})
END
    cat >"$work/self/x.rs" <<'END'
/// A file that is no plugin.
fn a_text_is_no_plugin() {
    assert!(value.is_none());
}
fn is_none() {}
END
    (cd "$work/self" && find_words .) >"$work/found"
    {
        grep -n '^bad: ' "$work/self/prose.md" | sed 's/^\([0-9]*\):.*/prose.md:\1/'
        printf '%s\n' tests/testthat/test-x.R:1 tests/testthat/test-x.R:2 x.rs:1 x.rs:2
    } | sort >"$work/expected"
    sed -n 's/^\.\/\([^:]*:[0-9]*\): .*/\1/p' "$work/found" | sort >"$work/reported"
    diff "$work/expected" "$work/reported" || {
        cat "$work/found"
        return 1
    }
    sed -n 's/.*# \(write: .*\)/\1/p' "$work/patterns" | while read -r line; do
        grep -qF "$line" "$work/found" || echo "no sentence tests the pattern for: $line"
    done >"$work/untested"
    cat "$work/untested"
    [ ! -s "$work/untested" ]
}

if [ "${1:-}" = --self-test ]; then
    self_test
    exit
fi
[ $# -gt 0 ] || set -- README.md NEWS.md CONTRIBUTING.md DESCRIPTION _pkgdown.yml configure configure.win cleanup .ci R src tests \
    tools bench inst vignettes
find_words "$@" >"$work/found" || exit 1
cat "$work/found"
matches=$(grep -c '^[^ ].*:[0-9]*: write: ' "$work/found")
[ "$matches" -eq 0 ] || {
    echo "phrases to rewrite: $matches"
    exit 1
}
