# Reads the idioms for vignettes/stablehlo.Rmd, which shows them, and tests/testthat/test-idioms.R, which runs them.
#
# arguments.txt has the arguments of all programs: a name, its type, and its value in R. Each other file has a group: a
# title after "##", a text, and the idioms. An idiom is a line "R:" with an R expression, and the lines that compute it
# as %r, until an empty line. The last type in them is that of the result. A line "check:" is what must hold for the
# result `r` instead of being equal to that of R.

read_arguments <- function(folder) {
  parts <- strsplit(readLines(file.path(folder, "arguments.txt")), " <- ", fixed = TRUE)
  part <- function(i) vapply(parts, `[[`, "", i)
  data.frame(name = part(1L), type = part(2L), value = part(3L))
}

# A list of groups, each with a title, a text and its idioms.
read_idioms <- function(folder) {
  files <- sort(list.files(folder, "^[0-9].*[.]txt$", full.names = TRUE))
  lapply(files, function(file) {
    lines <- readLines(file)
    block <- cumsum(!nzchar(lines))
    blocks <- lapply(split(lines[nzchar(lines)], block[nzchar(lines)]), as_idiom)
    list(title = sub("^## ", "", lines[[1L]]), text = blocks[[1L]]$lines[-1L], idioms = unname(blocks[-1L]))
  })
}

as_idiom <- function(lines) {
  starts <- function(with) startsWith(lines, with)
  after <- function(with) substring(lines[starts(with)], nchar(with) + 1L)
  list(r = after("R: "), checks = after("check: "), lines = lines[!starts("R: ") & !starts("check: ")])
}

# The text of a program that returns the result of an idiom, and the arguments that it takes.
idiom_program <- function(idiom, arguments) {
  lines <- idiom$lines
  code <- sub("^ *//.*", "", lines)
  # functions beside @main, from "func.func" to "}"
  depth <- cumsum(startsWith(code, "func.func")) - cumsum(c(0L, utils::head(code == "}", -1L)))
  outside <- depth > 0L
  body <- paste(lines[!outside], collapse = "\n  ")
  used <- vapply(
    arguments$name, function(name) grepl(paste0("%", name, "\\b"), paste(code[!outside], collapse = "\n")), NA
  )
  taken <- arguments[used, ]
  types <- regmatches(body, gregexpr("tensor<([^<>]|<[^<>]*>)*>", body))[[1L]]
  text <- sprintf(
    "%s\nfunc.func @main(%s) -> %s {\n  %s\n  return %%r : %s\n}", paste(lines[outside], collapse = "\n"),
    toString(sprintf("%%%s: tensor<%s>", taken$name, taken$type)), utils::tail(types, 1L), body, utils::tail(types, 1L)
  )
  list(text = text, arguments = taken)
}
