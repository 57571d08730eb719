# The lines with a buffer's elements that print() shows.
shown <- function(x, ...) utils::capture.output(print(x, ..., header = FALSE, footer = ""))

cut_line <- " ... [output was truncated, set max_rows = -1 to see all]"

test_that("print() starts with the class and ends with platform, dtype and shape", {
  x <- pjrt_buffer(matrix(1:10, 2))
  expect_snapshot(x, cran = TRUE)
  lines <- utils::capture.output(expect_invisible(print(x)))
  expect_identical(lines, c("PJRTBuffer ", "  1  3  5  7  9", "  2  4  6  8 10", "[ CPUi32{2x5} ] "))
  utils::capture.output(expect_identical(print(x), x))
  footer <- function(x) utils::tail(utils::capture.output(print(x)), 1L)
  expect_identical(footer(pjrt_scalar(-10.1213, "f64")), "[ CPUf64{} ] ")
  expect_identical(footer(pjrt_buffer(TRUE)), "[ CPUbool{1} ] ")
  expect_identical(footer(pjrt_empty("ui8", c(2, 0, 3))), "[ CPUui8{2x0x3} ] ")
})

test_that("header and footer can be left out or replaced", {
  x <- pjrt_buffer(1:2)
  expect_snapshot(cran = TRUE, {
    print(x, header = FALSE)
    print(x, footer = "")
    print(x, header = FALSE, footer = "")
    print(x, header = FALSE, footer = "[ f32{4} ]")
  })
  expect_identical(shown(x), c(" 1", " 2"))
  expect_identical(utils::capture.output(print(x, header = FALSE, footer = "mine"))[[3L]], "mine ")
})

test_that("a buffer in a list prints as one line, scalars with their value", {
  x <- pjrt_buffer(matrix(1:4, 2))
  line <- "<PJRTBuffer i32[2x2] on CpuDevice(id=0)>"
  printed <- utils::capture.output(print(list(a = x, loss = pjrt_scalar(1.5), list(x))))
  loss <- "<PJRTBuffer f32[] on CpuDevice(id=0)>: 1.5000"
  expect_identical(printed[nzchar(printed)], c("$a", line, "$loss", loss, "[[3]]", "[[3]][[1]]", line))
  whole <- utils::capture.output(print(x))
  expect_identical(utils::capture.output(do.call(print, list(x))), whole)
  expect_identical(utils::capture.output(invisible(lapply(list(x), print))), whole)
  gone <- pjrt_scalar(2)
  pjrt_delete(gone)
  expect_match(utils::capture.output(print(list(gone))), "deleted>", all = FALSE, fixed = TRUE)
})

test_that("top level shows a buffer whole and the buffers of a list as lines", {
  lines <- c("x <- pjrt::pjrt_buffer(matrix(1:4, 2))", "x", "list(x)", "x", "print(list(x))")
  withr::local_envvar(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep))
  printed <- processx::run(rscript(), c("--vanilla", rbind("-e", lines)))$stdout
  printed <- strsplit(printed, "\n", fixed = TRUE)[[1L]]
  whole <- c("PJRTBuffer ", " 1 3", " 2 4", "[ CPUi32{2x2} ] ")
  line <- c("[[1]]", "<PJRTBuffer i32[2x2] on CpuDevice(id=0)>", "")
  expect_identical(printed, c(whole, line, whole, line))
})

test_that("the reference samples print as before", {
  withr::local_options(pjrt.print_style = "columns")
  expect_snapshot(cran = TRUE, {
    pjrt_buffer(matrix(1:10, 2))
    pjrt_buffer(c(1e7, 2e7, 3e7, 1L), shape = c(2, 2))
    pjrt_buffer(matrix(c(1e7, 2e7, 3e7, 1L), 2))
    pjrt_buffer(c(Inf, Inf, NA, 100011.234567))
    pjrt_buffer(c(Inf, -Inf, NaN, 1))
    pjrt_buffer(c(1, 2.5))
    pjrt_scalar(-10.1213, "f64")
    pjrt_scalar(1e6)
    pjrt_scalar(1e5)
    pjrt_buffer(c(TRUE, FALSE, TRUE))
    pjrt_scalar(TRUE)
    pjrt_buffer(c(1e-7, 1e-7))
    pjrt_buffer(c(1e-9, 1e-9))
    pjrt_buffer(array(1:12, c(2, 3, 2)))
    pjrt_buffer(integer(), shape = 0)
    pjrt_empty("f32", c(3, 0))
  })
})

