# Checks the style of R files:
#
#   Rscript tools/lint.R [FILE...]   checks these files, by default all
#
# Prints FILE:LINE for each problem and fails if there is any. `.lintr` has the same rules for editors.

limit <- 120L
# what another program has written
generated <- "^tests/testthat/fixtures/exported/"

# Problems that one can see in a line of text.
in_text <- function(lines) {
  list(
    "ends with white space" = grep("[ \t]$", lines),
    "has a tab" = grep("^ *\t", lines)
  )
}

# Problems in code, outside strings and comments.
in_code <- function(lines) {
  data <- utils::getParseData(parse(text = lines, keep.source = TRUE), includeText = FALSE)
  symbols <- data[data$token == "SYMBOL", ]
  words <- substring(lines[symbols$line1], symbols$col1, symbols$col2)
  # a string is as long as it must be: it may fill its line, and the text of a program has its own lines
  strings <- data[data$token == "STR_CONST", ]
  in_string <- unlist(Map(seq, strings$line1, strings$line2)[strings$line1 < strings$line2])
  only_string <- strings$line1[grepl("^ *$", substring(lines[strings$line1], 1L, strings$col1 - 1L)) &
    grepl("^[,)]*$", substring(lines[strings$line2], strings$col2 + 1L))]
  list(
    "longer than 120 characters" = setdiff(which(nchar(lines) > limit), c(in_string, only_string)),
    "assigns with `=`: write `<-`" = data$line1[data$token %in% c("EQ_ASSIGN", "equal_assign")],
    "has two statements" = data$line1[data$token == "';'"],
    "has `T` or `F`: write `TRUE` or `FALSE`" = symbols$line1[words %in% c("T", "F")]
  )
}

problems_of <- function(path) {
  lines <- readLines(path, encoding = "UTF-8", warn = FALSE)
  code <- tryCatch(in_code(lines), error = function(e) stats::setNames(list(1L), conditionMessage(e)))
  found <- c(in_text(lines), code)
  unlist(lapply(names(found), function(what) sprintf("%s:%d: %s", path, unique(found[[what]]), what)))
}

# Names in R/ that two files define: the later one would win.
defined_twice <- function(paths) {
  defined <- lapply(paths, function(path) {
    calls <- Filter(function(x) is.call(x) && identical(x[[1L]], quote(`<-`)) && is.name(x[[2L]]), parse(path))
    vapply(calls, function(x) as.character(x[[2L]]), "")
  })
  names <- as.character(unlist(defined))
  twice <- duplicated(names)
  sprintf("%s:1: defines `%s` again", rep(paths, lengths(defined))[twice], names[twice])
}

files <- commandArgs(trailingOnly = TRUE)
if (length(files) == 0L) {
  # names that begin with a dot are left out, such as .lib
  files <- list.files(".", "[.]R$", recursive = TRUE)
  files <- grep("^(docs|src/rust|pjrt[.]Rcheck)/", files, value = TRUE, invert = TRUE)
}
files <- grep(generated, grep("[.]R$", files, value = TRUE), value = TRUE, invert = TRUE)
problems <- c(unlist(lapply(files, problems_of)), defined_twice(grep("^R/", files, value = TRUE)))
writeLines(as.character(problems))
quit(status = if (length(problems) > 0L) 1L else 0L)
