# Vectors with more than 2^31 - 1 elements. Not every machine has enough memory.
# Slow: moves gigabytes.
# Runs alone: needs most of the memory.

free_gigabytes <- function() {
  if (!file.exists("/proc/meminfo")) {
    return(0)
  }
  line <- grep("^MemAvailable:", readLines("/proc/meminfo"), value = TRUE)
  as.numeric(gsub("[^0-9]", "", line)) / 2^20
}

test_that("a vector of more than 2^31 bytes survives a round trip", {
  skip_if(free_gigabytes() <= 8, "this machine has too little memory free")
  # in a child, so that all memory is freed
  child <- run_child(quote({
    n <- 2^31 + 8
    x <- raw(n)
    places <- c(1, 2, 2^31 - 1, 2^31, 2^31 + 1, n)
    x[places] <- as.raw(1:6)
    y <- pjrt_buffer(x, dtype = "ui8", shape = n, row_major = TRUE)
    rm(x)
    invisible(gc())
    cat(shape(y) == n, "\n")
    cat(y[places], "\n")
    cat(y[[n]], y[(n - 1):n], "\n")
    back <- as_raw(y, row_major = TRUE)
    cat(length(back) == n, as.integer(back[places]), sum(back[2^20 + 0:100] != as.raw(0)), "\n")
    rm(back)
    rm(y)
    invisible(gc())
    # column-major, like R's arrays
    x <- raw(n)
    x[c(2, n)] <- as.raw(c(7, 9))
    y <- pjrt_buffer(x, dtype = "ui8", shape = c(2, n / 2), row_major = FALSE)
    rm(x)
    cat(shape(y) == c(2, n / 2), y[2, 1], y[2, n / 2], y[1, n / 2], "\n")
  }), timeout = 300)
  expect_clean(child, c("TRUE ", "1 2 3 4 5 6 ", "6 0 6 ", "TRUE 1 2 3 4 5 6 0 ", "TRUE TRUE 7 9 0 "))
})
