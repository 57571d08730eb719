#' Inspect compiled code
#'
#' `inspect_hlo()` compiles a program and returns it as HLO, XLA's program format, before and after the compiler's
#' optimizations. For an executable, which is compiled already, it returns the optimized program.
#'
#' The compiler writes these stages, and others such as machine code, to a folder in the session's temporary directory.
#' If the environment variable `XLA_FLAGS` contains `--xla_dump_to=<folder> --xla_dump_hlo_as_text` before the first
#' client is created, it uses that folder instead. If a plugin does not write such files, you may still get the
#' optimized program.
#'
#' @param program A `PJRTProgram`, a `PJRTExported` from [pjrt_load_exported()], or a `PJRTLoadedExecutable`.
#' @param device A device: anything that [as_pjrt_device()] takes. The program is compiled for it. An executable has its
#'   own.
#' @param shapes The shapes of inputs, for a program without fixed shapes: see [pjrt_compile()].
#' @return A list of class `PJRTHloModuleSrcs` with `before_optimizations` and `after_optimizations`: each a string that
#'   prints as is, or `NULL` if the compiler does not provide it. The attribute `module` is the module's name, `dir` the
#'   folder with the files. They cannot be compiled again.
#' @section Errors:
#' The errors of [pjrt_compile()], `pjrt_error_unsupported_call` if the plugin provides neither stage, and
#' `pjrt_error_io` if the compiler could not write a stage completely.
#' @seealso [pjrt_compile()], [executable_info()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "square.mlir", package = "pjrt")
#' program <- pjrt_program(path = path)
#' stages <- inspect_hlo(program)
#' stages
#' stages$after_optimizations
#'
#' inspect_hlo(pjrt_compile(program))
#' @export
inspect_hlo <- function(program, device = NULL, shapes = NULL) {
  if (inherits(program, c("PJRTLoadedExecutable", "PJRTExecutable"))) {
    check_executable(program)
    if (!is.null(device) || !is.null(shapes)) {
      abort_input("An executable is compiled already, so `device` and `shapes` must not be given.")
    }
    text <- call_native(ffi_executable_optimized_text, program)
    return(new_stages(list(before_optimizations = NULL, after_optimizations = text), NULL))
  }
  shapes <- check_compilable(program, shapes)
  device <- as_pjrt_device(device)
  program <- fixed_program(program, platform(device), shapes)
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

# The folder where `XLA_FLAGS` makes the compiler write HLO text, or NULL.
session_dump_dir <- function() {
  flags <- strsplit(Sys.getenv("XLA_FLAGS"), "[[:space:]]+")[[1L]]
  dir <- sub("^--xla_dump_to=", "", grep("^--xla_dump_to=.", flags, value = TRUE))
  as_text <- any(flags %in% c("--xla_dump_hlo_as_text", "--xla_dump_hlo_as_text=true"))
  if (as_text && length(dir) > 0L && !dir[[length(dir)]] %in% c("-", "sponge")) dir[[length(dir)]]
}

# Files that do not change meanwhile are of other programs.
dump_to_session_folder <- function(program, device) {
  dir <- session_dump_dir()
  if (is.null(dir)) {
    return(NULL)
  }
  before <- stage_files(dir)
  text <- call_native(ffi_hlo_inspect, program, device, NULL, compile_place())
  after <- stage_files(dir)
  is_new <- !names(after) %in% names(before) | after != before[names(after)]
  list(dir = dir, files = names(after)[is_new], text = text)
}

dump_to_own_folder <- function(program, device) {
  dir <- tempfile("pjrt-hlo-")
  # retry without options if a plugin refuses them; an invalid program fails again
  text <- tryCatch(
    call_native(ffi_hlo_inspect, program, device, dir, compile_place()),
    pjrt_error = function(e) call_native(ffi_hlo_inspect, program, device, NULL, compile_place())
  )
  list(dir = dir, files = names(stage_files(dir)), text = text)
}

# Modification times of the files with stages, named by path.
stage_files <- function(dir) {
  files <- list.files(dir, "(before|after)_optimizations\\.txt$", full.names = TRUE)
  structure(as.numeric(file.mtime(files)), names = files)
}

# The texts of both stages of the first module. The plugin provides what is not in a file. A program of another process
# has files of its own there, and more when this process loads it: the numbers of both modules are in any order.
read_stages <- function(dumped) {
  files <- sort(as.character(dumped$files))
  module <- function(file) sub("\\..*", "", basename(file))
  compiled <- grep("before_optimizations\\.txt$", files, value = TRUE)
  files <- files[module(files) == module(c(compiled, files))[1L]]
  read <- function(stage) {
    file <- grep(paste0(stage, "\\.txt$"), files, value = TRUE)
    if (length(file) > 0L) read_module(file[[1L]])
  }
  stages <- list(
    before_optimizations = read("before_optimizations"),
    after_optimizations = read("after_optimizations") %||% dumped$text
  )
  if (all(vapply(stages, is.null, NA))) list() else stages
}

# The text of a module. A compiler does not say that the disk is full.
read_module <- function(file) {
  text <- paste(readLines(file, encoding = "UTF-8", warn = FALSE), collapse = "\n")
  if (!grepl("\\}\\s*$", text)) {
    pjrt_abort(sprintf("The compiler has not written all of '%s': the disk may be full.", file), "io")
  }
  text
}

abort_no_hlo <- function() {
  message <- if (is.null(session_dump_dir())) {
    "HLO dumping is not enabled in this session."
  } else {
    "The compiler dumped no HLO for this program."
  }
  pjrt_abort(message, "unsupported_call", hints = c(
    "The plugin neither writes HLO while it compiles, nor provides the optimized program.",
    "Set XLA_FLAGS=\"--xla_dump_to=<folder> --xla_dump_hlo_as_text\" before you create the first client."
  ))
}

new_stages <- function(stages, dir) {
  module <- sub("^HloModule ([^, \n]+).*", "\\1", Filter(Negate(is.null), stages)[[1L]])
  sources <- Map(function(text, stage) {
    if (!is.null(text)) structure(hlo_source(text, stage), dir = dir, module = module)
  }, stages, names(stages))
  structure(sources, class = "PJRTHloModuleSrcs", dir = dir, module = module)
}

# HLO text that prints as is.
hlo_source <- function(text, stage) {
  class <- c(before_optimizations = "PJRTHloBeforeOptimizations", after_optimizations = "PJRTHloAfterOptimizations")
  structure(text, class = c(class[[stage]], "PJRTHloModuleSrc"))
}

#' @export
format.PJRTHloModuleSrcs <- function(x, ...) {
  check_intact(x, "PJRTHloModuleSrcs", parts = c("before_optimizations", "after_optimizations"))
  present <- Filter(Negate(is.null), unclass(x))
  lines <- vapply(present, function(text) length(strsplit(text, "\n", fixed = TRUE)[[1L]]), 1L)
  paste(c(
    sprintf("<PJRTHloModuleSrcs: module '%s', %d stage(s)>", attr(x, "module"), length(present)),
    sprintf("  %s (%d lines)", names(present), lines)
  ), collapse = "\n")
}

#' @export
print.PJRTHloModuleSrcs <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

#' @export
format.PJRTHloModuleSrc <- function(x, ...) {
  check_intact(x, "PJRTHloModuleSrc", "character")
  as.vector(unclass(x))
}

#' @export
print.PJRTHloModuleSrc <- function(x, ...) {
  cat(sub("\n*$", "\n", format(x)))
  invisible(x)
}
