# Shows objects in documents that knitr makes. The tables are knitr's own, so they suit HTML, LaTeX and all formats of
# pandoc.

#' Show objects in R Markdown and Quarto
#'
#' In R Markdown, Quarto and other documents that knitr makes, these objects look like the rest of the document when a
#' chunk ends with one of them. This needs no setup.
#'
#' * Small buffers with at most two dimensions become tables, and larger ones print as usual. A table has at most
#'   20 rows and 10 columns.
#' * Executables become a table of their inputs and outputs.
#' * Operation costs become a table of the most expensive operations.
#' * Traces become their summary, with a table of what R did.
#' * Programs, and graphs of `as_dot()`, become code.
#'
#' In LaTeX, where wide text would be cut off at the margin, long lines of code are folded, a buffer that is too wide
#' for a table prints as usual, and other tables shorten their longest cells.
#'
#' `print()` and the chunk option `render = knitr::normal_print` always show plain text.
#'
#' In object browsers and tibbles, a buffer shows its dtype and shape.
#' @seealso [print.PJRTBuffer()], [buffer-methods]
#' @examplesIf pjrt::plugins_downloaded("cpu") && requireNamespace("knitr", quietly = TRUE)
#' x <- pjrt_buffer(matrix(1:6, 2))
#' cat(knitr::knit_print(x), sep = "\n")
#' @name documents
NULL

#' @exportS3Method knitr::knit_print
knit_print.PJRTBuffer <- function(x, ...) {
  if (!is_small(x)) {
    return(knitr::normal_print(x))
  }
  cells <- cell_text(x)
  heading <- if (length(dim(x)) == 0L) "value" else attr(x, "column_names", exact = TRUE) %||% sprintf(
    "[%s%d]", if (length(dim(x)) == 2L) "," else "", seq_len(ncol(cells))
  )
  colnames(cells) <- heading
  if (length(dim(x)) == 2L) {
    cells <- cbind(" " = sprintf("[%d,]", seq_len(nrow(cells))), cells)
  }
  if (knitr::is_latex_output() && table_width(cells) > page_width) {
    return(knitr::normal_print(x))
  }
  knit_table(format(x), cells, c(if (length(dim(x)) == 2L) "l", rep("r", length(heading))))
}

# Whether a buffer fits on a page as a table, and can be read.
is_small <- function(x) {
  if (!is.null(dead_buffer(x))) {
    return(FALSE)
  }
  dims <- shape(x)
  length(dims) <= 2L && all(dims > 0) && all(utils::tail(dims, 1L) <= 10) && (length(dims) < 2L || dims[[1L]] <= 20)
}

# The elements as print() shows them, in a matrix of text.
cell_text <- function(x) {
  dims <- if (length(dim(x)) == 2L) dim(x) else c(1L, length(x))
  if (elt_type(x) %in% c("i64", "ui64", "ui32")) {
    text <- exact_text(x)
    text[is.na(text)] <- "NA"
    return(matrix(text, dims[[1L]]))
  }
  if (print_style(x) != "R") {
    # in R's order
    lines <- call_native(ffi_buffer_lines, x, -1, -1, -1, print_decimals())
    words <- strsplit(trimws(unlist(strsplit(paste(lines, collapse = ""), "\n", fixed = TRUE))), " +")
    words <- unlist(words[lengths(words) > 0L])
    if (length(words) == prod(dims)) {
      return(matrix(words, dims[[1L]], byrow = TRUE))
    }
  }
  values <- matrix(bare_values(x), dims[[1L]])
  # R aligns each column of a matrix on its own, and a vector as a whole
  text <- if (length(dim(x)) == 2L) apply(values, 2L, format, trim = TRUE) else format(values, trim = TRUE)
  matrix(text, dims[[1L]])
}

