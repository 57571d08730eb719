# Slow: starts many clients.

# The options as passed to native code, by name.
typed <- function(..., platform = "mine") {
  given <- typed_client_options(list(...), platform)
  stats::setNames(Map(c, given$types, given$values), given$names)
}

test_that("an R value becomes an option of the nearest type", {
  expect_identical(
    typed(
      text = "a", flag = TRUE, integer = 1L, whole = 2, negative = -3, many = c(1, 2), none = integer(), fraction = 0.5,
      one = I(4L), listed = list(5), mixed = list(1L, 2), empty = list()
    ),
    list(
      text = c("string", "a"), flag = c("bool", "TRUE"), integer = c("int64", "1"), whole = c("int64", "2"),
      negative = c("int64", "-3"), many = c("int64 list", "1", "2"), none = "int64 list", fraction = c("float", "0.5"),
      one = c("int64 list", "4"), listed = c("int64 list", "5"), mixed = c("int64 list", "1", "2"), empty = "int64 list"
    )
  )
  expect_identical(typed(), stats::setNames(list(), character()))
})

test_that("64-bit whole numbers stay exact", {
  large <- bit64::as.integer64("9007199254740993")
  expect_identical(typed(x = large), list(x = c("int64", "9007199254740993")))
  expect_identical(typed(x = c(large, -large))$x, c("int64 list", "9007199254740993", "-9007199254740993"))
  expect_identical(typed(x = list(large))$x, c("int64 list", "9007199254740993"))
  expect_identical(typed(x = 2^53)$x, c("int64", "9007199254740992"))
  expect_refused(typed(x = 2^54), "invalid_input", "Client options must be integers of length 1 for `x`")
  expect_refused(typed(x = bit64::NA_integer64_), "invalid_input", "Client options must be integers of length 1")
})

test_that("the options of a known platform are checked by type", {
  for (platform in c("cuda", "rocm", "gpu")) {
    expect_identical(
      typed(memory_fraction = 1, visible_devices = 0L, preallocate = FALSE, allocator = "bfc", platform = platform),
      list(
        memory_fraction = c("float", "1"), visible_devices = c("int64 list", "0"), preallocate = c("bool", "FALSE"),
        allocator = c("string", "bfc")
      )
    )
  }
  refused <- function(..., what) {
    expect_refused(typed(..., platform = "cuda"), "invalid_input", paste("Client options must be", what))
  }
  refused(allocator = 1, what = "strings of length 1 for `allocator`, not 1.")
  refused(preallocate = 1L, what = "TRUE or FALSE for `preallocate`")
  refused(preallocate = NA, what = "TRUE or FALSE for `preallocate`")
  refused(memory_fraction = "half", what = "numbers of length 1 for `memory_fraction`")
  refused(memory_fraction = Inf, what = "numbers of length 1 for `memory_fraction`")
  refused(node_id = 1.5, what = "integers of length 1 for `node_id`")
  refused(
    visible_devices = c(0.5, 1), what = "vectors of integers for `visible_devices`, not a double vector of length 2."
  )
  refused(visible_devices = list("0"), what = "vectors of integers for `visible_devices`")
})

test_that("an unknown option is refused with the names of the known ones", {
  error <- expect_refused(
    new_client(pjrt_plugin("cpu"), list(cpu_devices = 2L)), "invalid_input", "no option `cpu_devices`"
  )
  expect_match(conditionMessage(error), "cpu_device_count (int64), threads (int64)", fixed = TRUE)
  error <- expect_refused(typed(threads = 2L, platform = "cuda"), "invalid_input", "no option `threads`")
  expect_match(conditionMessage(error), "memory_fraction (float)", fixed = TRUE)
})

test_that("a value that no option accepts is refused on any platform", {
  bad <- list(
    NULL, NA, NA_character_, c("a", "b"), c(TRUE, FALSE), 1i, sum, factor("a"), Sys.Date(), list(sum), NaN,
    pjrt_buffer(1:2)
  )
  for (value in bad) {
    options <- list(1)
    options[1] <- list(value)
    expect_refused(
      typed_client_options(stats::setNames(options, "x"), "mine"), "invalid_input", "Client options must be"
    )
  }
  expect_refused(typed(1), "invalid_input", "Client options must have unique names")
  expect_refused(typed(a = 1, a = 2), "invalid_input", "Client options must have unique names")
})

