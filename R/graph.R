#' Draw a program
#'
#' `plot()` draws the operations of a program as a graph, on any graphics device. `as_dot()` returns the same graph for
#' Graphviz, whose layouts are better for large graphs.
#'
#' Values flow from top to bottom, or from left to right if more of the graph is readable so. Each box shows an operation
#' and the type of its result. `_` stands for an operand that is computed, as in `multiply(_, 0.5)`: constants with equal
#' elements are part of the operation that uses them. Branches, bodies of loops and functions are drawn inside of the
#' operation that runs them.
#'
#' A graph with more than `max_nodes` boxes is folded:
#' 1. Loops, branches and functions become one box.
#' 2. Operations that use nothing but the one before them and inputs become one box, such as `negate > exponential`.
#' 3. The rest is divided into stretches, which begin at matrix products, convolutions, loops and calls, if possible.
#'    Such a box shows the most important kinds of operations, and how many there are.
#' 4. Inputs and outputs of the same operations become one box.
#'
#' @param x A `PJRTProgram`, or a `PJRTLoadedExecutable`, which is drawn as the compiler has optimized it.
#' @param max_nodes A number: how many boxes are drawn at most, or a few more if there is not much to fold. `NULL`: as many
#'   as are readable on the device. `Inf`: the whole program.
#' @param main A string: the title, or `NULL` for none.
#' @param legend A flag: whether to explain the colours.
#' @param ... Not used.
#' @return `plot()`: `x`, invisibly. `as_dot()`: a string that prints as is, in Graphviz's language DOT. To draw it, write it
#'   to a file with [writeLines()] and run `dot -Tsvg file.dot -o file.svg`.
#' @section Errors:
#' `pjrt_error_invalid_input` for wrong arguments, and if the device is too small to draw on. `pjrt_error_unsupported_program`
#' for bytecode with operations that cannot be decoded. For an executable, the errors of [executable_hlo()].
#' @seealso [executable_cost()] for the cost of each operation
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- system.file("programs", "logistic-step.mlir", package = "pjrt")
#' program <- pjrt_program(path = path)
#' plot(program)
#'
#' # the program that runs
#' plot(pjrt_compile(program))
#'
#' # for Graphviz
#' as_dot(program, max_nodes = 12)
#' @name graph
NULL

#' @rdname graph
#' @export
as_dot <- function(x, ...) {
  UseMethod("as_dot")
}

#' @export
as_dot.default <- function(x, ...) {
  abort_class(x, c("PJRTProgram", "PJRTLoadedExecutable"))
}

#' @rdname graph
#' @export
as_dot.PJRTProgram <- function(x, max_nodes = 200, ...) {
  graph <- program_graph(x, check_max_nodes(max_nodes))
  structure(paste0(dot_lines(graph), "\n", collapse = ""), class = "PJRTDot")
}

#' @rdname graph
#' @export
as_dot.PJRTLoadedExecutable <- as_dot.PJRTProgram

#' @export
print.PJRTDot <- function(x, ...) {
  check_intact(x, "PJRTDot", "character")
  cat(x, sep = "")
  invisible(x)
}

#' @rdname graph
#' @export
plot.PJRTProgram <- function(x, max_nodes = NULL, main = NULL, legend = TRUE, ...) {
  if (!is.null(max_nodes)) {
    check_max_nodes(max_nodes)
  }
  if (!is.null(main)) {
    check_string(main, "main")
    if (!validEnc(main)) {
      abort_type("`main` must be valid text, not ", given(main), ".")
    }
  }
  check_flag(legend, "legend")
  graph <- program_graph(x, max_nodes %||% 1)
  draw_graph(if (is.null(max_nodes)) function(most) program_graph(x, most) else graph, main, legend)
  invisible(x)
}

#' @rdname graph
#' @export
plot.PJRTLoadedExecutable <- plot.PJRTProgram

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

# Light colours that readers with any colour vision can tell apart, after Okabe and Ito.
graph_roles <- data.frame(
  role = c("input", "output", "product", "reduction", "elementwise", "movement", "control", "call", "constant", "group"),
  colour = c(
    "#CFE8F7", "#CFE8F7", "#F7C48D", "#F5EC9B", "#FFFFFF", "#E3E3E3", "#C2E7D9", "#EBC9DE", "#F3F3F3", "#FFFFFF"
  ),
  meaning = c(
    "input, output", "input, output", "matrix product", "reduction, solver", "element by element", "data movement",
    "loop, branch, function", "other function", "constant", "several operations"
  )
)

node_colour <- function(role) {
  graph_roles$colour[match(role, graph_roles$role)]
}

# The lines of a node's text.
node_lines <- function(nodes, longest = Inf) {
  detail <- ifelse(
    nodes$operations > 1 & nodes$role == "control" & !nodes$expanded,
    sprintf("%s%.0f operations", ifelse(nzchar(nodes$detail), paste0(nodes$detail, ", "), ""), nodes$operations),
    nodes$detail
  )
  Map(function(label, detail) {
    lines <- c(label, if (nzchar(detail)) detail)
    ifelse(nchar(lines) > longest, paste0(substr(lines, 1L, longest - 3L), "..."), lines)
  }, nodes$label, detail, USE.NAMES = FALSE)
}

dot_lines <- function(graph) {
  nodes <- graph$nodes
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
        return(sprintf("%sn%d [label=\"%s\", fillcolor=\"%s\"%s%s];", indent, i, text[[i]], node_colour(nodes$role[[i]]), shape, tooltip))
      }
      inner <- paste0(indent, "  ")
      c(
        sprintf("%ssubgraph cluster_%d {", indent, i),
        sprintf("%slabel=\"%s\"; style=\"filled,rounded\"; fillcolor=\"%s\";", inner, text[[i]], node_colour("control")),
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
