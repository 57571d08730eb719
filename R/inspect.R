#' Inspect compiled code
#'
#' Compiles a program and shows it as HLO, XLA's form of programs, before and after the compiler's optimizations.
#'
#' The compiler writes these stages, and more such as the code of its kernels, into a folder of the session's temporary
#' directory. When the environment variable `XLA_FLAGS` has `--xla_dump_to=<folder> --xla_dump_hlo_as_text` before the
#' first client is made, that folder is used instead.
#'
#' A plugin that writes no such files can still tell the program after the optimizations.
#'
#' @param program A `PJRTProgram`.
#' @param device The device to compile for: anything that [as_pjrt_device()] takes.
#' @return A `PJRTHloModuleSrcs`: a list of `before_optimizations` and `after_optimizations`, each one string that
#'   prints as text, or `NULL` when the compiler did not tell. The attribute `module` is the module's name, `dir` the
#'   folder with the files.
#' @section Errors:
#' What [pjrt_compile()] raises, and `pjrt_error_unsupported_call` when the plugin tells neither stage.
#' @seealso [executable_hlo()] for a program that is compiled already
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program(path = system.file("programs", "square.mlir", package = "pjrt"))
#' stages <- inspect_hlo(program)
#' stages
#' stages$after_optimizations
#' @export
inspect_hlo <- function(program, device = NULL) {
  check_program(program)
  device <- as_pjrt_device(device)
  dumped <- dump_to_session_folder(program, device)
  if (length(dumped$files) == 0L) {
    dumped <- dump_to_own_folder(program, device)
  }
  stages <- read_stages(dumped)
  if (length(stages) == 0L) {
    abort_no_hlo()
  }
  new_stages(stages, dumped$dir)
}

# Where `XLA_FLAGS` tells the compiler to write HLO as text; NULL for nowhere.
session_dump_dir <- function() {
  flags <- strsplit(Sys.getenv("XLA_FLAGS"), "[[:space:]]+")[[1L]]
  dir <- sub("^--xla_dump_to=", "", grep("^--xla_dump_to=.", flags, value = TRUE))
  as_text <- any(flags %in% c("--xla_dump_hlo_as_text", "--xla_dump_hlo_as_text=true"))
  if (as_text && length(dir) > 0L && !dir[[length(dir)]] %in% c("-", "sponge")) dir[[length(dir)]]
}

# The files of other programs in the folder are those that do not change meanwhile.
dump_to_session_folder <- function(program, device) {
  dir <- session_dump_dir()
  if (is.null(dir)) {
    return(NULL)
  }
  before <- stage_files(dir)
  text <- call_native(ffi_hlo_inspect, program, device, NULL)
  after <- stage_files(dir)
  is_new <- !names(after) %in% names(before) | after != before[names(after)]
  list(dir = dir, files = names(after)[is_new], text = text)
}

dump_to_own_folder <- function(program, device) {
  dir <- tempfile("pjrt-hlo-")
  # a plugin that does not know the options of the compiler refuses them, and a wrong program is refused once more
  text <- tryCatch(
    call_native(ffi_hlo_inspect, program, device, dir),
    pjrt_error = function(e) call_native(ffi_hlo_inspect, program, device, NULL)
  )
  list(dir = dir, files = names(stage_files(dir)), text = text)
}

# When the files with stages were written, by path.
stage_files <- function(dir) {
  files <- list.files(dir, "(before|after)_optimizations\\.txt$", full.names = TRUE)
  structure(as.numeric(file.mtime(files)), names = files)
}

# The texts of both stages of the first module written; the plugin's own word for what is in no file.
read_stages <- function(dumped) {
  files <- sort(as.character(dumped$files))
  module <- function(file) sub("\\..*", "", basename(file))
  files <- files[module(files) == module(files)[1L]]
  read <- function(stage) {
    file <- grep(paste0(stage, "\\.txt$"), files, value = TRUE)
    if (length(file) > 0L) paste(readLines(file[[1L]], encoding = "UTF-8"), collapse = "\n")
  }
  stages <- list(
    before_optimizations = read("before_optimizations"),
    after_optimizations = read("after_optimizations") %||% dumped$text
  )
  if (all(vapply(stages, is.null, NA))) list() else stages
}

abort_no_hlo <- function() {
  message <- if (is.null(session_dump_dir())) {
    "HLO dumping is not enabled in this session."
  } else {
    "The compiler dumped no HLO for this program."
  }
  pjrt_abort(message, "unsupported_call", hints = c(
    "The plugin neither writes HLO when it is asked at a compile, nor tells the optimized program.",
    "Set XLA_FLAGS=\"--xla_dump_to=<folder> --xla_dump_hlo_as_text\" before the first client is made."
  ))
}

new_stages <- function(stages, dir) {
  module <- sub("^HloModule ([^, \n]+).*", "\\1", Filter(Negate(is.null), stages)[[1L]])
  sources <- Map(function(text, stage) {
    if (!is.null(text)) structure(hlo_source(text, stage), dir = dir, module = module)
  }, stages, names(stages))
  structure(sources, class = "PJRTHloModuleSrcs", dir = dir, module = module)
}

# HLO text that prints as it is.
hlo_source <- function(text, stage) {
  class <- c(before_optimizations = "PJRTHloBeforeOptimizations", after_optimizations = "PJRTHloAfterOptimizations")
  structure(text, class = c(class[[stage]], "PJRTHloModuleSrc"))
}

#' @export
format.PJRTHloModuleSrcs <- function(x, ...) {
  check_made(x, "PJRTHloModuleSrcs", parts = c("before_optimizations", "after_optimizations"))
  told <- Filter(Negate(is.null), unclass(x))
  lines <- vapply(told, function(text) length(strsplit(text, "\n", fixed = TRUE)[[1L]]), 1L)
  paste(c(
    sprintf("<PJRTHloModuleSrcs: module '%s', %d stage(s)>", attr(x, "module"), length(told)),
    sprintf("  %s (%d lines)", names(told), lines)
  ), collapse = "\n")
}

#' @export
print.PJRTHloModuleSrcs <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

#' @export
format.PJRTHloModuleSrc <- function(x, ...) {
  check_made(x, "PJRTHloModuleSrc", "character")
  as.vector(unclass(x))
}

#' @export
print.PJRTHloModuleSrc <- function(x, ...) {
  cat(sub("\n*$", "\n", format(x)))
  invisible(x)
}
