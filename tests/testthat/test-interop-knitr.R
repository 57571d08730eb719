# Objects in documents that knitr makes.
# Slow: renders documents.

# The text of one that knitr renders to `format`.
rendered <- function(format, extra = character()) {
  skip_if_not_installed("rmarkdown")
  skip_if_not(rmarkdown::pandoc_available("2.0"), "pandoc is not installed")
  rmd <- withr::local_tempfile(fileext = ".Rmd", lines = c(
    "---", "title: x", "---", "", "```{r}", "library(pjrt)",
    "pjrt_buffer(matrix(c(1.5, -2, 3, 4), 2))", "pjrt_buffer(1:3)", "pjrt_scalar(TRUE)",
    "pjrt_buffer(array(1:8, c(2, 2, 2)))", "dead <- pjrt_buffer(1)", "pjrt_delete(dead)", "dead",
    "path <- system.file(\"programs\", \"logistic-step.mlir\", package = \"pjrt\")",
    "program <- pjrt_program(path = path)",
    "program", "step <- pjrt_compile(program)", "step", "executable_cost(step, by = \"operation\")",
    "as_dot(program, max_nodes = 5)", "pjrt_trace(as_array(pjrt_scalar(1) + 1))", extra, "```"
  ))
  output <- rmarkdown::render(rmd, format, quiet = TRUE, envir = new.env(parent = globalenv()), runtime = "static")
  paste(readLines(output, encoding = "UTF-8", warn = FALSE), collapse = "\n")
}

test_that("buffers, executables and costs are tables in HTML", {
  skip_if_not_installed("rmarkdown")
  text <- rendered(rmarkdown::html_document(self_contained = FALSE, theme = NULL, mathjax = NULL))
  expect_length(gregexpr("<table", text)[[1L]], 6L)
  expect_match(text, "<code>&lt;PJRTTrace&gt; [0-9.]+ [mu]?s, [0-9]+ events</code>")
  expect_match(text, "R’s main thread|R\'s main thread|R&#39;s main thread|R&#x27;s main thread")
  expect_match(text, "<code>&lt;PJRTBuffer f32[2x2] on CpuDevice(id=0)&gt;</code>", fixed = TRUE)
  expect_match(text, "<td[^>]*>-2.0000</td>")
  expect_match(text, "<td[^>]*>%features</td>")
  expect_match(text, "<td[^>]*>f64\\[100x5\\]</td>")
  expect_match(text, "<td[^>]*>donated</td>")
  expect_match(text, "PJRTBuffer f32[1], deleted", fixed = TRUE)
  expect_match(text, "digraph program", fixed = TRUE)
  # print() as in the console
  expect_match(text, "(2,.,.) =", fixed = TRUE)
})

test_that("the LaTeX of a PDF has the same tables, with special characters escaped", {
  skip_if_not_installed("rmarkdown")
  text <- rendered(rmarkdown::latex_document())
  expect_length(gregexpr("\\\\begin\\{longtable\\}", text)[[1L]], 6L)
  expect_match(text, "\\%features", fixed = TRUE)
  expect_match(text, "f64{[}100x5{]}", fixed = TRUE)
})

test_that("tables in a PDF keep their natural width, and fit on the page", {
  skip_if_not_installed("rmarkdown")
  long <- strrep("long_", 25)
  text <- rendered(rmarkdown::latex_document(), c(
    "pjrt_buffer(matrix(seq(-1e8, 1e8, length.out = 100), 10))", "pjrt_buffer(matrix(-0.0987 * (1:100), 10))",
    sprintf("pjrt_compile(pjrt_program(\"func.func @main(%%%s: tensor<2xf32>) -> tensor<2xf32> {", long),
    sprintf("return %%%s : tensor<2xf32> }\"))", long)
  ))
  expect_match(text, "\\begin{longtable}[]{@{}lrr@{}}", fixed = TRUE)
  # the table of operations
  expect_match(text, "\\begin{longtable}[]{@{}llrrrl@{}}", fixed = TRUE)
  # columns of a share of the page, whose text wraps
  expect_no_match(text, "\\real{", fixed = TRUE)
  # too wide for a table
  expect_match(text, "## Columns 1 to")
  expect_match(text, "\\begin{longtable}[]{@{}lrrrrrrrrrr@{}}", fixed = TRUE)
  # names are clipped
  expect_match(gsub("\n", " ", text), "input & \\\\%long[\\\\_long]+\\\\ldots")
})

test_that("code in a PDF is folded", {
  skip_if_not_installed("rmarkdown")
  text <- rendered(rmarkdown::latex_document())
  code <- regmatches(text, gregexpr("(?s)\\\\begin\\{verbatim\\}.*?\\\\end\\{verbatim\\}", text, perl = TRUE))[[1L]]
  code <- unlist(strsplit(grep("func.func|digraph", code, value = TRUE), "\n", fixed = TRUE))
  expect_gt(length(code), 20L)
  expect_lte(max(nchar(code)), 90L)
  expect_match(code, "^    // .*all ones", all = FALSE)
})

test_that("lines fold at blanks outside of strings", {
  expect_identical(pjrt:::folded("short", 30), "short")
  expect_identical(pjrt:::folded(strrep("x", 50), 30), c(strrep("x", 30), paste0("    ", strrep("x", 20))))
  expect_identical(
    pjrt:::folded("  n1 [label=\"one two three\", fillcolor=\"a b c\"];", 30),
    c("  n1 [label=\"one two three\",", "      fillcolor=\"a b c\"];")
  )
  expect_identical(
    pjrt:::folded("  // one two three four five six seven", 32), c("  // one two three four five six", "      // seven")
  )
})