test_that("integers print with all their digits", {
  expect_identical(shown(pjrt_buffer(c(999999L, -999999L, 1234567L))), c("  999999", " -999999", " 1234567"))
  expect_identical(shown(pjrt_scalar(bit64::as.integer64("9007199254740993"))), " 9007199254740993")
  expect_identical(shown(pjrt_scalar(bit64::as.integer64("-9223372036854775807"))), " -9223372036854775807")
  expect_identical(shown(pjrt_buffer(-1L, "ui64")), " 18446744073709551615")
})

test_that("an integer that R reads as NA prints as NA", {
  expect_identical(shown(without_na_warning(pjrt_buffer(c(5L, NA)))), c("  5", " NA"))
  expect_identical(shown(without_na_warning(pjrt_scalar(bit64::as.integer64(NA)))), " NA")
  expect_identical(shown(pjrt_scalar(-2^31, "i64")), " -2147483648")
})

test_that("the options digits and width set the defaults", {
  x <- pjrt_buffer(c(1, 2.123456789), "f64")
  expect_identical(shown(x), c(" 1.0000", " 2.1235"))
  withr::with_options(list(digits = 10), expect_identical(shown(x), c(" 1.0000000", " 2.1234568")))
  withr::with_options(list(digits = 3), expect_identical(shown(x), c(" 1.0", " 2.1")))
  wide <- pjrt_buffer(matrix(1:100, 1))
  longest <- function() max(nchar(grep("Columns", shown(wide), value = TRUE, invert = TRUE)))
  withr::with_options(list(width = 80), expect_gt(longest(), 80))
  withr::with_options(list(width = 40), expect_lte(longest(), 40))
  withr::with_options(list(width = 40, pjrt.print_max_width = 60), expect_gt(longest(), 40))
  expect_identical(shown(pjrt_buffer(c(-1L, 20L, 300L))), c("  -1", "  20", " 300"))
  expect_identical(shown(pjrt_buffer(-1L, "ui8")), " 255")
})

test_that("buffers print as R prints arrays if asked", {
  withr::local_options(pjrt.print_style = "R")
  printed <- function(x, ...) utils::capture.output(expect_invisible(print(x, ...)))
  for (x in list(1:100, c(1.5, NA, 2), c(TRUE, FALSE), matrix(1:6, 2), array(1:12, c(2, 3, 2)), TRUE)) {
    body <- printed(pjrt_buffer(x))
    expect_identical(body[-c(1L, length(body))], utils::capture.output(print(as_array(pjrt_buffer(x)))))
    expect_identical(body[[1L]], "PJRTBuffer ")
    expect_match(body[[length(body)]], "^\\[ CPU.* \\] $")
  }
  expect_identical(printed(pjrt_scalar(TRUE))[[2L]], "[1] TRUE")
  expect_identical(printed(pjrt_empty("f32", c(0, 3)))[[3L]], "[ CPUf32{0x3} ] ")
  # only what is shown is read, and the rest is said to be missing
  heading <- list(NULL, NULL, "[,1]", c(", , 1", "", "[,1]"))
  for (x in list(1:1e5, matrix(1:1e5, 100), matrix(1:1e5, 1e4), array(1:1e5, c(10, 100, 100)))) {
    body <- printed(pjrt_buffer(x), max_rows = 5, max_width = 40)
    expect_length(body, 8L + length(heading[[length(dim(x)) + 1L]]))
    expect_identical(body[[length(body) - 1L]], cut_line)
    lines <- body[-c(1L, length(body) - 1:0)]
    expect_length(grep("^ *\\[[0-9]+,?\\]", lines), 5L)
    expect_lte(max(nchar(lines)), 40L)
  }
  expect_length(printed(pjrt_buffer(1:1e4), max_rows = -1), 2L + length(utils::capture.output(print(1:1e4))))
  # column names where the data had some
  frame <- data.frame(height = c(1.5, 2), weight = c(50, 60))
  expect_identical(printed(pjrt_buffer(frame))[2:4], utils::capture.output(print(as.matrix(frame))))
  for (x in list(as.matrix(frame), as.matrix(frame) > 55, array(1:2, c(1, 2), list("row", c("a", "b"))))) {
    expect_match(printed(pjrt_buffer(x))[[2L]], paste0("^ +", paste(colnames(x), collapse = " +"), "$"))
    expect_null(dimnames(as_array(pjrt_buffer(x))))
  }
  expect_match(printed(unserialize(serialize(pjrt_buffer(frame), NULL)))[[2L]], "weight")
  expect_match(printed(pjrt_buffer(frame, shape = 4L))[[2L]], "^\\[1\\]")
  expect_match(printed(pjrt_buffer(frame) + 1)[[2L]], "[,2]", fixed = TRUE)
  expect_length(printed(pjrt_buffer(matrix(1, 1e4, 2, dimnames = list(NULL, c("a", "b")))), max_rows = 5), 9L)
  # what others lay out stays
  expect_identical(utils::capture.output(print(pjrt_buffer(1:2), header = FALSE, footer = "")), c(" 1", " 2"))
  withr::local_options(pjrt.print_style = "r")
  message <- '`options(pjrt.print_style = )` must be "auto", "columns" or "R"'
  expect_refused(print(pjrt_scalar(1)), "invalid_type", message)
})

