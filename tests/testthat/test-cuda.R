# Slow: copies the plugin and compiles C libraries.

# CUDA without a GPU: the tests compile dummy libraries and a dummy driver, and use the CPU plugin under the CUDA
# plugin's name. The dummies come first in the search path, so that results do not depend on an installed driver.

# Compiles a library with one function, linked to others in its folder.
tiny_library <- function(folder, name, code = "int f(void) { return 1; }", linked = character()) {
  dir.create(folder, showWarnings = FALSE, recursive = TRUE)
  source <- withr::local_tempfile(fileext = ".c", lines = code)
  library <- file.path(folder, name)
  arguments <- c(
    "-shared", "-fPIC", paste0("-Wl,-soname,", name), "-Wl,--no-as-needed", "-o", library, source,
    file.path(folder, linked)
  )
  stopifnot(system2("cc", shQuote(arguments)) == 0L)
  library
}

fake_driver <- function(folder, version) {
  code <- sprintf("int cuDriverGetVersion(int *version) { *version = %d; return 0; }", version)
  tiny_library(folder, "libcuda.so.1", code)
}

cuda_libraries <- c(
  "libcudart.so.13", "libcublasLt.so.13", "libcublas.so.13", "libcudnn.so.9", "libcufft.so.12", "libnvJitLink.so.13",
  "libcusparse.so.12", "libcusolver.so.12"
)

# A copy of the CPU plugin for hard links: a link to the plugin itself would change its attributes, by which caches know
# it.
plugin_copy <- function() {
  copy <- file.path(tempdir(), "plugin-copy.so")
  file.exists(copy) || file.copy(plugin_path("cpu"), copy)
  copy
}

# A folder laid out like unpacked wheels, with the plugin and its libraries.
fake_site <- function(libraries = cuda_libraries, env = parent.frame()) {
  site <- normalizePath(withr::local_tempdir(.local_envir = env))
  plugin <- file.path(site, "jax_plugins", "xla_cuda13", "xla_cuda_plugin.so")
  dir.create(dirname(plugin), recursive = TRUE)
  suppressWarnings(file.link(plugin_copy(), plugin)) || file.copy(plugin_copy(), plugin)
  needs <- list(libcublas.so.13 = "libcublasLt.so.13", libcusolver.so.12 = c("libcublas.so.13", "libcusparse.so.12"))
  folder <- file.path(site, "nvidia", "cu13", "lib")
  for (name in libraries) {
    tiny_library(folder, name, linked = intersect(needs[[name]], libraries))
  }
  list(plugin = plugin, libraries = folder, root = site)
}

cuda_child <- function(site, driver, code) {
  run_child(code, env = c(
    PJRT_PLUGIN_PATH_CUDA = site$plugin, LD_LIBRARY_PATH = driver, CUDA_HOME = "", CUDA_PATH = "",
    CUDA_VISIBLE_DEVICES = NA
  ))
}

try_client <- quote({
  attributes <- plugin_attributes("cuda")
  error <- tryCatch(pjrt_client("cuda"), error = identity)
  cat(class(error)[[1L]], conditionMessage(error), sep = "\n")
})

has_no_library <- function(site, name) {
  libraries <- cuda_report(site$plugin)$libraries
  libraries$place[libraries$name == name] == "missing"
}

skip_without_compiler <- function() {
  skip_if_not(Sys.info()[["sysname"]] == "Linux", "these are for Linux")
  skip_if(Sys.which("cc") == "", "there is no C compiler")
}

test_that("a CUDA client loads its libraries in dependency order", {
  skip_without_compiler()
  site <- fake_site()
  driver <- fake_driver(file.path(site$root, "driver"), 13000L)
  child <- cuda_child(site, dirname(driver), quote({
    path <- Sys.getenv(c("PATH", "LD_LIBRARY_PATH", "XLA_FLAGS"))
    client <- pjrt_client("cuda")
    maps <- readLines("/proc/self/maps")
    mapped <- unique(basename(grep("/nvidia/cu13/lib/", maps, value = TRUE, fixed = TRUE)))
    writeLines(sort(mapped, method = "radix"))
    writeLines(as.character(identical(Sys.getenv(c("PATH", "LD_LIBRARY_PATH", "XLA_FLAGS")), path)))
    writeLines(unique(pjrt:::cuda_report(Sys.getenv("PJRT_PLUGIN_PATH_CUDA"))$libraries$place[1:8]))
  }))
  expect_identical(child$status, 0L)
  expect_identical(child$out, c(sort(cuda_libraries, method = "radix"), "TRUE", "loaded"))
})

