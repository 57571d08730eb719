# Printed objects. If package cli is there and the console has colours, the class stands out and labels recede.

show_lines <- function(lines) {
  cat(paste0(if (has_colours()) coloured(lines) else lines, "\n"), sep = "")
}

# Prints what format() returns, a line each.
print_lines <- function(x) {
  show_lines(format(x))
  invisible(x)
}

# cli counts no colours if the output goes to a file or to capture.output().
has_colours <- function() {
  is_there <- isNamespaceLoaded("cli") || (isatty(stdout()) && requireNamespace("cli", quietly = TRUE))
  is_there && cli::num_ansi_colors() > 1L
}

coloured <- function(lines) {
  paint <- function(lines, pattern, colour) {
    found <- gregexpr(pattern, lines, perl = TRUE)
    regmatches(lines, found) <- lapply(regmatches(lines, found), function(part) as.character(colour(part)))
    lines
  }
  lines <- paint(lines, "(?m)^ *[%A-Za-z][^:\n]{0,40}:(?= |$)", cli::col_grey)
  paint(lines, "^<[A-Za-z]+|^pjrt situation report$", cli::col_cyan)
}
