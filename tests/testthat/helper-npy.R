# Bytes of a .npy file as NumPy writes it, from a header's values and the data.
npy_bytes <- function(descr, shape, data, fortran = FALSE) {
  dims <- paste0("(", paste0(shape, ",", collapse = " "), ")")
  header <- sprintf(
    "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, if (fortran) "True" else "False", dims
  )
  size <- ceiling((10 + nchar(header) + 1) / 64) * 64 - 10
  header <- paste0(formatC(header, width = -(size - 1)), "\n")
  c(
    as.raw(0x93), charToRaw("NUMPY"), as.raw(1:0), writeBin(as.integer(size), raw(), size = 2L), charToRaw(header), data
  )
}

# Writes numbers as an array of float32 in Python's order.
write_npy <- function(x, path, shape = if (is.null(dim(x))) length(x) else dim(x)) {
  writeBin(npy_bytes("<f4", shape, writeBin(as.double(if (length(shape) == 2L) t(x) else x), raw(), size = 4L)), path)
  path
}
