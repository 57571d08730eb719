# Static shapes for exported functions by other programs on the machine: StableHLO's stablehlo-opt, or a Python with
# JAX.

# How many results are kept.
refined_kept <- 16L

# The program with these types, or an error that says what is missing. `problem` is why the package cannot make it.
program_by_tools <- function(exported, index, types, problem = NULL) {
  known <- Find(function(entry) {
    identical(entry$program, exported$program) && identical(entry$index, index) && identical(entry$types, types)
  }, the$refined)
  if (!is.null(known)) {
    return(known$refined)
  }
  names <- exported$inputs$name[exported$inputs$kept]
  folder <- tempfile("pjrt-refine-")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  program <- file.path(folder, "program.mlirbc")
  refined <- file.path(folder, "refined.mlirbc")
  call_with_text(ffi_program_write, exported$program, enc2utf8(program))
  said <- character()
  for (tool in refining_tools(index)) {
    lines <- run_tool(tool$command, tool$arguments(program, refined, index, types, names))
    if (file.exists(refined)) {
      found <- pjrt_program(path = refined)
      entry <- list(program = exported$program, index = index, types = types, refined = found)
      the$refined <- utils::head(c(list(entry), the$refined), refined_kept)
      return(found)
    }
    said <- c(said, tool_report(tool$command, lines))
  }
  abort_not_refined(exported, said, problem)
}

# The tools to try, each with its command and a function that returns its arguments.
refining_tools <- function(index) {
  opt <- Sys.which("stablehlo-opt")
  # it cannot replace an argument by a number
  opt <- opt[nzchar(opt) & is.na(index)]
  c(
    lapply(unname(opt), function(command) list(command = command, arguments = opt_arguments)),
    lapply(pythons(), function(command) list(command = command, arguments = python_arguments))
  )
}

opt_arguments <- function(program, refined, index, types, names) {
  passes <- c(
    "vhlo-legalize-to-stablehlo",
    sprintf("stablehlo-refine-arguments{types=%s}", paste(types, collapse = ",")), "stablehlo-refine-shapes",
    "func.func(stablehlo-canonicalize-dynamism,stablehlo-check-shape-assertions)"
  )
  pipeline <- sprintf("builtin.module(%s)", paste(passes, collapse = ","))
  c(program, paste0("--pass-pipeline=", pipeline), "--emit-bytecode", "-o", refined)
}

python_arguments <- function(program, refined, index, types, names) {
  script <- system.file("python", "refine.py", package = "pjrt", mustWork = TRUE)
  c(script, program, refined, if (is.na(index)) "-1" else as.character(index), rbind(types, names))
}

# The Pythons that may have JAX, the user's choice first.
pythons <- function() {
  chosen <- string_option("pjrt.python")
  chosen <- if (nzchar(chosen)) chosen else Sys.getenv("PJRT_PYTHON")
  if (nzchar(chosen)) {
    return(path.expand(chosen))
  }
  windows <- .Platform$OS.type == "windows"
  of_environment <- function(variable) {
    folder <- Sys.getenv(variable)
    if (nzchar(folder)) file.path(folder, if (windows) c("Scripts/python.exe", "python.exe") else "bin/python")
  }
  found <- c(
    Sys.getenv("RETICULATE_PYTHON"), of_environment("VIRTUAL_ENV"), of_environment("RETICULATE_PYTHON_ENV"),
    of_environment("CONDA_PREFIX"), Sys.which(c("python3", "python"))
  )
  found <- found[nzchar(found) & file.exists(found)]
  unique(unname(found))
}

# The lines that a command prints. Its status is an attribute.
run_tool <- function(command, arguments, seconds = 300) {
  debug_message("running ", command, " to give a program static shapes")
  suppressWarnings(tryCatch(
    system2(command, shQuote(arguments), stdout = TRUE, stderr = TRUE, timeout = seconds),
    error = function(e) structure(conditionMessage(e), status = 127L)
  ))
}

# What a tool printed last, in a line.
tool_report <- function(command, lines) {
  status <- attr(lines, "status")
  lines <- trimws(lines[nzchar(trimws(lines))])
  sprintf("%s: %s", command, if (length(lines) > 0L) lines[[length(lines)]] else paste("exit status", status %||% 0L))
}

abort_not_refined <- function(exported, said, problem) {
  what <- if (is_symbolic(exported)) "its symbolic dimensions" else "its platforms"
  reason <- if (!is.null(problem)) strsplit(conditionMessage(problem), "\n", fixed = TRUE)[[1L]][[1L]]
  pjrt_abort(
    paste(c(
      paste0("The exported function `", exported$name, "` cannot be compiled here: ", what, " cannot be resolved."),
      reason
    ), collapse = " "),
    "dynamic_shape", parent = problem,
    hints = c(
      if (is_symbolic(exported)) {
        paste(
          "Export it for fixed shapes, once for each:",
          "jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((32, 4), \"float32\"))."
        )
      } else {
        sprintf(
          "Export it for one: jax.export.export(jax.jit(f), platforms=[\"%s\"])(*args).", exported$platforms[[1L]]
        )
      },
      "Or install stablehlo-opt, or a Python with JAX: see options(pjrt.python = ).",
      said
    )
  )
}
