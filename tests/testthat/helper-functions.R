# The parts of a file of the folders exported/functions and exported/forms: the words of the line before each, and its
# bytes, whose count is the last word, if there is one.
read_parts <- function(file) {
  con <- xzfile(file, "rb")
  on.exit(close(con))
  content <- readBin(con, raw(), 1e8)
  ends <- which(content == as.raw(10L))
  at <- 0L
  take <- function(n) {
    at <<- at + n
    content[seq_len(n) + at - n]
  }
  parts <- list()
  while (at < length(content)) {
    line <- take(ends[[findInterval(at, ends) + 1L]] - at)
    words <- strsplit(rawToChar(line[-length(line)]), " ", fixed = TRUE)[[1L]]
    content_of <- if (length(words) > 1L) take(as.integer(words[[length(words)]]))
    parts[[length(parts) + 1L]] <- list(words = words, content = content_of)
  }
  parts
}

# The functions in a file of the folder exported/functions, which make_functions.py describes: each with the content
# of its exported file, and runs with arrays for its inputs and outputs.
read_functions <- function(file) {
  functions <- list()
  current <- NULL
  keep <- function() if (!is.null(current)) functions[[length(functions) + 1L]] <<- current
  for (part in read_parts(file)) {
    words <- part$words
    if (words[[1L]] == "program") {
      keep()
      current <- list(
        name = words[[2L]], devices = as.integer(words[[3L]]), tolerance = as.numeric(words[[4L]]),
        content = part$content, runs = list()
      )
    } else if (words[[1L]] == "run") {
      current$runs <- c(current$runs, list(list(input = list(), output = list())))
    } else {
      shape <- if (words[[3L]] == "-") integer() else as.integer(strsplit(words[[3L]], "x", fixed = TRUE)[[1L]])
      array <- list(dtype = words[[2L]], shape = shape, data = part$content)
      run <- length(current$runs)
      current$runs[[run]][[words[[1L]]]] <- c(current$runs[[run]][[words[[1L]]]], list(array))
    }
  }
  keep()
  functions
}

# The forms in a file of the folder exported/forms, which make_forms.py describes: a list for each function, with the
# program in each form.
read_forms <- function(file) {
  parts <- read_parts(file)
  words <- function(i) vapply(parts, function(part) part$words[[i]], "")
  programs <- lapply(parts, function(part) if (part$words[[3L]] == "text") rawToChar(part$content) else part$content)
  names(programs) <- words(3L)
  split(programs, factor(words(2L), unique(words(2L))))
}

# The array in a file of functions as a buffer, and as numbers.
buffer_of <- function(array) pjrt_buffer(array$data, dtype = array$dtype, shape = array$shape, row_major = TRUE)
numbers_of <- function(buffer) as.vector(as_array(buffer, int64 = "double"))

# Compiles an exported function or a program, and returns its results for a run as numbers. On several devices, given
# as a list, each array is divided along its first dimension.
run_function <- function(program, run, kept, devices = NULL, shapes = NULL) {
  inputs <- run$input[kept]
  # most of the time is the compiler's, and nothing here depends on how fast the programs are
  options <- pjrt_compile_options(optimization_level = if (is_soak()) NULL else 0)
  if (is.null(devices)) {
    executable <- pjrt_compile(program, options, shapes = shapes)
    outputs <- do.call(pjrt_execute, c(executable, lapply(inputs, buffer_of), simplify = FALSE))
    return(lapply(outputs, numbers_of))
  }
  executable <- pjrt_compile(program, options, devices = devices)
  parts <- lapply(inputs, function(input) pjrt_shard(as_array(buffer_of(input)), devices, dtype = input$dtype))
  outputs <- pjrt_execute_sharded(executable, lapply(seq_along(devices), function(i) lapply(parts, `[[`, i)))
  list(as.vector(pjrt_unshard(outputs)))
}

# Which results of a function differ from those in its file, in words; none if all are right.
wrong_results <- function(f, load = pjrt_load_exported, devices = NULL) {
  exported <- pjrt_load_exported(f$content)
  program <- load(f$content)
  is_symbolic <- any(vapply(exported$inputs$shape, is.character, NA))
  if (f$devices > 1L) devices <- devices[seq_len(f$devices)] else devices <- NULL
  found <- lapply(f$runs, function(run) {
    shapes <- if (is_symbolic) lapply(run$input, `[[`, "shape")
    results <- run_function(program, run, exported$inputs$kept, devices, shapes)
    expected <- lapply(run$output, function(output) numbers_of(buffer_of(output)))
    same <- all.equal(results, expected, tolerance = f$tolerance, check.attributes = FALSE)
    if (!isTRUE(same)) paste(f$name, same)
  })
  unlist(found)
}
