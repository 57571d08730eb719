# The job scripts in inst/examples/slurm, without Slurm.

slurm_file <- function(name) system.file("examples", "slurm", name, package = "pjrt")
job_scripts <- function() list.files(slurm_file(""), "[.]sh$", full.names = TRUE)

# The R scripts that a job script runs, below the folder of examples.
called_scripts <- function(lines) {
  calls <- regmatches(lines, regexpr("(?<=\\$examples/)[^\"]*[.]R", lines, perl = TRUE))
  system.file("examples", calls, package = "pjrt")
}

run_script <- function(path, arguments = character(), env = character()) {
  processx::run(
    rscript(), c("--vanilla", path, arguments), error_on_status = FALSE, timeout = 120,
    env = c(
      "current", R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "",
      PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CPU_THREADS = "1", env
    )
  )
}

test_that("every job script parses, says what it asks for, and divides the processors", {
  skip_if(Sys.which("bash") == "", "no bash")
  expect_setequal(basename(job_scripts()), c("array.sh", "gpus.sh", "mpi.sh"))
  for (script in job_scripts()) {
    expect_identical(
      system2("bash", c("-n", shQuote(script)), stdout = TRUE, stderr = TRUE), character(), info = script
    )
    lines <- readLines(script)
    expect_identical(lines[[1L]], "#!/bin/bash", info = script)
    # Slurm reads no option after the first command
    options <- grep("^#SBATCH --", lines)
    expect_gt(length(options), 3L)
    expect_true(all(grepl("^#", lines[seq_len(max(options))])), info = script)
    expect_true(any(grepl("^export PJRT_CPU_THREADS=", lines)), info = script)
    expect_true(any(grepl("^set -eu$", lines)), info = script)
  }
})

test_that("every job script calls an R script that exists", {
  for (script in job_scripts()) {
    called <- called_scripts(readLines(script))
    expect_length(called, 1L)
    expect_true(file.exists(called), info = script)
  }
})

test_that("a task of an array writes its own results", {
  folder <- withr::local_tempdir()
  for (task in c("1", "2")) {
    ended <- run_script(slurm_file("bootstrap.R"), folder, c(SLURM_ARRAY_TASK_ID = task))
    expect_identical(ended$status, 0L, info = ended$stderr)
  }
  expect_identical(list.files(folder), c("task-001.rds", "task-002.rds"))
  results <- lapply(list.files(folder, full.names = TRUE), readRDS)
  expect_identical(lapply(results, dim), list(c(20L, 2L), c(20L, 2L)))
  expect_false(identical(results[[1L]], results[[2L]]))
  expect_equal(mean(results[[1L]][, 2L]), unname(coef(lm(dist ~ speed, cars))[[2L]]), tolerance = 0.2)
})

test_that("the script for GPUs runs in one process", {
  ended <- run_script(
    slurm_file("gpus.R"), env = c(PJRT_PLATFORM = "cpu", SLURM_NTASKS = "1", PJRT_CPU_DEVICE_COUNT = "1")
  )
  expect_identical(ended$stdout, "process 0 of 1 has one device of 1; the sum is finite: TRUE\n", info = ended$stderr)
})

test_that("a store for a job takes its settings from standard input", {
  skip_if(Sys.which("redis-server") == "" || Sys.which("bash") == "", "no redis-server")
  lines <- grep("^(password=|port=|printf |server=|export PJRT_STORE)", readLines(slurm_file("gpus.sh")), value = TRUE)
  expect_length(lines, 5L)
  folder <- withr::local_tempdir()
  job <- sample(10000L, 1L)
  writeLines(
    c(
      "set -eu", lines, "for i in $(seq 600); do grep -q Ready redis.log && break; sleep 0.1; done", "echo \"$port\"",
      "cat redis.log", "kill $server"
    ),
    file.path(folder, "store.sh")
  )
  ended <- processx::run(
    "bash", "store.sh", wd = folder, env = c("current", SLURM_JOB_ID = as.character(job)), timeout = 120
  )
  expect_match(ended$stdout, "Ready to accept connections")
})
