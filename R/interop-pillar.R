# The types of objects in tibbles and object browsers.

#' @exportS3Method pillar::type_sum
type_sum.PJRTBuffer <- function(x, ...) {
  if (!is.null(dead_buffer(x))) {
    return("buffer")
  }
  sprintf("%s[%s]", elt_type(x), paste(shape(x), collapse = "x"))
}

#' @exportS3Method pillar::obj_sum
obj_sum.PJRTBuffer <- function(x, ...) type_sum.PJRTBuffer(x)

#' @exportS3Method pillar::type_sum
type_sum.PJRTLoadedExecutable <- function(x, ...) "executable"

#' @exportS3Method pillar::obj_sum
obj_sum.PJRTLoadedExecutable <- function(x, ...) {
  sub("^PJRTLoadedExecutable ", "", format(x))
}

#' @exportS3Method pillar::type_sum
type_sum.PJRTProgram <- function(x, ...) "program"

#' @exportS3Method pillar::obj_sum
obj_sum.PJRTProgram <- function(x, ...) "program"

# Buffers have no components to complete.

#' @importFrom utils .DollarNames
#' @method .DollarNames PJRTBuffer
#' @export
.DollarNames.PJRTBuffer <- function(x, pattern = "") character()
