# shellcheck shell=sh
# Sourced after setup.sh by scripts that run commands in a bare Debian. Needs root, who may mount, and debootstrap.
#
#   make_root FOLDER [RELEASE]  creates a minimal system, by default of this machine's release
#   enter FOLDER COMMAND...     runs a command there; mounts end with it

[ "$(id -u)" -eq 0 ] || stop "a chroot requires root"
for command in debootstrap unshare chroot; do
    command -v "$command" >/dev/null || { [ "$command" = debootstrap ] && install_packages debootstrap; } ||
        stop "$command is missing"
done

# The mirror and release of this machine, or PJRT_DEBIAN_MIRROR.
# $(REPO_URI) is for apt
# shellcheck disable=SC2016
own_release() {
    apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' "Label: Debian" | head -n 1
}

make_root() {
    mirror=${PJRT_DEBIAN_MIRROR:-$(own_release | cut -d ' ' -f 1)}
    [ -n "$mirror" ] || stop "this machine has no mirror of Debian: set PJRT_DEBIAN_MIRROR"
    suite=${2:-$(own_release | cut -d ' ' -f 2)}
    say "creating a minimal Debian ($suite)"
    # older debootstraps do not know newer releases
    known=/usr/share/debootstrap/scripts/$suite
    [ -e "$known" ] || known=/usr/share/debootstrap/scripts/sid
    root_log=$(mktemp)
    debootstrap --variant=minbase "$suite" "$1" "$mirror" "$known" >"$root_log" 2>&1 || {
        tail -n 20 "$root_log"
        stop "debootstrap failed"
    }
    rm -f "$root_log"
    for file in resolv.conf hosts pip.conf; do
        [ ! -e "/etc/$file" ] || cp -L "/etc/$file" "$1/etc/"
    done
    # certificates that the administrator of this machine trusts
    [ ! -d /usr/local/share/ca-certificates ] || cp -R /usr/local/share/ca-certificates "$1/usr/local/share/"
    # a mirror may lag behind
    echo 'Acquire::Check-Valid-Until "false";' >"$1/etc/apt/apt.conf.d/mirror"
}

# With this machine's settings for proxies and the Python package index.
enter() {
    root=$1
    shift
    for name in HTTPS_PROXY HTTP_PROXY ALL_PROXY NO_PROXY https_proxy http_proxy no_proxy PIP_INDEX_URL PJRT_INDEX_URL CI; do
        eval "value=\${$name:-}"
        [ -z "$value" ] || set -- "$name=$value" "$@"
    done
    # expanded by the inner shell
    # shellcheck disable=SC2016
    unshare --mount sh -eu -c '
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --rbind /sys "$root/sys"
        exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive "$@"' sh "$root" "$@" </dev/null
}
