# Finds cargo and rustc of at least the version in DESCRIPTION's SystemRequirements. Sourced by tools/config.R. Run as a
# script, it prints their folder, or prints how to install them and fails.

minimum_rust <- function() {
  requirements <- read.dcf("DESCRIPTION", "SystemRequirements")[[1L]]
  numeric_version(sub(".*rustc >= ([0-9.]+).*", "\\1", requirements))
}

# The folders that contain cargo: those on the PATH, then rustup's.
cargo_folders <- function() {
  home <- Sys.getenv(if (.Platform$OS.type == "windows") "USERPROFILE" else "HOME")
  cargo_home <- Sys.getenv("CARGO_HOME", file.path(home, ".cargo"))
  path <- strsplit(Sys.getenv("PATH"), .Platform$path.sep, fixed = TRUE)[[1L]]
  folders <- unique(c(path, file.path(cargo_home, "bin")))
  has_cargo <- file.exists(file.path(folders, "cargo")) | file.exists(file.path(folders, "cargo.exe"))
  folders[has_cargo]
}

# The output of `tool --version` with `folder` first on the PATH, or NA if the tool is missing or fails.
tool_version <- function(folder, tool) {
  path <- Sys.getenv("PATH")
  on.exit(Sys.setenv(PATH = path))
  Sys.setenv(PATH = paste(folder, path, sep = .Platform$path.sep))
  printed <- suppressWarnings(tryCatch(
    system2(tool, "--version", stdout = TRUE, stderr = FALSE),
    error = function(e) character()
  ))
  if (length(printed) > 0L) printed[[1L]] else NA_character_
}

# The version of the rustc that the cargo in `folder` would run, or NA if it is missing or fails.
rust_version <- function(folder) {
  printed <- tool_version(folder, "rustc")
  version <- regmatches(printed, regexpr("[0-9]+\\.[0-9]+\\.[0-9]+", printed))
  if (length(version) == 1L) version else NA
}

find_rust <- function() {
  minimum <- minimum_rust()
  found <- character()
  for (folder in cargo_folders()) {
    version <- rust_version(folder)
    if (!is.na(version) && numeric_version(version) >= minimum) {
      return(folder)
    }
    state <- if (is.na(version)) "has no working rustc" else paste0("has rustc ", version, ", which is too old")
    found <- c(found, sprintf("  '%s' %s.", folder, state))
  }
  if (length(found) == 0L) {
    found <- "  There is no cargo on the PATH or in '~/.cargo/bin'."
  }
  message(
    "pjrt is built from Rust source and needs cargo and rustc >= ", minimum, ".\n",
    paste0(found, "\n"),
    "  Any system:                 install Rust with rustup (https://rustup.rs), or run `rustup update stable`\n",
    "  Debian 12:                  apt-get install rustc-web cargo-web\n",
    "  Debian 13, Ubuntu >= 25.04: apt-get install rustc cargo\n",
    "  Fedora:                     dnf install rust cargo\n",
    "  macOS with Homebrew:        brew install rust\n",
    "Then install pjrt again."
  )
  quit(status = 1L)
}

if (sys.nframe() == 0L) {
  cat(find_rust())
}
