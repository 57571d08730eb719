#!/bin/sh
# Runs the installed package in a chroot, as on a compute node: as a user without a name, a group and a home folder, with a
# system, a library and a site folder that only root can write to. Needs root, who may mount.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
for command in unshare chroot; do
    command -v "$command" >/dev/null || stop "$command is missing"
done
lib=$(Rscript --vanilla -e 'cat(dirname(system.file(package = "pjrt")))')
r_home=$(R RHOME)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
export lib r_home work

# The administrator installs the plugin for all users.
PJRT_SITE_DIR=$work/site Rscript --vanilla -e '
    install <- function(path) pjrt::install_pjrt("cpu", source = "file", path = path, site = TRUE)
    suppressMessages(install(pjrt:::plugin_path("cpu")))'

cat >"$work/check.R" <<'END'
options(warn = 2)
library(pjrt)
is_refused <- function(code, class = "pjrt_error_io") inherits(try(code, silent = TRUE), "try-error") && !inherits(try(code, silent = TRUE), class)
all <- pjrt_plugins()
stopifnot(identical(all$source[all$platform == "cpu"], "site folder (from file)"))
program <- pjrt_program(path = system.file("programs", "square.mlir", package = "pjrt"))
stopifnot(as_array(pjrt_execute(pjrt_compile(program), pjrt_scalar(3))) == 9)
info <- pjrt_cache_info()
stopifnot(info$enabled, info$entries == 0, info$errors == 0, grepl("home folder '/home/nobody' does not exist", info$problem))
report <- format(pjrt_sitrep())
stopifnot(any(grepl("site folder: */apps/pjrt$", report)), any(grepl("processors: *1 [(]SLURM_CPUS_PER_TASK[)]", report)))
message_of <- function(code) tryCatch({code; ""}, pjrt_error_io = conditionMessage)
stopifnot(grepl("Set PJRT_CACHE_DIR", message_of(install_pjrt("cpu"))))
stopifnot(grepl("/apps/pjrt/cpu", message_of(install_pjrt("cpu", source = "file", path = all$path[[1L]], force = TRUE, site = TRUE))))
stopifnot(length(suppressMessages(uninstall_pjrt(everything = TRUE))) == 0L, plugins_downloaded("cpu"))

# with a folder for the job
Sys.setenv(PJRT_CACHE_DIR = file.path(tempdir(), "pjrt"))
program <- pjrt_program("func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %y = stablehlo.add %x, %x : tensor<f32>
  return %y : tensor<f32>
}")
stopifnot(as_array(pjrt_execute(pjrt_compile(program), pjrt_scalar(3))) == 6, pjrt_cache_info()$entries == 1)
stopifnot(length(suppressMessages(uninstall_pjrt(everything = TRUE))) == 1L, pjrt_cache_info()$entries == 0)
cat("chroot: all is well for user", system("id -u", intern = TRUE), "\n")
END
sed -i '/^is_refused/d' "$work/check.R"

# The mounts disappear with the process that made them.
unshare --mount sh -eu <<'END'
root=$work/root
mkdir "$root"
mount -t tmpfs -o mode=755 tmpfs "$root"
read_only() {
    mkdir -p "$root/$2"
    mount --bind "$1" "$root/$2"
    mount -o remount,bind,ro "$root/$2"
}
for folder in usr bin sbin lib lib64 etc; do
    if [ -L "/$folder" ]; then
        cp -P "/$folder" "$root/$folder"
    elif [ -d "/$folder" ]; then
        read_only "/$folder" "$folder"
    fi
done
case $r_home in /usr/*) ;; *) read_only "$r_home" "$r_home" ;; esac
read_only "$lib" apps/R
read_only "$work/site" apps/pjrt
mkdir "$root/proc" "$root/dev"
mkdir -m 1777 "$root/tmp"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
cp "$work/check.R" "$root/check.R"
exec chroot --userspec=54321:54321 --groups=54321 "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/home/nobody LANG=C.UTF-8 \
    R_LIBS=/apps/R PJRT_SITE_DIR=/apps/pjrt PJRT_DISCOVER=0 PJRT_INSTALL=0 SLURM_CPUS_PER_TASK=1 "$r_home/bin/Rscript" --vanilla /check.R
END
