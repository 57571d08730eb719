#!/bin/sh
# Sets up releases of Debian in chroots and runs there what a newcomer runs: both commands of the README, on a copy of the checkout.
#
#   sh tools/releases.sh [--r | --fast] [RELEASE...]   by default trixie and sid
#
# Prints one line a release: versions, the seconds of the demo, passed, failed, minutes. With --r or --fast, the second command is
# sh tools/test.sh with the same option. The logs and the counts are in .releases/. Needs root, who may mount.
set -u
cd "$(dirname "$0")/.." || exit 1
. tools/setup.sh
. tools/chroots.sh
tests="sh tools/test.sh"
case ${1:-} in
--r | --fast)
    tests="$tests $1"
    shift
    ;;
esac
[ $# -gt 0 ] || set -- trixie sid

# Runs both commands in a new chroot and prints the line.
run_release() {
    release=$1
    root=$PWD/.releases/$release
    log=$root.log
    rm -rf --one-file-system "$root"
    start=$(date +%s)
    (make_root "$root" "$release") >"$log" 2>&1 || {
        tail -n 20 "$log"
        return 1
    }
    mkdir "$root/root/pjrt"
    git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$root/root/pjrt" || return 1
    before=$(date +%s)
    enter "$root" sh -c 'cd /root/pjrt && sh tools/demo.sh' >>"$log" 2>&1 || {
        tail -n 40 "$log"
        return 1
    }
    demo=$(($(date +%s) - before))
    enter "$root" sh -c "cd /root/pjrt && $tests" >>"$log" 2>&1
    status=$?
    counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
    echo "$counts" >"$root.counts"
    r=$(enter "$root" R --version | sed -n 's/^R version \([0-9.]*\).*/\1/p')
    rust=$(sed -n 's/^==> using rustc \([0-9.]*\).*/\1/p' "$log" | tail -n 1)
    echo "$release: R $r, Rust $rust, demo $demo s, ${counts:-no tests}, $((($(date +%s) - start + 30) / 60)) min"
    [ "$status" -eq 0 ] || {
        # with the text of each failure
        grep -E -A 20 '── (Failure|Error)' "$log"
        grep -E '^(FAILED|SKIPPED|Error)' "$log"
        return 1
    }
    rm -rf --one-file-system "$root"
}

mkdir -p .releases
failed=0
for release in "$@"; do
    run_release "$release" || {
        echo "FAILED: $release, see .releases/$release.log"
        failed=1
    }
done
exit "$failed"