#' @exportS3Method knitr::knit_print
knit_print.PJRTLoadedExecutable <- function(x, ...) {
  described <- tryCatch(describe_executable(x), pjrt_error_invalid_pointer = function(e) NULL)
  if (is.null(described)) {
    return(knitr::normal_print(x))
  }
  part <- function(kind, table) {
    table <- as_table(table)
    notes <- if (kind == "input") ifelse(table$donated, "donated", "") else rep("", nrow(table))
    cbind(rep(kind, nrow(table)), table$name, types(table), notes)
  }
  rows <- rbind(part("input", described$inputs), part("output", described$outputs))
  colnames(rows) <- c("", "name", "type", " ")
  if (!any(nzchar(rows[, 4L]))) {
    rows <- rows[, -4L, drop = FALSE]
  }
  heading <- sprintf("<PJRTLoadedExecutable %s>, %s", described$name, device_line(x))
  long <- nrow(rows) > 40L
  knit_table(heading, if (long) rows[1:40, , drop = FALSE] else rows, more = if (long) nrow(rows) - 40L)
}

#' @exportS3Method knitr::knit_print
knit_print.PJRTOperationCosts <- function(x, n = 10, ...) {
  check_costs(x, n)
  table <- cost_table(x, n)
  right <- names(table) %in% c("share", "flops", "bytes", "times")
  heading <- sprintf("%s, estimated from their shapes. %s", counted(nrow(x), "operation"), cost_totals(x)[[1L]])
  knit_table(heading, as.matrix(table), ifelse(right, "r", "l"), if (n < nrow(x)) nrow(x) - n)
}

#' @exportS3Method knitr::knit_print
knit_print.PJRTTrace <- function(x, ...) {
  check_trace(x)
  summary <- summary(x)
  r <- summary$r[summary$r$share >= 0.005, ]
  cells <- cbind("R's main thread" = r$kind, share = whole_percent(r$share), time = format_seconds(r$seconds))
  heading <- sprintf("<PJRTTrace> %s, %s", format_seconds(summary$seconds), counted(summary$events, "event"))
  knit_table(heading, cells, c("l", "r", "r"), text = c(trace_sentences(summary), summary$advice))
}

#' @exportS3Method knitr::knit_print
knit_print.PJRTProgram <- function(x, ...) {
  check_program(x)
  lines <- strsplit(format(x, n = 30), "\n", fixed = TRUE)[[1L]]
  knitr::asis_output(code_block(lines))
}

#' @exportS3Method knitr::knit_print
knit_print.PJRTDot <- function(x, ...) {
  check_intact(x, "PJRTDot", "character")
  knitr::asis_output(code_block(strsplit(as.vector(x), "\n", fixed = TRUE)[[1L]]))
}

# A heading in the font of code, a table of text, and sentences with code in backticks.
knit_table <- function(heading, cells, align = NULL, more = NULL, text = NULL) {
  format <- knit_format()
  align <- align %||% rep("l", ncol(cells))
  if (knitr::is_latex_output()) {
    cells <- narrowed(cells)
  }
  # Pandoc stretches a pipe table over the page and breaks its cells if a line of its source is long, escapes included.
  # A simple table has no such limit, but needs a second column, rows and characters of one width.
  simple <- format == "pipe" && !is.null(knitr::opts_knit$get("rmarkdown.pandoc.to")) && ncol(cells) > 1L &&
    nrow(cells) > 0L &&
    !any(grepl("[^ -~]", cells))
  cells[] <- escape_text(cells, format)
  colnames(cells) <- escape_text(colnames(cells), format)
  table <- knitr::kable(
    cells, format = if (simple) "simple" else format, align = align, escape = FALSE, row.names = FALSE
  )
  more <- if (!is.null(more)) sprintf("... %d more", more)
  text <- rbind(vapply(text, escape_sentence, "", format = format, USE.NAMES = FALSE), "", deparse.level = 0L)
  knitr::asis_output(paste(c("", code_span(heading, format), "", table, "", more, "", text), collapse = "\n"))
}

# The width of a page in R Markdown's PDFs, in digits of its text font.
page_width <- 93

table_width <- function(cells) {
  text <- rbind(colnames(cells), cells)
  # punctuation is narrower than digits
  widths <- nchar(text) - 0.4 * nchar(gsub("[^][().,:-]", "", text))
  sum(apply(matrix(widths, nrow(text)), 2L, max)) + 2.4 * (ncol(cells) - 1)
}

# A table that fits on a page: its longest cells are clipped. Some letters are wider than digits.
narrowed <- function(cells) {
  longest <- max(0L, nchar(cells))
  while (table_width(cells) > 0.9 * page_width && longest > 12L) {
    longest <- longest - 1L
    cells[] <- clipped(cells, longest)
  }
  cells
}