test_that("a plugin receives options of every type", {
  plugin <- load_plugin(plugin_path("cpu"), "mine")
  options <- list(
    cpu_device_count = 3L, text = "caf\u00e9", nothing = "", flag = TRUE, number = -1, many = 1:3, none = integer(),
    fraction = 0.1
  )
  if (plugin_api(115)) {
    expect_refused(new_client(plugin, options), "invalid_argument", "Unexpected option name")
    options <- options["cpu_device_count"]
  }
  expect_length(devices(new_client(plugin, options)), 3L)
  # this one would abort the process
  options$cpu_device_count <- "3"
  expect_refused(new_client(plugin, options), "invalid_input", "`cpu_device_count` must be a whole number")
})

test_that("an invalid number of threads is refused", {
  for (bad in c(0, -1, 4097)) {
    expect_refused(
      new_client(pjrt_plugin("cpu"), list(threads = bad)), "invalid_input",
      "`threads` must be a whole number from 1 to 4096"
    )
  }
  for (bad in list("2", 1.5, 1:2, NA, TRUE)) {
    expect_refused(
      new_client(pjrt_plugin("cpu"), list(threads = bad)), "invalid_input", "integers of length 1 for `threads`"
    )
  }
  pjrt_client("cpu")
  expect_refused(
    pjrt_client("cpu", threads = 2L), "invalid_input",
    "Can only specify client options the first time you create a client."
  )
})

test_that("PJRT_CPU_THREADS sets the number of threads and an option overrides it", {
  withr::local_envvar(PJRT_CPU_THREADS = "3")
  expect_identical(default_client_options("cpu"), list(cpu_device_count = 2L, threads = 3L))
  expect_identical(default_client_options("cuda"), list())
  withr::local_envvar(PJRT_CPU_THREADS = NA, NPROC = "7")
  expect_identical(default_client_options("cpu"), list(cpu_device_count = 2L))
  for (bad in c("many", "0", "-1", "1.5", " 2", "\xff")) {
    withr::local_envvar(PJRT_CPU_THREADS = bad)
    expect_refused(default_client_options("cpu"), "invalid_input", "PJRT_CPU_THREADS must be a positive whole number")
  }
  for (name in c("PJRT_CPU_THREADS", "PJRT_CPU_DEVICE_COUNT")) {
    withr::local_envvar(structure("4097", names = name))
    expect_refused(
      default_client_options("cpu"), "invalid_input", paste(name, "must be a positive whole number up to 4096")
    )
    withr::local_envvar(structure(NA, names = name))
  }
})

test_that("XLA's own variables cannot ask for too many threads", {
  withr::local_envvar(PJRT_CPU_THREADS = NA, PJRT_NPROC = NA)
  for (name in c("NPROC", "PJRT_NPROC")) {
    withr::local_envvar(structure("4097", names = name))
    expect_refused(
      new_client(pjrt_plugin("cpu")), "invalid_value",
      paste("The environment variable", name, "must be a whole number up to 4096, not 4097.")
    )
    withr::local_envvar(structure(NA, names = name))
  }
  # `threads` comes before it
  withr::local_envvar(NPROC = "20000")
  expect_s3_class(new_client(pjrt_plugin("cpu"), list(threads = 1L)), "PJRTClient")
})

test_that("creating a client does not change the environment, even if it fails", {
  for (before in c(NA, "7")) {
    withr::local_envvar(NPROC = before)
    new_client(pjrt_plugin("cpu"), list(threads = 1L))
    expect_identical(Sys.getenv("NPROC", NA), before)
    expect_refused(new_client(pjrt_plugin("cpu"), list(threads = 1L, cpu_device_count = 0L)), "invalid_input")
    expect_identical(Sys.getenv("NPROC", NA), before)
  }
})

# Code for a child: counts the threads on which XLA runs programs.
count_threads <- quote({
  threads <- function() {
    # other threads end meanwhile, before their file is opened or before it is read
    read <- function(x) tryCatch(suppressWarnings(readLines(file.path(x, "comm"))), error = function(e) NULL)
    name <- function(x) c(read(x), "")[[1L]]
    sum(grepl("XLAEigen", vapply(list.files("/proc/self/task", full.names = TRUE), name, "")))
  }
})