test_that("vectors, truth values and named columns print as in R, and other arrays in columns", {
  printed <- function(x, ...) utils::capture.output(print(x, ...))
  expect_identical(printed(pjrt_buffer(1:3)), c("PJRTBuffer ", "[1] 1 2 3", "[ CPUi32{3} ] "))
  expect_identical(printed(pjrt_buffer(c(1, NA), "f64"))[[2L]], "[1]  1 NA")
  expect_identical(printed(pjrt_buffer(c(1, NaN)))[[2L]], "[1]   1 NaN")
  expect_identical(printed(pjrt_scalar(TRUE))[[2L]], "[1] TRUE")
  expect_identical(printed(pjrt_buffer(matrix(c(TRUE, FALSE), 1)))[[3L]], "[1,] TRUE FALSE")
  expect_identical(printed(pjrt_buffer(data.frame(a = 1:2, b = 3:4)))[2:3], c("     a b", "[1,] 1 3"))
  expect_length(printed(pjrt_buffer(1:1e5)), 33L)
  expect_identical(printed(pjrt_buffer(matrix(1:4, 2)))[2:3], c(" 1 3", " 2 4"))
  expect_identical(printed(pjrt_scalar(-10.1213, "f64"))[[2L]], " -10.1213")
  # integer64, by digits
  expect_identical(printed(pjrt_buffer(c(1, 2^53), "i64"))[[2L]], "[1]                1 9007199254740992")
  big <- pjrt_buffer(c(1, 2^63), "ui64")
  expect_identical(printed(big)[[2L]], "[1]                   1 9223372036854775808")
  expect_length(printed(pjrt_buffer(1:1e5, "ui64")), 33L)
  missing <- suppressWarnings(pjrt_buffer(bit64::as.integer64(c(1, NA))))
  expect_identical(printed(missing)[[2L]], "[1]  1 NA")
  withr::local_options(pjrt.print_style = "R")
  expect_identical(printed(pjrt_scalar(3, "i64"))[[2L]], "[1] 3")
  expect_identical(printed(pjrt_buffer(matrix(c(1, 20), 2), "i64"))[2:4], c("     [,1]", "[1,]    1", "[2,]   20"))
  withr::local_options(pjrt.print_style = "columns")
  expect_identical(printed(pjrt_buffer(c(TRUE, FALSE)))[2:3], c(" 1", " 0"))
  expect_identical(printed(pjrt_buffer(c(1, 2.5)))[2:3], c(" 1.0000", " 2.5000"))
})

test_that("floats with whole values print like integers", {
  expect_identical(shown(pjrt_buffer(c(1, -2, 999999))), c("      1", "     -2", " 999999"))
  expect_identical(shown(pjrt_buffer(c(1e7, 1))), c(" 1.0000e+07", "          1"))
  expect_identical(shown(pjrt_buffer(c(NaN, 1, Inf))), c(" nan", "   1", " inf"))
})

