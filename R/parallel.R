#' Use several R processes
#'
#' Clients and all their objects belong to the R process that created them. Since programs run on all processors and
#' devices, one process is enough for most work. If you use several, each needs its own client.
#'
#' @section Separate sessions:
#' Clusters from [parallel::makePSOCKcluster()], sessions of package callr, and the plan `multisession` of package
#' future work like any other session. You can send buffers, programs and executables like other R objects: each process
#' creates them on its own client, at the first use. See [pjrt_serialize()]. Other objects, such as clients and devices,
#' arrive as null pointers, and using them is an error. Programs that any process has compiled before come from the
#' [cache][pjrt_cache].
#'
#' By default, each process uses all processors. With several workers, divide them: set `PJRT_CPU_THREADS` in each
#' worker, or `threads` in [pjrt_client()]. `vignette("workers")` shows a pool of workers (see [pjrt_articles]).
#' @section Forks:
#' The device runtimes do not survive `fork()`, which [parallel::mclapply()], [parallel::mcparallel()] and the plan
#' `multicore` of package future use. If the parent has a client,
#' * a child that does not use pjrt is not affected, and does not affect the parent's objects.
#' * a child that uses the parent's objects or creates a client gets a `pjrt_error_forked` at once. Information that
#'   does not need the runtime is available, such as a buffer's shape and type.
#' * the parent is not affected.
#'
#' If the parent has no client yet, each child can create one, and return buffers to the parent.
#' @name pjrt_parallel
#' @seealso [pjrt_client()]; [pjrt_shard()] for several devices in one process
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' square <- function(x, program) {
#'   square <- pjrt::pjrt_compile(program)
#'   pjrt::as_array(pjrt::pjrt_execute(square, pjrt::pjrt_scalar(x)))
#' }
#' path <- system.file("programs", "square.mlir", package = "pjrt")
#' program <- pjrt_program(path = path)
#'
#' cluster <- parallel::makePSOCKcluster(2)
#' parallel::parSapply(cluster, c(1, 2, 3, 4), square, program)
#' parallel::stopCluster(cluster)
#' @examplesIf pjrt::plugins_downloaded("cpu") && requireNamespace("callr", quietly = TRUE)
#'
#' callr::r(square, list(5, program))
NULL
