# One task of an array: the coefficients of a linear model for some bootstrap samples of cars.
#
#   SLURM_ARRAY_TASK_ID=3 Rscript bootstrap.R results
#
# read them with: do.call(rbind, lapply(list.files("results", full.names = TRUE), readRDS))

library(pjrt)
folder <- c(commandArgs(trailingOnly = TRUE), "results")[[1L]]
task <- as.integer(Sys.getenv("SLURM_ARRAY_TASK_ID", "1"))
# each task must draw other numbers
set.seed(task)

x <- cbind(1, cars$speed)
coefficients <- vapply(1:20, function(i) {
  rows <- sample(nrow(x), replace = TRUE)
  sample_x <- pjrt_buffer(x[rows, ], "f64")
  sample_y <- pjrt_buffer(cbind(cars$dist[rows]), "f64")
  # the sums run on the device, and R solves for two numbers
  drop(solve(as_array(crossprod(sample_x)), as_array(crossprod(sample_x, sample_y))))
}, numeric(2))

dir.create(folder, showWarnings = FALSE, recursive = TRUE)
# complete or missing: a task that is stopped leaves no half a file under the final name
file <- file.path(folder, sprintf("task-%03d.rds", task))
saveRDS(t(coefficients), paste0(file, ".part"))
invisible(file.rename(paste0(file, ".part"), file))
cat("task", task, "slope", format(mean(coefficients[2, ]), digits = 4), "\n")