test_that("other floats of moderate size print with four decimals", {
  expect_identical(shown(pjrt_buffer(c(1, 2.5))), c(" 1.0000", " 2.5000"))
  expect_identical(shown(pjrt_buffer(c(0, 0.00011), "f64")), c(" 0.0000", " 0.0001"))
  expect_identical(shown(pjrt_buffer(c(-999999.5, 0.5), "f64")), c(" -999999.5000", "       0.5000"))
  expect_identical(shown(pjrt_scalar(-10.1213, "f64")), " -10.1213")
  expect_identical(shown(pjrt_buffer(c(1.5, -0.25), "f16")), c("  1.5000", " -0.2500"))
  expect_identical(shown(pjrt_buffer(c(1.5, -0.25), "bf16")), c("  1.5000", " -0.2500"))
})

test_that("floats of similar magnitude print with a common scale", {
  expect_identical(shown(pjrt_buffer(c(1e-7, 2.5e-7), "f64")), c("1e-07 *", " 1.0000", " 2.5000"))
  expect_identical(shown(pjrt_buffer(c(12345678.5, -98765432.25), "f64")), c("1e+07 *", "  1.2346", " -9.8765"))
  expect_identical(shown(pjrt_buffer(c(0, NaN, 3e-5), "f64")), c("1e-05 *", " 0.0000", "    nan", " 3.0000"))
})

test_that("floats of different magnitude and single floats print in scientific notation", {
  expect_identical(shown(pjrt_buffer(c(1e-7, 1.5), "f64")), c(" 1.0000e-07", " 1.5000e+00"))
  expect_identical(shown(pjrt_buffer(c(-1.25e-7, 1e10), "f64")), c(" -1.2500e-07", "  1.0000e+10"))
  expect_identical(shown(pjrt_scalar(1e-7, "f64")), " 1.0000e-07")
  expect_identical(shown(pjrt_scalar(12345678.5, "f64")), " 1.2346e+07")
})

test_that("logical values print as 1 and 0", {
  expect_identical(shown(pjrt_buffer(matrix(c(TRUE, FALSE, TRUE, FALSE), 2))), c(" 1 1", " 0 0"))
})

test_that("columns fill the width and each chunk has a header", {
  expect_snapshot(pjrt_buffer(matrix(1:100, 2)), cran = TRUE)
  heads <- grep("^Columns", shown(pjrt_buffer(matrix(1:100, 2))), value = TRUE)
  expect_identical(heads, c("Columns 1 to 28", "Columns 29 to 49", "Columns 50 to 50"))
  x <- pjrt_buffer(matrix(1:2, 1))
  expect_identical(shown(x, max_width = 4), " 1 2")
  expect_identical(shown(x, max_width = 3), c("Columns 1 to 1", " 1", "Columns 2 to 2", " 2"))
  expect_identical(
    shown(pjrt_buffer(matrix(c(12345L, 1L), 1)), max_width = 2), c("Columns 1 to 1", " 12345", "Columns 2 to 2", " 1")
  )
  expect_length(shown(pjrt_buffer(matrix(1:1000, 2)), max_width = -1), 2L)
  expect_true(all(nchar(shown(pjrt_buffer(matrix(1:1000, 10)))) <= 85))
})

test_that("columns of a chunk are as wide as its widest value", {
  x <- pjrt_buffer(matrix(c(1L, 2L, 3L, 100000L), 2))
  expect_identical(shown(x), c("      1      3", "      2 100000"))
  expect_identical(shown(x, max_rows = 1), c(" 1 3", cut_line))
})

test_that("arrays with three or more dimensions print slice by slice", {
  expect_identical(
    shown(pjrt_buffer(array(1:8, c(2, 2, 2)))), c("(1,.,.) =", " 1 5", " 3 7", "", "(2,.,.) =", " 2 6", " 4 8")
  )
  expect_identical(
    grep("=", shown(pjrt_buffer(array(1:12, c(2, 1, 3, 1, 2)))), value = TRUE),
    c("(1,1,1,.,.) =", "(1,1,2,.,.) =", "(1,1,3,.,.) =", "(2,1,1,.,.) =", "(2,1,2,.,.) =", "(2,1,3,.,.) =")
  )
  # each slice is formatted separately
  x <- pjrt_buffer(array(c(1, 1e-7, 2, 2e-7), c(2, 1, 2)), "f64")
  expect_identical(shown(x), c("(1,.,.) =", " 1 2", "", "(2,.,.) =", "1e-07 *", " 1.0000 2.0000"))
})

