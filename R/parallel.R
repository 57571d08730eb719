#' Use several R processes
#'
#' Clients, and all that is made from them, belong to the R process that made them. Programs run on all processors and on all
#' devices anyway, so that one process is enough for most work. Where there are to be several, each has a client of its own.
#'
#' @section Sessions of their own:
#' Clusters of [parallel::makePSOCKcluster()] and sessions of package callr work like any other session. Data go there and come back
#' as R arrays ([as_array()]), programs as text and executables as bytes ([pjrt_serialize()]): a buffer, an executable or a
#' client that was sent to another process is a null pointer there, and says so when it is used. Programs that were compiled before,
#' in whatever process, come from the [cache][pjrt_cache].
#'
#' Each process uses all processors, unless it is told otherwise: see `threads` of [pjrt_client()].
#' @section Forks:
#' The device runtimes do not survive `fork()`, which is behind [parallel::mclapply()], [parallel::mcparallel()] and the plan
#' `multicore` of package future. When the parent has a client,
#' * a child that leaves pjrt alone behaves as if it were not there. What it drops or leaves behind stays the parent's.
#' * a child that uses the parent's objects, or wants a client of its own, gets an error of class `pjrt_error_forked` at once.
#'   It may ask for what is known without the runtime, such as a buffer's shape and type.
#' * the parent is as it was before.
#'
#' When the parent has no client yet, each child can make its own.
#' @name pjrt_parallel
#' @seealso [pjrt_client()], [pjrt_shard()] for several devices in one process
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
