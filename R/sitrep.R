#' Get a situation report
#'
#' `pjrt_sitrep()` collects information for troubleshooting: the system, R and this package, plugins and their problems,
#' CUDA's driver and libraries, the session's clients and where programs are compiled for them, relevant environment
#' variables and options, the cache and the site folder and why they cannot be used, the number of processors for the
#' session, and the Python package index in use. Credentials in URLs are removed, so that you can share the report.
#'
#' Nothing is loaded, downloaded or changed. To find the index, the package may run pip, which takes about a second.
#'
#' @return A list of class `PJRTSitrep`, which prints as text.
#' @seealso [pjrt_plugins()], [install_pjrt()]
#' @examples
#' pjrt_sitrep()
#' @export
pjrt_sitrep <- function() {
  parts <- list(
    system = system_facts, package = package_facts, plugins = plugin_facts,
    skipped = function() look_for_plugins()$skipped,
    cuda = cuda_facts, clients = client_facts, compiler = compile_facts, variables = variable_facts,
    options = option_facts, cache = cache_facts,
    index = index_facts
  )
  # The report must work even if a part fails.
  structure(lapply(parts, function(part) tryCatch(part(), error = identity)), class = "PJRTSitrep")
}

system_facts <- function() {
  c(
    OS = utils::osVersion %||% Sys.info()[["sysname"]],
    machine = paste(Sys.info()[["sysname"]], Sys.info()[["machine"]]),
    R = paste0(R.version$major, ".", R.version$minor, " (", R.version$platform, ")"),
    session = if (interactive()) "interactive" else "not interactive", processors = processors_text()
  )
}

# The number of processors that this session may use, and who says so.
processors_text <- function() {
  allowed <- call_native(ffi_processors_allowed)
  paste0(allowed$count, if (!is.na(allowed$variable)) sprintf(" (%s)", allowed$variable))
}

package_facts <- function() {
  c(
    version = as.character(utils::packageVersion("pjrt")), folder = system.file(package = "pjrt"),
    `PJRT C API` = call_native(ffi_api_version_bound), readable_programs(), `default platform` = default_platform()
  )
}

# What writes the programs that the tests run, from the oldest version to the newest. test-exported-functions.R compares
# their results with JAX's: functions of four versions of JAX, and the newest's in six forms (text, bytecode,
# portable artifacts of four versions of StableHLO). Update it with the files in tests/testthat/fixtures/exported.
readable_programs <- function() c(StableHLO = "0.9 to 1.22", JAX = "0.4.25 to 0.12")

# The plugins and their problems.
plugin_facts <- function() {
  all <- pjrt_plugins()
  all$problem <- vapply(all$path, plugin_problem, "", USE.NAMES = FALSE)
  all
}

plugin_problem <- function(path) {
  tryCatch(
    {
      call_with_text(ffi_plugin_check, full_path(path))
      NA_character_
    },
    pjrt_error = function(e) sub("\n.*", "", conditionMessage(e))
  )
}

# CUDA's driver, and the libraries for the plugin in use.
cuda_facts <- function() {
  plugins <- pjrt_plugins()
  path <- plugins$path[plugins$platform == "cuda"]
  cuda_report(if (length(path) > 0L) path[[1L]] else "")
}

client_facts <- function() {
  platforms <- sort(names(the$clients))
  describe <- function(platform) {
    toString(shorten_list(vapply(the$devices[[platform]], as.character, ""), 4L))
  }
  vapply(platforms, describe, "")
}

# Variables that matter to this package, XLA, the loader, Python or the network.
variable_facts <- function() {
  of_interest <- paste0(
    "^(PJRT_.*|XLA_FLAGS|TF_CPP_.*|NPROC|CUDA_.*|NVIDIA_.*|ROCR?_.*|HIP_.*|TPU_.*|NEURON_.*|JAX_PLATFORMS|LD_LIBRARY_PATH|",
    "DYLD_LIBRARY_PATH|VIRTUAL_ENV|CONDA_PREFIX|RETICULATE_.*|PYTHONUSERBASE|PYTHONNOUSERSITE|PIP_.*|UV_.*INDEX.*|",
    "R_USER_CACHE_DIR|XDG_CACHE_HOME|SSL_CERT_.*|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|(https?|all|no)_proxy)$"
  )
  all <- environment_variables()
  all <- all[grepl(of_interest, names(all), ignore.case = TRUE) & nzchar(all)]
  secret <- grepl("token|secret|password|key", names(all), ignore.case = TRUE)
  shown <- vapply(strsplit(all, " ", fixed = TRUE), hide_secrets, "")
  structure(ifelse(secret, "***", shown), names = names(all))
}

# Removes secrets from words that may be URLs.
hide_secrets <- function(words) {
  may_be <- grepl("@|://", words)
  words[may_be] <- call_with_text(ffi_redact, words[may_be])
  paste(words, collapse = " ")
}

