# The library of the CPU plugin that the tests use.
real_plugin <- function() normalizePath(plugin_path("cpu"))

# Whether the plugin of the tests has at least this version of the PJRT C API.
plugin_api <- function(minor) plugin_info("cpu")$api_version$minor >= minor

# Whether it estimates the costs of programs: XLA's plugins have not done so since 0.9x.
plugin_estimates <- function() is.null(attr(executable_cost(compile(unary_program("f32"))), "estimated_by"))

# The names of devices in older plugins.
old_labels <- function(lines) gsub("(debug: +)cpu:", "\\1TFRT_CPU_", lines)

# The library of the CPU plugin without the functions in `omit`, or all but those in `keep`, by their names in the PJRT
# headers. Use it in a child process with these environment variables.
omitting_plugin <- function(omit = NULL, keep = NULL) {
  bindings <- readLines(source_file("src/rust/sys/src/bindings.rs"))
  start <- grep("layout! { PJRT_Api, ", bindings, fixed = TRUE)
  end <- start + grep("}", bindings[-seq_len(start)], fixed = TRUE)[[1L]]
  table <- regmatches(bindings[start:end], gregexpr("PJRT_\\w+: [0-9]+", bindings[start:end]))
  offsets <- sub(".*: ", "", unlist(table))
  names(offsets) <- sub(":.*", "", unlist(table))
  c(
    PJRT_PLUGIN_PATH_CPU = build_library(source_file("src/rust/core/tests/fixtures/omitting-plugin.c")),
    PJRT_REAL_PLUGIN = real_plugin(),
    PJRT_OMIT = paste(offsets[if (is.null(keep)) omit else setdiff(names(offsets), keep)], collapse = ",")
  )
}

# Unsets every variable that could point to a plugin, except those in `...`, and uses an empty cache.
local_machine <- function(..., env = parent.frame()) {
  unset <- c(
    VIRTUAL_ENV = NA, RETICULATE_PYTHON = NA, RETICULATE_PYTHON_ENV = NA, CONDA_PREFIX = NA, PJRT_PLUGIN_PATH = NA,
    PJRT_PLUGIN_PATH_CPU = NA, PJRT_CACHE_DIR = NA, PJRT_SITE_DIR = NA, TPU_LIBRARY_PATH = NA, PJRT_DISCOVER = NA,
    PYTHONNOUSERSITE = "1", PJRT_INSTALL = "0"
  )
  given <- c(...)
  all <- c(
    given, unset[setdiff(names(unset), names(given))], R_USER_CACHE_DIR = withr::local_tempdir(.local_envir = env)
  )
  withr::local_envvar(all, .local_envir = env)
}

# Sets up an empty cache as the only source of plugins. Returns its folder.
local_empty_cache <- function(env = parent.frame()) {
  local_machine(PJRT_DISCOVER = "0", env = env)
  cache_dir()
}

# Builds a library that looks like a plugin but is never loaded.
idle_plugin <- function(
  folder = withr::local_tempdir(.local_envir = env), name = "libpjrt_idle.so", env = parent.frame()
) {
  code <- file.path(folder, "idle.c")
  writeLines("void *GetPjrtApi(void) { return 0; }", code)
  library <- file.path(folder, name)
  status <- system2("cc", c("-shared", "-fPIC", "-o", shQuote(library), shQuote(code)))
  unlink(code)
  if (status != 0L) stop("the C compiler does not work")
  library
}

# Uses a manifest in which platform "idle" is an archive in `folder` with this SHA-256.
local_manifest <- function(folder, sha256 = NULL, versions = "1.0", env = parent.frame()) {
  here <- c(
    os = switch(Sys.info()[["sysname"]], Darwin = "macos", tolower(Sys.info()[["sysname"]])), arch = R.version$arch
  )
  entry <- function(version) {
    c(
      "[[plugin]]", "platform = 'idle'", sprintf("os = '%s'", here[["os"]]), sprintf("arch = '%s'", here[["arch"]]),
      sprintf("version = '%s'", version), "api = '0.90'",
      sprintf("url = 'file://%s'", file.path(folder, "idle.tar.gz")),
      if (!is.null(sha256)) sprintf("sha256 = '%s'", sha256)
    )
  }
  file <- withr::local_tempfile(.local_envir = env, lines = unlist(lapply(versions, entry)))
  withr::local_options(pjrt.manifest = file, .local_envir = env)
}

# Creates the archive that local_manifest() refers to. Returns its folder.
idle_archive <- function(env = parent.frame()) {
  folder <- withr::local_tempdir(.local_envir = env)
  idle_plugin(folder)
  withr::with_dir(folder, utils::tar("idle.tar.gz", "libpjrt_idle.so", compression = "gzip", tar = "internal"))
  folder
}

sha256 <- function(file) {
  sub(" .*", "", system2("sha256sum", shQuote(file), stdout = TRUE))
}
