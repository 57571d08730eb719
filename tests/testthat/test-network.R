# Slow: starts groups of processes. The hosts of these tests are namespaces of one machine.

test_that("every operation works between hosts with networks of their own", {
  hosts <- two_hosts()
  # the others take the programs that it has compiled
  if (!is_soak()) expect_mpi(NULL, 0L, 10L)
  before <- hosts$sent()
  world <- expect_mpi(hosts$launcher, 4L, 10L)
  expect_identical(world$abi, "Open MPI")
  # the rings alone send 2 * 300,000 doubles from the first host to the second
  expect_gt(hosts$sent() - before, 4.8e6)
})

test_that("clients of several hosts meet in a store that the launcher names, or in MPI", {
  if (Sys.which("redis-server") == "") skip("no redis-server")
  hosts <- two_hosts()
  server <- processx::process$new(hosts$on(1L)[[1L]], c(
    hosts$on(1L)[-1L], "redis-server", "--bind", hosts$addresses[[1L]], "--protected-mode", "no", "--save", "''"
  ))
  withr::defer(server$kill())
  said <- function(store) {
    ended <- run_mpi(hosts$launcher, 4L, "mpi-clients.R", store, c(PJRT_PLUGIN_PATH_FAKE = hosts_library()))
    expect_identical(ended[c("status", "err")], list(status = 0L, err = character()), info = store)
    sort(ended$out)
  }
  for (store in c("redis", "mpi")) {
    shown <- if (store == "mpi") "mpi" else paste0("redis://", hosts$addresses[[1L]], ":6379")
    expect_identical(said(store), sprintf("%d of 4, wrong 0, absent 5, late 4 from %s", 0:3, shown))
  }
})
