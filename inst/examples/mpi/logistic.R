# Logistic regression on several processes: each has some of the flowers, and all have the weights.
#
#   mpirun -n 4 Rscript logistic.R

library(pjrt)
world <- mpi_init()

own <- seq_len(nrow(iris)) %% world$size == world$rank
x <- pjrt_buffer(cbind(1, scale(as.matrix(iris[1:4])))[own, ], "f64")
y <- pjrt_buffer(cbind(iris$Species == "virginica")[own, , drop = FALSE], "f64")
w <- pjrt_buffer(matrix(0, 5, 1), "f64")

for (step in 1:200) {
  p <- 1 / (1 + exp(-(x %*% w)))
  # the sums over all flowers
  sums <- mpi_all_reduce(list(slope = crossprod(x, p - y), loss = -sum(y * log(p) + (1 - y) * log(1 - p))))
  w <- w - sums$slope * (0.5 / nrow(iris))
}
if (world$rank == 0) cat("loss", format(as_array(sums$loss) / nrow(iris), digits = 12), "\n")
