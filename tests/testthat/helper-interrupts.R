# Sessions in which to interrupt R while it waits. See helper-terminal.R for the terminal.

# Expressions that keep R waiting, by name. They need the objects of `interrupt_setup`.
waits <- list(
  await = quote(await(endless)),
  value = quote(value(promise)),
  as_array = quote(as_array(endless)),
  as_raw = quote(as_raw(endless, TRUE)),
  print = quote(print(endless)),
  format_buffer = quote(format_buffer(endless)),
  part = quote(endless[1]),
  copy = quote(as_array(copy_buffer(endless, "cpu:0"))),
  compile = quote(pjrt_compile(long)),
  "value of a compile" = quote(value(compiling)),
  "await of a compile" = quote(await(compiling)),
  inspect = quote(inspect_hlo(long)),
  "a silent server" = quote(install_from("silent")),
  "a slow server" = quote(install_from("slow")),
  "many executions" = quote(repeat as_array(pjrt_execute(double, pjrt_scalar(1, "f64")))),
  "large array" = quote(repeat as_array(large)),
  "large text" = quote(repeat format_buffer(numbers)),
  "large print" = quote(repeat print(large, max_rows = -1, max_width = -1)),
  "large upload" = quote(repeat pjrt_buffer(values, "f32", check = TRUE)),
  "large model" = quote(repeat pjrt_load_safetensors(model)),
  "large array of NumPy" = quote(repeat pjrt_load_npy(array)),
  "large model saved" = quote(repeat pjrt_save_safetensors(list(x = large), saved)),
  "info on a model" = quote(repeat safetensors_info(model))
)

# Creates the objects and defines begin(), which announces a wait and starts it, and check().
interrupt_setup <- quote({
  endless <- pjrt_execute(compile(waiting_program(), device = "cpu:1"), pjrt_scalar(1, "f64", device = "cpu:1"))
  promise <- as_array_async(endless)
  double <- compile(unary_program("f64"))
  long <- pjrt_program(chain_program(8000))
  large <- pjrt_buffer(0.5, shape = c(3000, 4000))
  numbers <- pjrt_buffer(as.double(1:1e6))
  values <- as.double(1:2e7)
  # a misaligned tensor, 8 bytes past a multiple of 64, which must be copied
  saved <- tempfile(fileext = ".safetensors")
  model <- tempfile(fileext = ".safetensors")
  local({
    header <- '{"x":{"dtype":"F64","shape":[12000000],"data_offsets":[0,96000000]}}'
    file <- file(model, "wb")
    writeBin(c(128L, 0L), file, endian = "little")
    writeBin(charToRaw(formatC(header, width = -128)), file)
    seek(file, 136 + 96e6 - 1, rw = "write")
    writeBin(raw(1), file)
    close(file)
  })
  # an array in Fortran order, which must be transposed
  array <- tempfile(fileext = ".npy")
  local({
    header <- formatC("{'descr': '<f8', 'fortran_order': True, 'shape': (3000, 4000), }", width = -117)
    file <- file(array, "wb")
    writeBin(c(as.raw(0x93), charToRaw("NUMPY"), as.raw(c(1, 0, 118, 0)), charToRaw(paste0(header, "\n"))), file)
    seek(file, 128 + 96e6 - 1, rw = "write")
    writeBin(raw(1), file)
    close(file)
  })
  install_from <- function(how) {
    Sys.setenv(PJRT_PLUGIN_URL_CPU = sprintf("http://127.0.0.1:%s/%s/cpu.whl", Sys.getenv("PORT"), how))
    install_pjrt("cpu", force = TRUE)
  }
  begin <- function(wait) {
    if ("compiling" %in% all.vars(wait)) compiling <<- pjrt_compile_async(long)
    cat("begin", "ning\n", sep = "")
    eval(wait)
    cat("not", "reached\n")
  }
  # shows that earlier objects are still usable
  check <- function() {
    cat("usable", as_array(pjrt_execute(double, pjrt_scalar(21, "f64"))), is_ready(endless), is_ready(promise), "\n")
  }
})

local_slow_server <- function(env = parent.frame()) {
  server <- processx::process$new("python3", test_path("fixtures", "slow-server.py"), stdout = "|")
  withr::defer(server$kill(), envir = env)
  line_reader(server)()
}

# Writes a script that sets up the waits and runs the code in `...`.
waiting_script <- function(..., env = parent.frame()) {
  withr::local_tempfile(fileext = ".R", .local_envir = env, lines = c(
    "library(pjrt)", sourcing(c("programs", "custom-calls")), deparse(interrupt_setup),
    "waits <-", deparse(waits, control = c("keepInteger", "niceNames", "quoteExpressions")),
    vapply(list(...), function(code) paste(deparse(code), collapse = "\n"), "")
  ))
}

waiting_env <- function(...) {
  c(PJRT_CPU_DEVICE_COUNT = "2", PJRT_CACHE = "0", PJRT_PLUGIN_PATH_CPU = real_plugin(), handlers_env(), ...)
}

# Starts a terminal that has run such a script.
local_waiting_terminal <- function(..., env = parent.frame()) {
  env_vars <- waiting_env(..., R_USER_CACHE_DIR = withr::local_tempdir(.local_envir = env))
  terminal <- start_terminal(env_vars)
  withr::defer(terminal$kill(), envir = env)
  terminal$type(sprintf("source('%s')", waiting_script(quote(options(prompt = "ready> ")), env = env)))
  expect_shows(terminal, "ready> ")
  terminal
}

expect_shows <- function(terminal, pattern, timeout = 120, info = pattern) {
  took <- terminal$see(pattern, timeout)
  if (is.na(took)) {
    terminal$kill()
    stop(info, ": the terminal does not show \"", pattern, "\", but:\n", terminal$shown())
  }
  expect_lt(took, timeout)
}
