# Sums the columns of a file of numbers, mapped in parts, and compares this with readBin() and with reading the same
# bytes by `cat`, all from the page cache. Row-major: parts of 100,000 rows with 20 columns. Column-major: one column at
# a time.
#
#   Rscript bench/map.R [file for the table]

library(pjrt)
source("bench/measure.R")

rows <- 1e7
columns <- 20L
step <- 1e5
gigabytes <- rows * columns * 8 / 1e9
path <- tempfile("numbers", tmpdir = Sys.getenv("PJRT_BENCH_FOLDER", "bench"))
out <- file(path, "wb")
for (i in seq_len(columns)) writeBin(stats::runif(rows), out)
close(out)

sums <- function(rows, columns, over) {
  pjrt_compile(pjrt_program(sprintf(
    "func.func @main(%%x: tensor<%1$dx%2$dxf64>) -> tensor<%3$dxf64> {
      %%zero = stablehlo.constant dense<0.0> : tensor<f64>
      %%0 = stablehlo.reduce(%%x init: %%zero) applies stablehlo.add across dimensions = [%4$d]
        : (tensor<%1$dx%2$dxf64>, tensor<f64>) -> tensor<%3$dxf64>
      return %%0 : tensor<%3$dxf64>
    }", as.integer(rows), as.integer(columns), as.integer(if (over == 0L) columns else rows), over
  )))
}
of_rows <- sums(step, columns, 0L)
of_column <- sums(1, rows, 1L)

row_major <- function() {
  total <- 0
  for (i in seq_len(rows / step) - 1) {
    total <- total + as_array(
      pjrt_execute(of_rows, pjrt_map_file(path, "f64", c(step, columns), offset = i * step * columns * 8))
    )
  }
  total
}
column_major <- function() {
  parts <- lapply(seq_len(columns) - 1, function(i) {
    pjrt_execute(of_column, pjrt_map_file(path, "f64", c(1, rows), offset = i * rows * 8))
  })
  unlist(as_array(parts))
}
read_bin <- function() {
  input <- file(path, "rb")
  on.exit(close(input))
  vapply(seq_len(columns), function(i) sum(readBin(input, "double", rows)), 0)
}
cat_file <- function() system2("cat", path, stdout = FALSE)

stopifnot(all.equal(column_major(), read_bin()))
speed <- function(f) gigabytes / median(replicate(5L, system.time(f())[["elapsed"]]))
ours <- c(row_major = speed(row_major), column_major = speed(column_major))
floor <- speed(cat_file)
rival <- speed(read_bin)
unlink(path)
table <- data.frame(
  GB_per_s = ours, cat = floor, readBin = rival, reach = 4, over_readBin = ours / rival, over_reach = ours / 4
)
print(signif(table, 3))
to <- commandArgs(TRUE)
if (length(to) > 0L) {
  writeLines(c(
    sprintf(
      "%s, R %s, %d CPU cores; a file of %.1f GB in the page cache, GB/s", Sys.Date(), getRversion(),
      parallel::detectCores(), gigabytes
    ),
    "", utils::capture.output(print(signif(table, 3)))
  ), to[[1L]])
}
