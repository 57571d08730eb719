# Runs the programs that tools/harnesses.py exported, as artifacts and as text, and compares the results with JAX's:
#
#   Rscript tools/harnesses.R FOLDER
#
# Prints each that differs by more than its dtype's rounding explains, or fails, and the counts.

library(pjrt)
options(pjrt.cache = FALSE, pjrt.progress = FALSE)
folder <- commandArgs(TRUE)[[1L]]

# how far results may be from JAX's, relative to the largest
tolerances <- c(bfloat16 = 2e-2, float16 = 2e-3, float32 = 2e-5, complex64 = 2e-5, float64 = 1e-12, complex128 = 1e-12)

read_array <- function(path, of) {
  bytes <- readBin(path, "raw", file.size(path))
  pjrt_buffer(bytes, dtype = of$dtype, shape = as.integer(unlist(of$shape)), row_major = TRUE)
}

# The largest difference, relative to the largest number; Inf if other numbers are missing.
difference <- function(found, expected) {
  found <- as.vector(as_array(found))
  expected <- as.vector(as_array(expected))
  if (length(found) != length(expected) || !identical(is.na(found), is.na(expected))) {
    return(Inf)
  }
  differs <- !is.na(found) & found != expected
  if (any(differs)) {
    max(Mod(found[differs] - expected[differs])) / max(Mod(expected[is.finite(expected)]), 1e-300)
  } else {
    0
  }
}

run <- function(path, program) {
  inputs <- lapply(seq_along(program$inputs), function(i) {
    read_array(sprintf("%s.in%d", path, i - 1L), program$inputs[[i]])
  })
  results <- do.call(pjrt_execute, c(list(pjrt_compile(pjrt_program(path = program$file))), inputs))
  results <- if (is.list(results)) results else list(results)
  for (i in seq_along(program$results)) {
    of <- program$results[[i]]
    found <- difference(results[[i]], read_array(sprintf("%s.out%d", path, i - 1L), of))
    tolerance <- if (of$dtype %in% names(tolerances)) tolerances[[of$dtype]] else 0
    if (found > tolerance) {
      return(sprintf("result %d, of %s, differs by %.2g", i, of$dtype, found))
    }
  }
  "equal"
}

counts <- c(equal = 0L, differs = 0L, fails = 0L)
for (line in readLines(file.path(folder, "index.jsonl"))) {
  program <- jsonlite::fromJSON(line, simplifyVector = FALSE)
  path <- file.path(folder, program$number)
  for (form in c("artifact", "mlir")) {
    program$file <- paste(path, form, sep = ".")
    found <- tryCatch(run(path, program), error = conditionMessage)
    kind <- if (found == "equal") "equal" else if (startsWith(found, "result ")) "differs" else "fails"
    counts[[kind]] <- counts[[kind]] + 1L
    if (kind != "equal") cat(sprintf("%s (%s): %s\n", program$name, form, found))
  }
}
print(counts)
