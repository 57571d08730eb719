# Package tengen has generics of the same names as ours: when it is loaded, our methods serve them, too.

#' @rawNamespace
#' S3method(tengen::as_array, PJRTArrayPromise)
#' S3method(tengen::as_array, PJRTBuffer)
#' S3method(tengen::as_raw, PJRTBuffer)
#' S3method(tengen::device, PJRTBuffer)
#' S3method(tengen::device, PJRTLoadedExecutable)
#' S3method(tengen::dtype, PJRTBuffer)
#' S3method(tengen::shape, PJRTBuffer)
NULL