test_that("a driver that is too old raises an error, but the plugin still loads", {
  skip_without_compiler()
  site <- fake_site(character())
  driver <- fake_driver(file.path(site$root, "driver"), 12040L)
  child <- expect_clean(cuda_child(site, dirname(driver), try_client))
  expect_identical(child$out[[1L]], "pjrt_error_driver_too_old")
  expect_match(child$out[[2L]], "supports CUDA 12.4, but this plugin needs CUDA 13.0.", fixed = TRUE)
  expect_match(child$out, "install_pjrt(\"cuda12\")", fixed = TRUE, all = FALSE)
})

test_that("a missing driver raises an error with advice, but the plugin still loads", {
  skip_without_compiler()
  skip_if_not(is.na(cuda_report()$cuda), "this machine has a CUDA driver")
  site <- fake_site(character())
  child <- expect_clean(cuda_child(site, site$root, try_client))
  expect_identical(child$out[[1L]], "pjrt_error_driver_missing")
  expect_match(child$out, "--gpus all", fixed = TRUE, all = FALSE)
})

test_that("a missing library is named with ways to install it", {
  skip_without_compiler()
  site <- fake_site(setdiff(cuda_libraries, "libcudnn.so.9"))
  skip_if_not(has_no_library(site, "libcudnn.so.9"), "this machine has this CUDA library")
  driver <- fake_driver(file.path(site$root, "driver"), 13000L)
  child <- expect_clean(cuda_child(site, dirname(driver), try_client))
  expect_identical(child$out[1:2], c(
    "pjrt_error_library_missing", "The CUDA plugin needs a library that cannot be loaded: 'libcudnn.so.9'."
  ))
  for (way in c("install_pjrt(\"cuda\")", "pip install nvidia-cudnn-cu13", "LD_LIBRARY_PATH")) {
    expect_match(child$out, way, fixed = TRUE, all = FALSE)
  }
})

test_that("a truncated library raises an error and never ends the session", {
  skip_without_compiler()
  site <- fake_site()
  cut <- file.path(site$libraries, "libcufft.so.12")
  writeBin(readBin(cut, "raw", file.size(cut) %/% 2), cut)
  driver <- fake_driver(file.path(site$root, "driver"), 13000L)
  child <- expect_clean(cuda_child(site, dirname(driver), try_client))
  expect_identical(child$out[[1L]], "pjrt_error_library_missing")
  expect_match(child$out, "libcufft.so.12' is incomplete", fixed = TRUE, all = FALSE)
})

test_that("CUDA libraries of other Python packages are found", {
  skip_without_compiler()
  site <- fake_site(setdiff(cuda_libraries, "libnvJitLink.so.13"))
  other <- normalizePath(withr::local_tempdir())
  there <- tiny_library(file.path(other, "nvidia", "nvjitlink", "lib"), "libnvJitLink.so.13")
  cuda_add_folders(other)
  withr::defer(cuda_add_folders(character()))
  libraries <- cuda_report(site$plugin)$libraries
  expect_identical(libraries$path[libraries$name == "libnvJitLink.so.13"], there)
  expect_identical(libraries$path[libraries$name == "libcudart.so.13"], file.path(site$libraries, "libcudart.so.13"))
})

test_that("the report shows CUDA requirements only for a CUDA plugin", {
  report <- cuda_report()
  expect_named(report, c("cuda", "module", "needs", "libraries"))
  expect_identical(nrow(report$libraries), 0L)
  expect_identical(cuda_report(plugin_path("cpu"))$needs, NA_character_)
  skip_without_compiler()
  report <- cuda_report(fake_site()$plugin)
  expect_identical(report$needs, "13.0")
  expect_named(report$libraries, c("name", "place", "path", "only_for", "problem"))
  needed <- is.na(report$libraries$only_for)
  expect_setequal(report$libraries$name[needed], cuda_libraries)
  expect_identical(unique(report$libraries$place[needed]), "file")
  expect_true(all(is.na(report$libraries$problem)))
})
