# The StableHLO of the article "StableHLO for R users": each idiom is compiled, run and compared with R.
# Slow: compiles more than a hundred programs.

folder <- system.file("idioms", package = "pjrt")
source(file.path(folder, "read.R"), local = TRUE)
arguments <- read_arguments(folder)
groups <- read_idioms(folder)

# The arguments as R values.
values <- lapply(structure(arguments$value, names = arguments$name), function(value) eval(parse(text = value)))

# A buffer of the type that a program states, such as "3x2xf64".
upload_as <- function(value, type) {
  dtype <- sub(".*x", "", type)
  if (grepl("x", type)) pjrt_buffer(value, dtype) else pjrt_scalar(value, dtype)
}

run_idiom <- function(idiom) {
  program <- idiom_program(idiom, arguments)
  executable <- compile(program$text)
  inputs <- Map(upload_as, values[program$arguments$name], program$arguments$type)
  as_array(do.call(pjrt_execute, c(list(executable), unname(inputs))), int64 = "double")
}

# R's result, in a new environment because some expressions assign.
evaluate <- function(text, ...) eval(parse(text = text), list2env(list(...), parent = list2env(values)))

# How a result differs from that of R: in its dimensions, its type or its values. NULL if it does not.
difference <- function(got, expected) {
  dims <- function(x) if (length(dim(x)) > 1L) dim(x) else length(x)
  kind <- function(x) if (is.numeric(x)) "numeric" else typeof(x)
  if (!identical(dims(got), dims(expected)) || kind(got) != kind(expected)) {
    return("another shape or type")
  }
  same <- all.equal(as.vector(got), as.vector(unname(expected)), tolerance = 1e-12)
  if (!isTRUE(same)) same
}

# Whether numbers follow a distribution. The seeds are fixed, so the answer is always the same.
quick_test <- function(r, distribution) stats::ks.test(as.vector(r), distribution)$p.value > 0.01

for (group in groups) {
  test_that(paste("idioms equal R:", group$title), {
    expect_gt(length(group$text), 0L)
    for (idiom in group$idioms) {
      expect_length(idiom$r, 1L)
      got <- run_idiom(idiom)
      if (length(idiom$checks) == 0L) {
        expect_null(difference(got, evaluate(idiom$r)), info = idiom$r)
      } else {
        expect_identical(length(got), length(evaluate(idiom$r)), info = idiom$r)
        for (check in idiom$checks) {
          expect_true(all(evaluate(check, r = got, quick_test = quick_test)), info = paste(idiom$r, check))
        }
      }
    }
  })
}

test_that("the idioms are many, different, and use all arguments", {
  idioms <- unlist(lapply(groups, `[[`, "idioms"), recursive = FALSE)
  expect_gte(length(idioms), 100L)
  expressions <- vapply(idioms, `[[`, "", "r")
  expect_identical(anyDuplicated(expressions), 0L)
  used <- unlist(lapply(idioms, function(idiom) idiom_program(idiom, arguments)$arguments$name))
  expect_setequal(used, arguments$name)
  expect_lte(max(nchar(unlist(lapply(idioms, `[[`, "lines")))), 100L)
})

test_that("the comparison with R notices differences", {
  expect_null(difference(array(c(1, NaN)), c(1, NaN)))
  expect_null(difference(matrix(1:4, 2), matrix(c(1, 2, 3, 4), 2)))
  expect_match(difference(c(1, 2), c(1, 2 + 1e-10)), "difference")
  expect_match(difference(c(1, NaN), c(1, 2)), "is.NA")
  expect_match(difference(matrix(1:4, 2), t(matrix(1:4, 2))), "difference")
  expect_match(difference(matrix(1:6, 2), matrix(1:6, 3)), "shape")
  expect_match(difference(1:4, matrix(1:4, 2)), "shape")
  expect_match(difference(TRUE, 1), "type")
})
