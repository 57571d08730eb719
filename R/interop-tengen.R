# dtype() returns data types of package tengen, or a stand-in that prints and compares the same.

# The data type of an element type. The native side keeps it for dtype().
data_type <- function(type) {
  name <- data_type_name(type)
  # tengen lacks floats of at most eight bits and integers of less than eight
  made <- if (!grepl("^(f[48]e|u?i[24]$)", name) && has_tengen()) {
    tengen::as_dtype(name)
  } else {
    structure(name, class = c("PJRTDataType", "DataType"))
  }
  .Call(ffi_data_type_keep, type, made)
}

# The stand-in for tengen's class has another class in front, which has the methods below, since tengen registers its
# own for "DataType".

#' @export
as.character.PJRTDataType <- as.character.PJRTElementType

#' @export
format.PJRTDataType <- format.PJRTElementType

#' @export
print.PJRTDataType <- print.PJRTElementType

#' @export
`==.PJRTDataType` <- `==.PJRTElementType`

#' @export
`!=.PJRTDataType` <- `!=.PJRTElementType`
