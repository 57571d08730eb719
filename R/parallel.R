#' Use several R processes
#'
#' Clients and all their objects belong to the R process that created them. Since programs run on all processors and devices,
#' one process is enough for most work. If you use several, each needs its own client.
#'
#' @section Separate sessions:
#' Clusters from [parallel::makePSOCKcluster()] and sessions of package callr work like any other session. Send buffers, programs
#' and executables as bytes: [pjrt_serialize()] makes them, and [pjrt_deserialize()] creates the objects again. R arrays and the
#' text of programs need nothing. An object of this package that you send as it is arrives as a null pointer, and using it is an
#' error. Programs that any process has compiled before come from the [cache][pjrt_cache].
#'
#' By default, each process uses all processors. With several workers, divide them: set `PJRT_CPU_THREADS` in each worker, or
#' `threads` in [pjrt_client()]. `vignette("workers")` shows a pool of workers.
#' @section Forks:
#' The device runtimes do not survive `fork()`, which [parallel::mclapply()], [parallel::mcparallel()] and the plan `multicore`
#' of package future use. If the parent has a client,
#' * a child that does not use pjrt is not affected, and does not affect the parent's objects.
#' * a child that uses the parent's objects or creates a client gets a `pjrt_error_forked` at once. Information that does not
#'   need the runtime is available, such as a buffer's shape and type.
#' * the parent is not affected.
#'
#' If the parent has no client yet, each child can create one.
#' @name pjrt_parallel
#' @seealso [pjrt_client()]; [pjrt_shard()] for several devices in one process
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' square <- function(x, path) {
#'   square <- pjrt::pjrt_compile(pjrt::pjrt_program(path = path))
#'   pjrt::as_array(pjrt::pjrt_execute(square, pjrt::pjrt_scalar(x)))
#' }
#' path <- system.file("programs", "square.mlir", package = "pjrt")
#'
#' cluster <- parallel::makePSOCKcluster(2)
#' parallel::parSapply(cluster, c(1, 2, 3, 4), square, path)
#' parallel::stopCluster(cluster)
#' @examplesIf pjrt::plugins_downloaded("cpu") && requireNamespace("callr", quietly = TRUE)
#'
#' callr::r(square, list(5, path))
NULL
