# The compiler computes operations on constants itself. The results are those of the program, except for known errors of
# the compiler, which the article on reliability lists.
# Slow: compiles a thousand programs.

withr::local_options(pjrt.cache = FALSE, .local_envir = teardown_env())

# Each fails here once a plugin computes it correctly.
known_folds <- function() {
  signed <- c("i4", "i8", "i16", "i32", "i64")
  floats <- c("f16", "bf16", "f32", "f64")
  of <- function(operations, types) as.vector(outer(operations, types, paste))
  known <- c(
    # of negative numbers
    of("count_leading_zeros", c("i4", "i8", "i16", "i32")),
    "add i1", "bitcast_convert to i4 i8",
    # they drop NaN
    of(c("maximum", "minimum", "clamp"), floats),
    # without a type of comparison, as if the numbers had no sign
    of(c("compare LT", "compare GE"), signed)
  )
  known[sub(".* ", "", known) %in% folding_types]
}

test_that("operations on constants and on arguments have the same results, with known exceptions", {
  found <- wrong_folds()
  # in the last place, which depends on the machine's mathematical functions
  rounded <-
    "^(exponential|rsqrt|cbrt|tanh|logistic|exponential_minus_one|log|log_plus_one|sine|cosine|power|atan2|sqrt) (f16|bf16|f32|f64)$"
  expect_setequal(grep(rounded, found, value = TRUE, invert = TRUE), known_folds())
})

test_that("comparisons of constants with a type are right", {
  signed <- function(order) sprintf("%%r = stablehlo.compare %s, %%x, %%y, SIGNED : ({t}, {t}) -> {o}", order)
  for (type in c("i8", "i32", "i64")) {
    for (order in c("LT", "GE")) {
      expect_false(folds_wrongly(signed(order), type, folding_pairs(type), "i1"), label = paste(order, type))
    }
  }
})