test_that("an empty array prints no lines", {
  for (shape in list(0, c(0, 3), c(3, 0), c(2, 0, 2))) {
    x <- pjrt_empty("f32", shape)
    expect_identical(shown(x), character())
    expect_length(utils::capture.output(print(x)), 2L)
    expect_length(utils::capture.output(print(pjrt_empty("pred", shape))), 2L)
  }
})

test_that("rows beyond the limit are omitted with a note in the last line", {
  withr::local_options(pjrt.print_style = "columns")
  expect_snapshot(pjrt_buffer(1:100), cran = TRUE)
  expect_identical(shown(pjrt_buffer(1:100)), c(format(c("", 1:30), width = 3L, justify = "right")[-1L], cut_line))
  expect_identical(shown(pjrt_buffer(1:4), max_rows = 3), c(" 1", " 2", " 3", cut_line))
  expect_identical(shown(pjrt_buffer(1:3), max_rows = 3), c(" 1", " 2", " 3"))
  expect_identical(shown(pjrt_buffer(1:4), max_rows = 3L), c(" 1", " 2", " 3", cut_line))
})

test_that("max_rows = -1 shows everything", {
  expect_length(shown(pjrt_buffer(1:100), max_rows = -1), 100L)
  expect_length(shown(pjrt_buffer(array(1:400, c(2, 100, 2))), max_rows = -1L), 203L)
  expect_false(cut_line %in% shown(pjrt_buffer(1:1000), max_rows = -1))
})

test_that("max_rows counts rows across slices and chunks", {
  x <- pjrt_buffer(array(1:4, c(2, 2, 1)))
  expect_identical(shown(x, max_rows = 4), c("(1,.,.) =", " 1", " 3", "", "(2,.,.) =", " 2", " 4"))
  expect_identical(shown(x, max_rows = 3), c("(1,.,.) =", " 1", " 3", "", "(2,.,.) =", " 2", cut_line))
  expect_identical(shown(x, max_rows = 2), c("(1,.,.) =", " 1", " 3", cut_line))
  y <- pjrt_buffer(matrix(1:6, 2))
  expect_identical(
    shown(y, max_rows = 3, max_width = 4), c("Columns 1 to 2", " 1 3", " 2 4", "Columns 3 to 3", " 5", cut_line)
  )
})

test_that("max_rows_slice limits each slice", {
  x <- pjrt_buffer(array(1:4, c(2, 2, 1)))
  expect_identical(shown(x, max_rows_slice = 1), c("(1,.,.) =", " 1", "", "(2,.,.) =", " 2", cut_line))
  expect_identical(shown(x, max_rows_slice = -1), shown(x))
  # rows omitted from an earlier slice are noted, too
  y <- pjrt_buffer(array(1:3, c(1, 3, 1)))
  expect_identical(shown(y, max_rows_slice = 2), c("(1,.,.) =", " 1", " 2", cut_line))
})

test_that("both limits count rows, not headings, where buffers print as in R", {
  printed <- function(...) utils::head(utils::capture.output(print(...))[-1L], -1L)
  x <- pjrt_buffer(matrix(TRUE, 3, 2))
  heading <- "     [,1] [,2]"
  rows <- sprintf("[%d,] TRUE TRUE", 1:3)
  expect_identical(printed(x, max_rows = 3), c(heading, rows))
  expect_identical(printed(x, max_rows = 2), c(heading, rows[1:2], cut_line))
  expect_identical(printed(x, max_rows_slice = 1), c(heading, rows[[1L]], cut_line))
  expect_identical(printed(x, max_rows = 4, max_width = 10), c(
    "     [,1]", "[1,] TRUE", "[2,] TRUE", "[3,] TRUE", "     [,2]", "[1,] TRUE", cut_line
  ))
  y <- pjrt_buffer(array(TRUE, c(3, 2, 2)))
  expect_identical(printed(y, max_rows = 4), c(
    ", , 1", "", heading, rows, "", ", , 2", "", heading, rows[[1L]], cut_line
  ))
  expect_identical(printed(y, max_rows_slice = 1), c(
    ", , 1", "", heading, rows[[1L]], "", ", , 2", "", heading, rows[[1L]], "", cut_line
  ))
  expect_identical(printed(pjrt_buffer(1:100), max_rows_slice = 1, max_width = 10), c("[1] 1 2 3", cut_line))
})

