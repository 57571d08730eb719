# Run by configure: finds Rust, unpacks the vendored crates if there are any, and writes src/Makevars (or
# src/Makevars.win) from its template.
#
# CARGO_TARGET_DIR  the folder to build in; it is kept
# PJRT_KEEP_TARGET  keep src/rust/target for faster builds, as in a git checkout and with NOT_CRAN=true

source("tools/msrv.R")
source("tools/link.R")

is_set <- function(name) tolower(Sys.getenv(name)) %in% c("1", "true", "yes")
windows <- .Platform$OS.type == "windows"

rust_bin <- find_rust()
# make runs in src/, so a relative folder must become absolute
own_target <- Sys.getenv("CARGO_TARGET_DIR")
target_dir <- if (nzchar(own_target)) normalizePath(own_target, "/", mustWork = FALSE) else "rust/target"
if (nzchar(own_target) && !startsWith(target_dir, "/") && !windows) {
  target_dir <- file.path(getwd(), own_target)
}
developing <- file.exists(".git") || is_set("NOT_CRAN") || is_set("PJRT_KEEP_TARGET")

vendored <- file.exists("src/rust/vendor.tar.xz")
if (vendored) {
  utils::untar("src/rust/vendor.tar.xz", exdir = "src/rust", tar = "internal")
}

cargo_flags <- c(
  "--locked",
  if (vendored) {
    c(
      "--offline",
      "--config 'source.crates-io.replace-with=\"vendored\"'",
      "--config 'source.vendored.directory=\"rust/vendor\"'"
    )
  },
  if (!developing) "-j 2"
)
# a build from a source package writes nothing outside its own folder
cargo_env <- if (vendored) "CARGO_HOME=\"`pwd`/.cargo\"" else ""
leftovers <- c(
  if (!developing && !nzchar(own_target)) "rust/target",
  if (vendored) c("rust/vendor", ".cargo")
)
tidy <- if (length(leftovers)) paste("rm -rf", paste(leftovers, collapse = " ")) else ":"

makevars <- if (windows) "src/Makevars.win" else "src/Makevars"
lines <- readLines(paste0(makevars, ".in"))
values <- c(
  RUST_BIN = rust_bin,
  TARGET_DIR = target_dir,
  CARGO_ENV = cargo_env,
  CARGO_FLAGS = paste(cargo_flags, collapse = " "),
  LINK_FLAGS = link_flags(Sys.info()[["sysname"]]),
  STRIP = strip_command(Sys.info()[["sysname"]]),
  STRIP_HELPER = if (nzchar(Sys.which("strip"))) "strip pjrt-compiler" else ":",
  TIDY = tidy
)
for (name in names(values)) {
  lines <- gsub(paste0("@", name, "@"), values[[name]], lines, fixed = TRUE)
}
# with line ends that make understands, also on Windows
file <- file(makevars, "wb")
writeLines(lines, file)
close(file)
message(
  "using ", tool_version(rust_bin, "rustc"), "\n",
  "using ", tool_version(rust_bin, "cargo"), " in '", rust_bin, "'", if (vendored) ", with the vendored crates"
)