test_that("XLA uses the requested number of threads on any number of devices", {
  skip_if_not(file.exists("/proc/self/task"), "this system has no /proc")
  child <- run_child(bquote({
    .(count_threads)
    allowed <- function() grep("^Cpus_allowed:", readLines("/proc/self/status"), value = TRUE)
    before <- allowed()
    counts <- vapply(list(c(1, 1), c(1, 3), c(1, 9), c(2, 1), c(2, 5), c(4, 1), c(4, 6)), function(x) {
      old <- threads()
      pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = x[[1L]], threads = x[[2L]]))
      threads() - old
    }, 1)
    cat(counts, identical(allowed(), before), "\n")
  }))
  expect_clean(child, "1 3 9 2 5 4 6 TRUE ")
})

test_that("a job has as many threads as its scheduler allows", {
  unset <- c(
    "SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "PBS_NUM_PPN", "LSB_DJOB_NUMPROC", "NSLOTS", "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT", "PBS_JOBID", "NCPUS", "NPROC", "PJRT_CPU_THREADS"
  )
  withr::local_envvar(structure(rep(NA_character_, length(unset)), names = unset))
  threads <- function() default_client_options("cpu")$threads
  every <- threads()
  expect_true(every >= 1L && every <= parallel::detectCores())
  expect_match(format(pjrt_sitrep()), sprintf("processors: *%d$", every), all = FALSE)
  for (name in setdiff(unset, c("PBS_JOBID", "NCPUS", "NPROC", "PJRT_CPU_THREADS"))) {
    withr::local_envvar(structure("1", names = name))
    expect_identical(threads(), 1L, info = name)
    withr::local_envvar(structure("4096", names = name))
    expect_identical(threads(), every, info = name)
  }
  withr::local_envvar(NCPUS = "1")
  expect_identical(threads(), every)
  withr::local_envvar(PBS_JOBID = "1.server", PJRT_CPU_THREADS = "3")
  expect_identical(threads(), 3L)
  withr::local_envvar(PJRT_CPU_THREADS = NA)
  expect_identical(threads(), 1L)
  skip_if_not(file.exists("/proc/self/task"), "this system has no /proc")
  child <- run_child(bquote({
    .(count_threads)
    pjrt_client("cpu", cpu_device_count = 1)
    cat(threads(), grep("processors:", format(pjrt_sitrep()), value = TRUE), "\n")
  }), c(SLURM_CPUS_PER_TASK = "1"))
  expect_identical(child$status, 0L)
  expect_match(child$out, "^1 +processors: +1 \\((SLURM_CPUS_PER_TASK|NCPUS)\\) $", all = FALSE)
})

test_that("PJRT_CPU_THREADS applies to the platform's client and the argument overrides it", {
  skip_if_not(file.exists("/proc/self/task"), "this system has no /proc")
  make <- function(call) bquote({
    .(count_threads)
    .(call)
    cat(threads(), "\n")
  })
  expect_clean(run_child(make(quote(pjrt_client("cpu"))), c(PJRT_CPU_THREADS = "3", PJRT_CPU_DEVICE_COUNT = "1")), "3 ")
  env <- c(PJRT_CPU_THREADS = "3", PJRT_CPU_DEVICE_COUNT = "1")
  expect_clean(run_child(make(quote(pjrt_client("cpu", threads = 1))), env), "1 ")
})

test_that("a client with one thread keeps only one processor busy", {
  child <- run_child(quote({
    client <- pjrt_client("cpu", cpu_device_count = 1, threads = 1)
    square <- compile("func.func @main(%x: tensor<768x768xf32>) -> tensor<768x768xf32> {
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<768x768xf32>, tensor<768x768xf32>) -> tensor<768x768xf32>
      return %0 : tensor<768x768xf32>
    }")
    x <- pjrt_buffer(matrix(1, 768, 768))
    await(pjrt_execute(square, x))
    before <- proc.time()
    for (i in 1:40) await(pjrt_execute(square, x))
    used <- proc.time() - before
    cat((used[["user.self"]] + used[["sys.self"]]) / used[["elapsed"]] < 1.2, "\n")
  }))
  expect_clean(child, "TRUE ")
})