test_that("buffers print whatever options(pjrt.check = ) says", {
  printed <- function(x) utils::capture.output(print(x))[[2L]]
  x <- pjrt_buffer(rep(.Machine$integer.max, 2)) + 1:2
  withr::local_options(pjrt.check = TRUE)
  expect_identical(printed(x), "[1]          NA -2147483647")
  dim(x) <- c(1, 2)
  expect_identical(printed(x), "          NA -2147483647")
  expect_identical(getOption("pjrt.check"), TRUE)
})

test_that("options set the default limits", {
  x <- pjrt_buffer(matrix(1:40, 20))
  withr::local_options(pjrt.print_max_rows = 2L)
  expect_identical(shown(x), c("  1 21", "  2 22", cut_line))
  expect_length(shown(x, max_rows = 5), 6L)
  withr::local_options(pjrt.print_max_rows = 30L, pjrt.print_max_rows_slice = 1L)
  expect_identical(shown(x), c("  1 21", cut_line))
  withr::local_options(pjrt.print_max_rows_slice = NULL, pjrt.print_max_width = 4L)
  expect_identical(shown(x)[[1L]], "Columns 1 to 1")
  withr::local_options(pjrt.print_max_width = -1L)
  expect_length(shown(pjrt_buffer(matrix(1:1000, 1))), 1L)
})

test_that("limits that would show nothing are refused", {
  x <- pjrt_scalar(1)
  for (bad in list(0, -2, 1.5, "3", NA, NULL, c(1, 2))) {
    expect_refused(print(x, max_rows = bad), "invalid_input", "`max_rows` must be")
    expect_refused(print(x, max_rows_slice = bad), "invalid_input", "`max_rows_slice` must be")
  }
  for (bad in list(0, 1, 2.5, "80", NA)) {
    expect_refused(print(x, max_width = bad), "invalid_input", "`max_width` must be")
  }
  expect_refused(print(x, header = NA), "invalid_input", "`header` must be TRUE or FALSE")
  for (bad in list(NA_character_, 1, c("a", "b"))) {
    expect_refused(print(x, footer = bad), "invalid_input", "`footer` must be NULL or one string")
  }
  withr::local_options(pjrt.print_max_rows = 0L)
  expect_refused(print(x), "invalid_input", "`options(pjrt.print_max_rows = )` must be")
})

test_that("a failing print() prints nothing", {
  expect_output(try(print(pjrt_buffer(1), footer = NA), silent = TRUE), NA)
  expect_output(try(print(pjrt_scalar(1), max_rows = 0), silent = TRUE), NA)
})

test_that("complex numbers and small floats print", {
  withr::local_options(pjrt.print_style = "columns")
  # created outside the snapshot, which deparses negative imaginary parts incorrectly
  x <- matrix(complex(real = c(1, 0, 3, 1e-3), imaginary = c(2, -0.5, 0, -1)), 2)
  expect_snapshot(pjrt_buffer(x), cran = TRUE)
  expect_snapshot(pjrt_buffer(c(0.5, 448, NaN), "f8e4m3fn"), cran = TRUE)
  y <- complex(real = NaN, imaginary = -1)
  expect_snapshot(pjrt_scalar(y, "c128"), cran = TRUE)
  expect_identical(format_buffer(pjrt_scalar(1 + 2i)), "(1.00000000e+00, 2.00000000e+00)")
  expect_identical(format_buffer(pjrt_scalar(NaN, "f8e4m3fn")), "0x7F")
})

test_that("print() waits for a pending buffer", {
  x <- pjrt_execute(compile(loop_program(2e6)), pjrt_scalar(1, "f64"))
  expect_identical(shown(x), " 2")
})

test_that("format_buffer() formats many elements like single ones", {
  x <- c(rnorm(69990), NaN, Inf, -Inf, rep(1.5, 7))
  few <- unlist(lapply(split(x, (seq_along(x) - 1) %/% 1000), function(part) format_buffer(pjrt_buffer(part))))
  expect_identical(c(format_buffer(pjrt_buffer(x))), unname(few))
  expect_identical(c(format_buffer(pjrt_buffer(matrix(x, 700)))), unname(few))
})