option_facts <- function() {
  all <- options()
  all <- all[startsWith(names(all), "pjrt.") & !vapply(all, is.null, NA)]
  vapply(all, function(value) hide_secrets(strsplit(readable(toString(value)), " ", fixed = TRUE)[[1L]]), "")
}

# The cache's folder, the size of each platform in it, and the compiled programs; and the site's folder.
cache_facts <- function() {
  folder <- cache_dir()
  platforms <- setdiff(if (!is.null(folder)) list.files(native_path(folder), no.. = TRUE), "executables")
  list(
    folder = folder %||% sprintf("none: %s", cache_dir_problem()),
    size = vapply(platforms, function(platform) folder_bytes(file.path(folder, platform)), 0),
    programs = pjrt_cache_info(),
    site = paste(c(site_dir(), site_dir_problem()), collapse = ", not in use: ")
  )
}

index_facts <- function() {
  found <- unlist(call_with_text(ffi_index_found, index_option()))
  if (nzchar(index_option())) {
    found[["origin"]] <- "options(pjrt.index_url = )"
  }
  found
}

#' @export
format.PJRTSitrep <- function(x, ...) {
  check_intact(x, "PJRTSitrep", parts = c("system", "package", "plugins", "cache"))
  c(
    "pjrt situation report",
    report_part("System", x$system, labelled),
    report_part("Package", x$package, labelled),
    report_part("Plugins", x$plugins, format_plugins),
    report_part("Not used as plugins", x$skipped, function(s) sprintf("%s: %s", s$path, s$reason), optional = TRUE),
    report_part("CUDA", x$cuda, format_cuda),
    report_part("Clients of this session", x$clients, labelled),
    report_part("Where programs are compiled", x$compiler, labelled, optional = TRUE),
    report_part("Environment variables", x$variables, labelled),
    report_part("Options", x$options, labelled, optional = TRUE),
    report_part("Cache", x$cache, function(cache) {
      programs <- cache$programs
      labelled(c(
        folder = cache$folder, vapply(cache$size, format_bytes, ""),
        programs = paste(c(setdiff(state_line(programs), "on"), disk_line(programs)), collapse = "; "),
        `this session` = session_line(programs),
        if (nzchar(cache$site)) c(`site folder` = cache$site)
      ))
    }),
    report_part("Python package index", x$index, function(index) sprintf("%s (%s)", index[["url"]], index[["origin"]]))
  )
}

#' @export
print.PJRTSitrep <- function(x, ...) {
  print_lines(x)
}

# A part of the report with its title, or the error if it failed.
report_part <- function(title, facts, format, optional = FALSE) {
  lines <- if (inherits(facts, "error")) {
    strsplit(conditionMessage(facts), "\n", fixed = TRUE)[[1L]]
  } else {
    format(facts)
  }
  if (length(lines) == 0L && optional) {
    return(character())
  }
  c("", title, paste0("  ", if (length(lines) > 0L) lines else "none"))
}

labelled <- function(x) {
  if (length(x) == 0L) character() else paste0(format(paste0(names(x), ":")), " ", x)
}

format_plugins <- function(x) {
  describe <- function(i) {
    plugin <- x[i, ]
    facts <- c(
      if (!is.na(plugin$version)) paste("version", plugin$version),
      if (!is.na(plugin$api_version)) sprintf(
        "API %s (this package: %s)", plugin$api_version, call_native(ffi_api_version_bound)
      ),
      if (!is.na(plugin$size)) format_bytes(plugin$size), if (plugin$loaded) "loaded", plugin$source
    )
    problem <- if (!is.na(plugin$problem)) paste("  !", plugin$problem)
    c(paste0(plugin$platform, ": ", paste(facts, collapse = ", ")), paste0("  ", plugin$path), problem)
  }
  unlist(lapply(seq_len(nrow(x)), describe))
}

format_cuda <- function(x) {
  driver <- if (is.na(x$cuda)) {
    c("no driver found", if (!is.na(x$module)) sprintf("(the system has %s, without its library)", x$module))
  } else {
    c(paste("CUDA", x$cuda), if (!is.na(x$module)) sprintf("(driver %s)", x$module))
  }
  libraries <- x$libraries
  where <- ifelse(libraries$place == "file", libraries$path, libraries$place)
  optional <- ifelse(is.na(libraries$only_for), "", sprintf(" (needed for %s)", libraries$only_for))
  problem <- ifelse(is.na(libraries$problem), "", paste0(" ! ", libraries$problem))
  c(
    paste("driver:", paste(driver, collapse = " ")), if (!is.na(x$needs)) paste("the plugin needs: CUDA", x$needs),
    if (nrow(libraries) > 0L) paste0(format(paste0(libraries$name, ":")), " ", where, optional, problem)
  )
}
