# Facts about plugins, clients, devices, memory spaces and topologies: lists that print one fact per line.

new_info <- function(facts, class) {
  with_bit64(facts$attributes)
  structure(facts, class = c(class, "PJRTInfo"))
}

#' @export
format.PJRTInfo <- function(x, ...) {
  check_intact(x, "PJRTInfo")
  labels <- format(paste0(gsub("_", " ", names(x), fixed = TRUE), ":"))
  paste(labels, vapply(unclass(x), format_fact, ""))
}

#' @export
print.PJRTInfo <- function(x, ...) {
  show_lines(c(paste0("<", class(x)[[1L]], ">"), paste0("  ", format(x))))
  invisible(x)
}

format_fact <- function(x) {
  if (inherits(x, "PJRTInfo")) {
    return(x$label)
  }
  if (is.data.frame(x)) {
    return(format_fact(x[[1L]]))
  }
  if (is.object(x)) {
    return(format(x))
  }
  if (is.raw(x)) {
    return(paste(length(x), "bytes"))
  }
  if (length(x) == 0L) {
    return("none")
  }
  items <- if (is.list(x)) vapply(x, format_fact, "") else if (is.character(x)) x else format(x, trim = TRUE)
  if (!is.null(names(x))) {
    items <- paste(names(x), "=", items)
  }
  if (length(items) > 8L) {
    items <- c(items[1:7], sprintf("... (%d in all)", length(items)))
  }
  text <- paste(items, collapse = ", ")
  if (is.list(x) || length(x) == 1L) text else paste0("[", text, "]")
}