test_that("constants have all digits of their dtype", {
  expect_identical(format_buffer(pjrt_scalar(1.23)), "1.23000002e+00")
  expect_identical(format_buffer(pjrt_scalar(-3.33, "f64")), "-3.3300000000000001e+00")
  expect_identical(format_buffer(pjrt_buffer(c(0, -0, 1e-45, 3e38))), array(c(
    "0.00000000e+00", "-0.00000000e+00", "1.40129846e-45", "3.00000001e+38"
  )))
  expect_identical(format_buffer(pjrt_scalar(5e-324, "f64")), "4.9406564584124654e-324")
  expect_identical(format_buffer(pjrt_buffer(c(TRUE, FALSE))), array(c("true", "false")))
  expect_identical(format_buffer(pjrt_scalar(TRUE)), "true")
  expect_identical(format_buffer(pjrt_buffer(c(-5L, 0L, 7L))), array(c("-5", "0", "7")))
  expect_identical(format_buffer(pjrt_buffer(-1L, "ui64")), array("18446744073709551615"))
  expect_identical(format_buffer(pjrt_buffer(-1e300, "i64")), array("-9223372036854775808"))
  expect_identical(format_buffer(pjrt_scalar(-1L, "ui8")), "255")
})

test_that("non-finite constants are written as bit patterns", {
  x <- c(NaN, Inf, -Inf)
  expect_identical(format_buffer(pjrt_buffer(x)), array(c("0x7FC00000", "0x7F800000", "0xFF800000")))
  expect_identical(
    format_buffer(pjrt_buffer(x, "f64")), array(c("0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000"))
  )
  expect_identical(format_buffer(pjrt_buffer(x, "f16")), array(c("0x7E00", "0x7C00", "0xFC00")))
})

test_that("format_buffer() keeps the dimensions", {
  expect_identical(format_buffer(pjrt_buffer(matrix(1:6, 2))), matrix(as.character(1:6), 2))
  expect_identical(format_buffer(pjrt_buffer(1L)), array("1"))
  expect_null(dim(format_buffer(pjrt_scalar(1L))))
  expect_identical(format_buffer(pjrt_empty("f32", c(2, 0))), matrix(character(), 2, 0))
  expect_identical(format_buffer(pjrt_empty("f32", 0)), array(character(), 0L))
})

test_that("constants of small types keep their sign", {
  x <- pjrt_buffer(as.raw(c(255, 248, 7)), dtype = "i4", shape = 3, row_major = TRUE)
  expect_identical(format_buffer(x), array(c("-1", "-8", "7")))
  expect_identical(shown(x), c(" -1", " -8", "  7"))
})

test_that("a program with a formatted constant returns the same bits", {
  values <- list(f32 = c(1 / 3, NaN, Inf, -1e-30), f64 = c(1 / 3, NaN, -Inf, 5e-300), i64 = c(-2^60, 7, 0, 1))
  for (dtype in names(values)) {
    x <- pjrt_buffer(values[[dtype]], dtype)
    constant <- compile(sprintf("func.func @main() -> tensor<4x%s> {
      %%0 = stablehlo.constant dense<[%s]> : tensor<4x%s>
      return %%0 : tensor<4x%s>
    }", dtype, paste(format_buffer(x), collapse = ", "), dtype, dtype))
    expect_identical(as_raw(pjrt_execute(constant), TRUE), as_raw(x, TRUE))
  }
})

test_that("format_buffer() accepts only buffers", {
  for (bad in list(1, "a", NULL, pjrt_client("cpu"))) {
    expect_refused(format_buffer(bad), "invalid_input", "`buffer` must be a `PJRTBuffer`")
  }
})

test_that("NA prints as R prints it where as_array() returns NA", {
  body <- function(...) utils::capture.output(print(pjrt_buffer(...), header = FALSE, footer = ""))
  expect_identical(body(c(1.5, NA, NaN), "f64"), c(" 1.5000", "     NA", "    nan"))
  expect_identical(body(c(1.5, NA, NaN), "f32"), c(" 1.5000", "    nan", "    nan"))
  expect_identical(body(c(1i, NA), "c128"), c(" 0+1i", "   NA"))
})
