# An R vector whose memory a device can use in place: large arrays read from a buffer are aligned as devices need.
aligned <- function(type, n = 4e5) {
  switch(type,
    double = as_array(pjrt_buffer(as.double(seq_len(n)), "f64")),
    integer = as_array(pjrt_buffer(seq_len(n))),
    complex = as_array(pjrt_buffer(complex(real = seq_len(n), imaginary = 1), "c128")),
    integer64 = as_array(pjrt_buffer(bit64::as.integer64(seq_len(n)))),
    raw = as_raw(pjrt_buffer(seq_len(n) %% 251L, "ui8"), row_major = TRUE)
  )
}

aligned_types <- c("double", "integer", "complex", "integer64", "raw")

# A buffer with the dtype that matches the vector's memory layout.
in_place <- function(x) {
  if (is.raw(x)) {
    return(pjrt_buffer(x, dtype = "ui8", shape = length(x), row_major = TRUE))
  }
  type <- if (inherits(x, "integer64")) "integer64" else typeof(x)
  pjrt_buffer(x, c(double = "f64", integer = "i32", complex = "c128", integer64 = "i64")[[type]])
}

pinned <- function() pjrt_memory_stats()$pinned

# The number of pinned R vectors after garbage is collected. The first collection runs the finalizers of buffers, the
# second one collects what they release.
pinned_at_rest <- function() {
  gc()
  gc()
  pinned()
}
