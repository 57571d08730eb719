#!/bin/sh
# Builds the website of the package in docs/, and checks it:
#
#   sh tools/site.sh              sets up the machine, builds the site, checks all links, and, with Chromium, all pages
#   sh tools/site.sh --pictures   also draws all pages into docs-pictures/, for desktop and phone, light and dark
#
# Nothing of it needs a network once the machine is set up. Open docs/index.html to read the site.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
install_base
install_tests
[ -z "$(missing_packages r-cran-pkgdown)" ] || install_packages r-cran-pkgdown
install_package
install_plugin
Rscript --vanilla tools/site.R docs

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || browser=
if [ -z "$browser" ]; then
    say "without Chromium, the pages are not looked at"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

browse() {
    timeout 300 "$browser" --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$work/profile" "$@" 2>/dev/null </dev/null
}

# The check opens every page in a frame: it is part of the site while it runs.
say "looking at all pages in Chromium"
(cd docs && find . -name '*.html' | sed 's|^\./||' | sort) >"$work/pages"
{
    echo '<!DOCTYPE html><meta charset="utf-8"><title>check</title><script>var pages = ['
    sed 's/.*/"&",/' "$work/pages"
    echo '];'
    cat tools/site-check.js
    echo '</script>'
} >docs/check.html
trap 'rm -rf "$work" docs/check.html' EXIT
browse --allow-file-access-from-files --window-size=1400,1000 --virtual-time-budget=600000 --dump-dom \
    "file://$PWD/docs/check.html" >"$work/check.html"
rm -f docs/check.html
sed -n '/<pre id="report">/,/<\/pre>/p' "$work/check.html" | sed 's/.*<pre id="report">//; s/<\/pre>.*//' >"$work/report"
cat "$work/report"
grep -q '^check: .* 0 problems' "$work/report" || stop "the pages have problems in the browser"

[ "${1:-}" = --pictures ] || exit 0
say "drawing all pages into docs-pictures/"
rm -rf docs-pictures
mkdir docs-pictures
while read -r page; do
    name=$(printf '%s' "${page%.html}" | tr / -)
    for width in 1280 390; do
        for scheme in 1:light 0:dark; do
            browse --blink-settings=preferredColorScheme="${scheme%%:*}" --window-size="$width,4000" \
                --screenshot="docs-pictures/$name-$width-${scheme##*:}.png" "file://$PWD/docs/$page" >/dev/null
        done
    done
done <"$work/pages"
