#' Convert a program to a graph
#'
#' `as_dot()` returns the operations of a program as a graph in DOT, the language of Graphviz, which draws it.
#'
#' Each box shows an operation and the type of its result. `_` stands for an operand that is computed, as in
#' `multiply(_, 0.5)`: constants with equal elements are part of the operation that uses them. Branches, bodies of loops
#' and functions are boxes inside the operation that runs them.
#'
#' A graph with more than `max_nodes` boxes is folded:
#' 1. Loops, branches and functions become one box. If one of them has most of the operations, it is folded like the
#'    program.
#' 2. A chain of operations becomes one box if each uses only the previous one and inputs, such as
#'    `negate > exponential`.
#' 3. The rest is divided into stretches, which begin at matrix products, convolutions, loops and calls, if possible.
#'    Such a box shows the most important kinds of operations, and how many there are.
#' 4. Inputs and outputs of the same operations become one box.
#'
#' @param x A `PJRTProgram`, a function of [pjrt_load_exported()], or a `PJRTLoadedExecutable` for the program that the
#'   compiler has made of it.
#' @param max_nodes A number: the most boxes to return, or a few more if there is not much to fold. `Inf`: the whole
#'   program.
#' @param ... Not used.
#' @return A string that prints as is. To draw it, write it to a file with [writeLines()] and run
#'   `dot -Tsvg file.dot -o file.svg`.
#' @section Errors:
#' `pjrt_error_invalid_input` for wrong arguments. `pjrt_error_unsupported_program` for bytecode with operations that
#' cannot be decoded. For an executable, the errors of [inspect_hlo()].
#' @seealso [executable_cost()] for the cost of each operation
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "logistic-step.mlir", package = "pjrt")
#' program <- pjrt_program(path = path)
#' as_dot(program, max_nodes = 12)
#'
#' # the program that runs
#' as_dot(pjrt_compile(program), max_nodes = 12)
#' @name as_dot
NULL

#' @rdname as_dot
#' @export
as_dot <- function(x, ...) {
  UseMethod("as_dot")
}

#' @export
as_dot.default <- function(x, ...) {
  abort_class(x, c("PJRTProgram", "PJRTExported", "PJRTLoadedExecutable"))
}

#' @rdname as_dot
#' @export
as_dot.PJRTProgram <- function(x, max_nodes = 200, ...) {
  check_unused(...)
  graph <- program_graph(x, check_max_nodes(max_nodes))
  structure(paste0(dot_lines(graph), "\n", collapse = ""), class = "PJRTDot")
}

#' @rdname as_dot
#' @export
as_dot.PJRTLoadedExecutable <- as_dot.PJRTProgram

#' @rdname as_dot
#' @export
as_dot.PJRTExported <- function(x, max_nodes = 200, ...) {
  check_unused(...)
  as_dot(x$program, max_nodes)
}

#' @export
print.PJRTDot <- function(x, ...) {
  check_intact(x, "PJRTDot", "character")
  cat(x, sep = "")
  invisible(x)
}

check_max_nodes <- function(max_nodes) {
  if (!is.numeric(max_nodes) || length(max_nodes) != 1L || is.na(max_nodes) || max_nodes < 1) {
    abort_type("`max_nodes` must be a number of at least 1, such as 50 or Inf, not ", given(max_nodes), ".")
  }
  max_nodes
}

# Nodes and edges as data frames.
program_graph <- function(x, max_nodes) {
  graph <- call_native(ffi_program_graph, x, as.double(max_nodes))
  lapply(graph, as_table)
}

# Light versions of the colours of plots, for boxes with black text.
node_colours <- function() {
  pale <- function(name) mixed(plot_colours[[name]], "white", 0.3)
  c(
    input = pale("sky"), output = pale("sky"), product = pale("orange"), reduction = pale("yellow"),
    elementwise = "#FFFFFF", movement = "#E3E3E3", control = pale("green"), call = pale("purple"),
    constant = "#F3F3F3", group = "#FFFFFF"
  )
}

# The lines of a node's text.
node_lines <- function(nodes) {
  detail <- ifelse(
    nodes$operations > 1 & nodes$role == "control" & !nodes$expanded,
    sprintf("%s%.0f operations", ifelse(nzchar(nodes$detail), paste0(nodes$detail, ", "), ""), nodes$operations),
    nodes$detail
  )
  Map(function(label, detail) c(label, if (nzchar(detail)) detail), nodes$label, detail, USE.NAMES = FALSE)
}

dot_lines <- function(graph) {
  nodes <- graph$nodes
  colours <- node_colours()
  nodes$expanded <- seq_len(nrow(nodes)) %in% nodes$parent
  text <- vapply(node_lines(nodes), function(lines) paste(dot_escape(lines), collapse = "\\n"), "")
  # an edge needs a node: inside of a box, its first or last one
  first <- function(i) if (nodes$expanded[[i]]) first(match(i, nodes$parent)) else i
  last <- function(i) if (nodes$expanded[[i]]) last(nrow(nodes) + 1L - match(i, rev(nodes$parent))) else i
  level <- function(parent, indent) {
    unlist(lapply(which(nodes$parent == parent), function(i) {
      if (!nodes$expanded[[i]]) {
        shape <- if (nodes$role[[i]] %in% c("input", "output")) ", style=\"filled,rounded\"" else ""
        tooltip <- if (nzchar(nodes$source[[i]])) sprintf(", tooltip=\"%s\"", dot_escape(nodes$source[[i]])) else ""
        return(
          sprintf(
            "%sn%d [label=\"%s\", fillcolor=\"%s\"%s%s];", indent, i, text[[i]], colours[[nodes$role[[i]]]], shape,
            tooltip
          )
        )
      }
      inner <- paste0(indent, "  ")
      c(
        sprintf("%ssubgraph cluster_%d {", indent, i),
        sprintf(
          "%slabel=\"%s\"; style=\"filled,rounded\"; fillcolor=\"%s\";", inner, text[[i]], colours[["control"]]
        ),
        level(i, inner),
        paste0(indent, "}")
      )
    }))
  }
  from <- graph$edges$from
  to <- graph$edges$to
  tail <- ifelse(nodes$expanded[from], sprintf("ltail=cluster_%d", from), "")
  head <- ifelse(nodes$expanded[to], sprintf("lhead=cluster_%d", to), "")
  attributes <- trimws(gsub("^, |, $", "", paste(tail, head, sep = ", ")))
  c(
    "digraph program {",
    "  compound=true;",
    "  node [shape=box, style=filled, fontname=\"Helvetica\", fontsize=11, margin=\"0.1,0.05\"];",
    "  edge [color=\"#555555\", arrowsize=0.7];",
    "  fontname=\"Helvetica\"; fontsize=11;",
    level(0L, "  "),
    if (length(from) > 0L) {
      sprintf(
        "  n%d -> n%d%s;", vapply(from, last, 1L), vapply(to, first, 1L),
        ifelse(nzchar(attributes), paste0(" [", attributes, "]"), "")
      )
    },
    "}"
  )
}

# Text for a string in double quotes, in which a backslash begins an escape.
dot_escape <- function(text) {
  text <- gsub("[[:cntrl:]]", " ", text)
  gsub("([\\\\\"])", "\\\\\\1", text)
}