test_that("code in sentences looks like code", {
  skip_if_not_installed("knitr")
  expect_identical(pjrt:::escape_sentence("50% in `f(x_1)` at 1_", "latex"), "50\\% in \\texttt{f(x\\_1)} at 1\\_")
  expect_identical(pjrt:::escape_sentence("`a<b`", "html"), "<code>a&lt;b</code>")
  expect_identical(pjrt:::escape_sentence("a_b `c_d`", "pipe"), "a&#95;b `c_d`")
  expect_identical(pjrt:::escape_sentence("a`", "pipe"), "a&#96;")
})

test_that("LaTeX documents get LaTeX, HTML documents HTML", {
  skip_if_not_installed("knitr")
  knitted <- function(ending, lines) {
    input <- withr::local_tempfile(fileext = ending, lines = lines)
    output <- withr::local_tempfile()
    old <- knitr::opts_knit$get()
    withr::defer(knitr::opts_knit$restore(old))
    withr::with_dir(dirname(input), knitr::knit(input, output, quiet = TRUE, envir = new.env(parent = globalenv())))
    paste(readLines(output), collapse = "\n")
  }
  code <- c(
    "library(pjrt)", "pjrt_buffer(matrix(1:4, 2))",
    "pjrt_compile(pjrt_program(path = system.file(\"programs\", \"logistic-step.mlir\", package = \"pjrt\")))"
  )
  latex <- knitted(
    ".Rnw", c("\\documentclass{article}\\begin{document}", "<<dev = 'pdf'>>=", code, "@", "\\end{document}")
  )
  expect_match(latex, "\\begin{tabular}", fixed = TRUE)
  expect_match(latex, "\\texttt{\\ensuremath{<}PJRTBuffer i32[2x2]", fixed = TRUE)
  expect_match(latex, "\\%features", fixed = TRUE)
  html <- knitted(".Rhtml", c("<html>", "<!--begin.rcode dev = 'pdf'", code, "end.rcode-->", "</html>"))
  expect_match(html, "<table", fixed = TRUE)
  expect_match(html, "<code>&lt;PJRTBuffer i32[2x2]", fixed = TRUE)
})

test_that("only small buffers are tables", {
  skip_if_not_installed("knitr")
  is_table <- function(x) {
    # other buffers are printed
    utils::capture.output(shown <- knitr::knit_print(x))
    inherits(shown, "knit_asis")
  }
  expect_false(is_table(pjrt_buffer(matrix(1:42, 21))))
  expect_true(is_table(pjrt_buffer(matrix(1:40, 20))))
  expect_false(is_table(pjrt_buffer(1:11)))
  expect_false(is_table(pjrt_buffer(integer())))
  expect_true(is_table(pjrt_buffer(1:10)))
})

test_that("names in a table cannot become markup", {
  skip_if_not_installed("knitr")
  expect_identical(pjrt:::escape_text("a|b*c_d`<x>", "pipe"), "a&#124;b&#42;c&#95;d&#96;&#60;x&#62;")
  expect_identical(pjrt:::escape_text("&#;[1]", "pipe"), "&#38;&#35;&#59;&#91;1&#93;")
  expect_identical(pjrt:::escape_text("<b>&", "html"), "&lt;b&gt;&amp;")
  expect_identical(pjrt:::escape_text("50%_{\\x}~", "latex"), "50\\%\\_\\{\\textbackslash{}x\\}\\~{}")
  expect_identical(pjrt:::code_span("a``b", "pipe"), "```a``b```")
})

test_that("tables have the numbers and column names that print() shows", {
  skip_if_not_installed("knitr")
  row <- function(x) {
    lines <- grep("^[|]", strsplit(knitr::knit_print(x), "\n", fixed = TRUE)[[1L]], value = TRUE)
    text <- gsub("&#43;", "+", gsub("[ |]+", " ", lines), fixed = TRUE)
    list(heading = trimws(text[[1L]]), cells = trimws(text[[3L]]))
  }
  expect_identical(row(sum(pjrt_buffer(1:3)))$cells, "6")
  expect_identical(row(pjrt_buffer(c(1, 2^31), "ui32"))$cells, "1 2147483648")
  expect_identical(row(pjrt_buffer(c(1, 2^63), "ui64"))$cells, "1 9223372036854775808")
  expect_identical(row(pjrt_buffer(c(-1, 2^40), "i64"))$cells, "-1 1099511627776")
  expect_identical(row(without_na_warning(pjrt_buffer(bit64::as.integer64(c(1, NA)))))$cells, "1 NA")
  expect_identical(row(pjrt_scalar(1e-6))$cells, "1.0000e-06")
  expect_identical(row(pjrt_buffer(c(0.00001234, 0.5)))$cells, "1.234e-05 5.000e-01")
  # in the same place as in the buffer
  expect_match(row(pjrt_buffer(matrix(c(1.5, 3, 2, 4), 2)))$cells, "1.5000 2.0000", fixed = TRUE)
  named <- row(pjrt_buffer(data.frame(u = 1:2, v = 3:4)))
  expect_identical(named$heading, "u v")
  expect_match(named$cells, "1 3", fixed = TRUE)
})