# "pipe" for pandoc, which makes HTML, LaTeX and others of it; "latex" and "html" in documents of these languages.
knit_format <- function() {
  if (!is.null(knitr::opts_knit$get("rmarkdown.pandoc.to"))) {
    return("pipe")
  }
  switch(knitr::opts_knit$get("out.format") %||% "markdown", latex = , sweave = "latex", html = "html", "pipe")
}

escape_text <- function(text, format) {
  switch(format,
    latex = {
      text <- gsub("\\", "\001", text, fixed = TRUE)
      text <- gsub("([#$%&_{}])", "\\\\\\1", text)
      text <- gsub("([~^])", "\\\\\\1{}", text)
      text <- gsub("([<>])", "\\\\ensuremath{\\1}", text)
      gsub("\001", "\\textbackslash{}", text, fixed = TRUE)
    },
    html = gsub(">", "&gt;", gsub("<", "&lt;", gsub("&", "&amp;", text, fixed = TRUE), fixed = TRUE), fixed = TRUE),
    escape_markdown(text)
  )
}

# Code in backticks looks like code.
escape_sentence <- function(text, format) {
  parts <- regmatches(text, gregexpr("`[^`]+`", text), invert = NA)[[1L]]
  code <- seq_along(parts) %% 2L == 0L
  parts[!code] <- escape_text(parts[!code], format)
  parts[code] <- vapply(gsub("`", "", parts[code], fixed = TRUE), code_span, "", format = format)
  paste(parts, collapse = "")
}

# Numbers of characters: a backslash before a bracket would begin a formula.
escape_markdown <- function(text) {
  for (character in c("&", "#", ";")) {
    text <- gsub(character, c("&" = "\001", "#" = "\002", ";" = "\003")[[character]], text, fixed = TRUE)
  }
  for (character in strsplit("[]\\`*_{}()+!|<>~$^@\"'", "")[[1L]]) {
    text <- gsub(character, sprintf("&#%d;", utf8ToInt(character)), text, fixed = TRUE)
  }
  text <- gsub("\001", "&#38;", text, fixed = TRUE)
  text <- gsub("\002", "&#35;", text, fixed = TRUE)
  gsub("\003", "&#59;", text, fixed = TRUE)
}

code_span <- function(text, format) {
  switch(format,
    latex = sprintf("\\texttt{%s}", escape_text(text, format)),
    html = sprintf("<code>%s</code>", escape_text(text, format)),
    # as many backticks as needed
    {
      ticks <- strrep("`", 1L + max(0L, attr(gregexpr("`+", text)[[1L]], "match.length")))
      sprintf("%s%s%s", ticks, text, ticks)
    }
  )
}

# Folds long lines at blanks outside of strings. What follows `//` stays a comment.
folded <- function(line, width = getOption("width") + 10L) {
  parts <- character()
  margin <- paste0(sub("^( *).*", "\\1", line), "    ")
  while (nchar(line) > max(width, nchar(margin) + 20L)) {
    characters <- strsplit(line, "")[[1L]]
    quoted <- cumsum(characters == "\"") %% 2L == 1L
    at <- seq_along(characters)
    blanks <- which(characters == " " & !quoted & at <= width + 1L & at > nchar(margin) + 3L)
    end <- if (length(blanks) > 0L) max(blanks) else width + 1L
    comment <- any(characters == "/" & c(characters[-1L], "") == "/" & !quoted & at < end)
    parts <- c(parts, sub(" +$", "", substr(line, 1L, end - 1L)))
    line <- paste0(margin, if (comment) "// ", sub("^ +", "", substring(line, end)))
  }
  c(parts, line)
}

code_block <- function(lines) {
  format <- knit_format()
  if (knitr::is_latex_output()) {
    lines <- unlist(lapply(lines, folded))
  }
  block <- switch(format,
    latex = c("\\begin{verbatim}", gsub("\\end{verbatim}", "\\end {verbatim}", lines, fixed = TRUE), "\\end{verbatim}"),
    html = c("<pre><code>", escape_text(lines, format), "</code></pre>"),
    {
      ticks <- strrep("`", 1L + max(2L, unlist(lapply(gregexpr("`+", lines), attr, "match.length"))))
      c(ticks, lines, ticks)
    }
  )
  paste(c("", block, ""), collapse = "\n")
}
