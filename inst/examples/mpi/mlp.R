# A network with a hidden layer on several processes: each has some of the flowers, and all have the weights.
#
#   mpirun -n 4 Rscript mlp.R

library(pjrt)
world <- mpi_init()

own <- seq_len(nrow(iris)) %% world$size == world$rank
x <- pjrt_buffer(cbind(1, scale(as.matrix(iris[1:4])))[own, ], "f64")
y <- pjrt_buffer(diag(3)[as.integer(iris$Species), ][own, ], "f64")
set.seed(1)
w1 <- pjrt_buffer(matrix(rnorm(5 * 8) / 2, 5), "f64")
w2 <- pjrt_buffer(matrix(rnorm(8 * 3) / 2, 8), "f64")
ones <- pjrt_buffer(matrix(1, 3, 3), "f64")

for (step in 1:200) {
  h <- tanh(x %*% w1)
  e <- exp(h %*% w2)
  p <- e / (e %*% ones)
  # the gradients of these flowers, and their sums over all
  d <- p - y
  parts <- list(w1 = crossprod(x, (d %*% t(w2)) * (1 - h * h)), w2 = crossprod(h, d), loss = -sum(y * log(p)))
  sums <- mpi_all_reduce(parts)
  w1 <- w1 - sums$w1 * (0.5 / nrow(iris))
  w2 <- w2 - sums$w2 * (0.5 / nrow(iris))
}
if (world$rank == 0) cat("loss", format(as_array(sums$loss) / nrow(iris), digits = 12), "\n")
