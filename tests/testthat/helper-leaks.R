# Looks for memory leaks. Each kind of object is created, used and dropped in batches. The memory that is in use after a
# garbage collection must not grow from batch to batch.

# Uses to repeat in addition to the uses of single routines in helper-routines.R.
leak_uses <- function() {
  alist(
    # buffers, by each path to a device
    small = pjrt_buffer(c(1, 2, 3, 4), "f32"),
    now = pjrt_buffer(matrix_64, "f32"),
    now_in_place = pjrt_buffer(matrix_64, "f64"),
    shared = pjrt_buffer(long, "f64"),
    shared_raw = pjrt_buffer(long_raw, dtype = "ui8", shape = length(long_raw), row_major = TRUE),
    background = pjrt_buffer(large, "f64"),
    background_read = as_array(pjrt_buffer(large, "f32")),
    compact = pjrt_buffer(1:10000, "i32"),
    recycled = pjrt_buffer(1, shape = c(50, 50)),
    checked = pjrt_buffer(c(1, 2), "f16", check = TRUE),
    raw_column_major = pjrt_buffer(as.raw(1:8), dtype = "ui8", shape = c(2, 4), row_major = FALSE),
    empty = pjrt_empty("f32", c(0, 3)),
    empty_packed = pjrt_empty("i4", 10),
    there = pjrt_scalar(1, device = there),
    dtypes = lapply(names(examples), function(dtype) as_array(pjrt_buffer(examples[[dtype]], dtype))),
    dtypes_raw = lapply(names(examples), function(dtype) as_raw(pjrt_scalar(examples[[dtype]][[1L]], dtype))),

    # copies and parts
    copy_of_copy = copy_buffer(copy_buffer(x, there), here),
    copy_pending = copy_buffer(pjrt_execute(on_thread, x, x), there),
    copy_to_memory_pending = copy_buffer(pjrt_execute(on_thread, x, x), memory),
    part_one = on_device[[2, 3]],
    part_rows = on_device[2:3, ],
    part_cells = on_device[cbind(1:2, 2:3)],
    part_left_out = on_device[-1, c(TRUE, FALSE)],

    # executions
    inline = pjrt_execute(inline, x, x),
    thread = pjrt_execute(on_thread, x, x),
    thread_chain = as_array(pjrt_execute(on_thread, pjrt_execute(on_thread, x, x), pjrt_execute(add, x, x))),
    long_dropped = pjrt_execute(loop, scalar),
    result_read = as_array(pjrt_execute(add, x, x)),
    result_large = pjrt_execute(square, on_device),
    donated = pjrt_execute(give, pjrt_buffer(c(1, 2), "f64"), x),
    donated_thread = pjrt_execute(give_on_thread, pjrt_buffer(c(1, 2), "f64"), x),
    donated_shared = pjrt_execute(give_long, pjrt_buffer(long, "f64")),
    not_donated = pjrt_execute(give, x, x, execution_options = keeps),
    several_outputs = pjrt_execute(several, x),
    several_outputs_thread = pjrt_execute(several_on_thread, x),
    no_simplify = pjrt_execute(add, x, x, simplify = FALSE),
    portable = pjrt_execute(portable, z, z, execution_options = pjrt_execution_options(device = there)),
    sharded_read = lapply(pjrt_execute_sharded(both, list(x, z)), as_array),
    shard = pjrt_unshard(pjrt_shard(matrix_64, devices(client))),
    shard_for_input = pjrt_unshard(pjrt_shard(x, executable = add, input = 1L), executable = add),

    # promises
    array_value = value(as_array_async(x)),
    array_large = value(as_array_async(on_device_long)),
    array_large_dropped = as_array_async(on_device_long),
    array_of_pending = as_array_async(pjrt_execute(on_thread, x, x)),
    compiling_start = value(pjrt_compile_async(program)),
    compiling_is_ready = {
      promise <- pjrt_compile_async(program)
      is_ready(promise)
      value(promise)
    },
    compiling_dropped = {
      pjrt_compile_async(program)
      value(pjrt_compile_async(program))
    },
    compiling_failed = tryCatch(value(pjrt_compile_async(bad_program)), pjrt_error = identity),

    # programs and executables
    program_bytes = pjrt_program(charToRaw(text)),
    compile_options = pjrt_compile_options(
      2L, device_assignment = c(0L, 1L), debug_options = list(xla_a = 1, xla_b = "x")
    ),
    compile_shared = with_cache(pjrt_compile(program)),
    compile_from_disk = {
      with_cache(pjrt_compile(program))
      gc()
    },
    compile_sharded = pjrt_compile(reduce, pjrt_compile_options(num_replicas = 2L), devices = devices(client)),
    executed_and_dropped = pjrt_execute(pjrt_deserialize(serialized), x, x),

    # model files
    safetensors_in_place = lapply(pjrt_load_safetensors(model), as_array),
    safetensors_copied = pjrt_load_safetensors(system.file("models", "iris.safetensors", package = "pjrt")),
    safetensors_used = pjrt_execute(add, pjrt_load_safetensors(model)$x, x),
    safetensors_donated = pjrt_execute(give, pjrt_load_safetensors(model)$x, x),
    safetensors_some = pjrt_load_safetensors(model, names = "y"),
    npy_in_place = as_array(pjrt_load_npy(npy_large)),
    npy_copied = pjrt_load_npy(npy_file),
    npy_refused = refused(pjrt_load_npy(file)),
    pytorch_model = pjrt_load_exported(torch_folder),
    safetensors_lazy = pjrt_open_safetensors(model)[["x"]],
    safetensors_closed = {
      handle <- pjrt_open_safetensors(model)
      close(handle)
    },
    safetensors_shards = pjrt_load_safetensors(pjrt_save_safetensors(
      list(x = x, y = scalar), file.path(folder, "shards.safetensors"), max_shard_size = 16
    )),
    error_safetensors = refused(pjrt_load_safetensors(file)),
    error_safetensors_name = refused(pjrt_load_safetensors(model, names = "none")),
    error_safetensors_closed = refused(closed_model[["x"]]),
    error_safetensors_saved = refused(pjrt_save_safetensors(list(x = deleted), model)),

    # printing
    print_matrix = utils::capture.output(print(on_device)),
    print_large = utils::capture.output(print(on_device_long)),
    literals = format_buffer(on_device),
    print_promise = utils::capture.output(print(array)),
    print_options = utils::capture.output(print(pjrt_compile_options())),
    summary = utils::capture.output(print(summary(add))),
    client_info = utils::capture.output(print(client_info(client))),
    topology = utils::capture.output(print(pjrt_topology(client))),
    methods = list(dim(on_device), length(x), as.numeric(x), t(as.matrix(on_device))),

    # errors: refused by us or by the plugin, files, pointers
    error_data = refused(pjrt_buffer("a")),
    error_dtype = refused(pjrt_buffer(1, "f31")),
    error_shape = refused(pjrt_buffer(1:3, shape = 4)),
    error_check = refused(pjrt_buffer(c(1, NA), "i8", check = TRUE)),
    error_raw = refused(pjrt_buffer(as.raw(1), dtype = "i32", shape = 1, row_major = TRUE)),
    error_too_large = refused(pjrt_empty("f64", c(2^31, 2^31))),
    error_device = refused(pjrt_scalar(1, device = "cpu:7")),
    error_part = refused(on_device[65, 1]),
    error_int64 = refused(as_array(x, int64 = "x")),
    error_argument_count = refused(pjrt_execute(add, x)),
    error_argument_dtype = refused(pjrt_execute(add, x, scalar)),
    error_argument_device = refused(pjrt_execute(add, x, z)),
    error_argument_name = refused(pjrt_execute(add, x, z = x)),
    error_no_buffer = refused(pjrt_execute(add, x, 1)),
    error_sharded = refused(pjrt_execute_sharded(both, list(x, x))),
    error_deleted = refused(as_array(deleted)),
    error_deleted_input = refused(pjrt_execute(add, deleted, x)),
    error_pointer = refused(as_array(restored)),
    error_pointer_typed = refused(format_buffer(restored)),
    error_class = refused(pjrt:::call_native(pjrt:::ffi_buffer_literals, client)),
    error_program = refused(pjrt_compile(bad_program)),
    error_program_hlo = refused(pjrt_compile(pjrt_program(as.raw(1:9), format = "hlo"))),
    error_options = refused(pjrt_compile_options(num_replicas = 0L)),
    error_debug_option = refused(pjrt_compile(program, pjrt_compile_options(debug_options = list(xla_no_such = 1)))),
    error_serialized = refused(pjrt_deserialize(serialized[-1])),
    error_serialized_cut = refused(pjrt_deserialize(utils::head(serialized, -9L))),
    error_file = refused(pjrt_load_executable(file.path(folder, "none"))),
    error_plugin = refused(pjrt:::load_plugin(file, "none")),
    device_info = device_info(here)$memory,
    error_client = refused(pjrt:::new_client(plugin, list(cpu_device_count = 0L)))
  )
}

# Uses that cannot be repeated, and why.
unrepeatable <- c(
  client_create = "a client stays open until it is closed"
)

# The objects that the uses need, including the routines' objects.
leak_objects <- function() {
  o <- routine_objects()
  local(envir = o, {
    refused <- function(code) {
      error <- tryCatch({
        code
        NULL
      }, pjrt_error = identity)
      if (is.null(error)) stop("not refused: ", deparse(substitute(code)))
    }
    with_cache <- function(code) {
      old <- options(pjrt.cache = TRUE)
      on.exit(options(old))
      code
    }
    with_dispatch <- function(dispatch, code) {
      old <- options(pjrt.dispatch = dispatch)
      on.exit(options(old))
      code
    }
    matrix_64 <- matrix(as.double(1:4096), 64)
    long <- aligned("double", 4e4)
    long_raw <- aligned("raw", 3e5)
    large <- matrix(1, 1050, 1000)
    on_device <- pjrt_buffer(matrix_64, "f64")
    on_device_long <- pjrt_buffer(long, "f64")
    scalar <- pjrt_scalar(1, "f64")
    examples <- c(
      list(pred = c(TRUE, FALSE)),
      lapply(
        c(i8 = 1, i16 = 2, i32 = 3, ui8 = 4, ui16 = 5, i4 = 1, ui4 = 2, i2 = 1, ui2 = 2),
        function(i) c(0L, as.integer(i))
      ),
      lapply(c(i64 = 1, ui64 = 2, ui32 = 3), bit64::as.integer64),
      lapply(c(f64 = 1, f32 = 2, f16 = 3, bf16 = 4, f8e4m3fn = 1, f8e5m2 = 2, f4e2m1fn = 1), function(x) c(0, x)),
      list(c64 = 1i, c128 = c(2i, 3))
    )
    inline <- with_dispatch("inline", compile(text))
    on_thread <- with_dispatch("thread", compile(text))
    square <- compile(unary_program("64x64xf64", "multiply"))
    loop <- compile(loop_program(1000))
    give <- compile(add_program("2xf64", donates))
    give_on_thread <- with_dispatch("thread", compile(add_program("2xf64", donates)))
    give_long <- compile(sprintf(
      "func.func @main(%%x: tensor<40000xf64>%s) -> tensor<40000xf64> {
      %%0 = stablehlo.add %%x, %%x : tensor<40000xf64>
      return %%0 : tensor<40000xf64>
    }", donates))
    keeps <- pjrt_execution_options(non_donatable_input_indices = 0L)
    two <- "func.func @main(%x: tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>) {
      %0 = stablehlo.add %x, %x : tensor<2xf64>
      return %x, %0 : tensor<2xf64>, tensor<2xf64>
    }"
    several <- compile(two)
    several_on_thread <- with_dispatch("thread", compile(two))
    portable <- compile(text, pjrt_compile_options(compile_portable_executable = TRUE))
    reduce <- pjrt_program(all_reduce_program("2xf64", 2))
    bad_program <- pjrt_program("func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> { return %y : tensor<2xf64> }")
    deleted <- pjrt_buffer(c(1, 2), "f64")
    pjrt_execute(give, deleted, x)
    restored <- unserialize(serialize(x, NULL, version = 2))
    npy_large <- file.path(folder, "large.npy")
    local({
      header <- formatC("{'descr': '<f4', 'fortran_order': False, 'shape': (20000,), }", width = -117)
      magic <- c(as.raw(0x93), charToRaw("NUMPY"), as.raw(c(1, 0, 118, 0)))
      writeBin(c(magic, charToRaw(paste0(header, "\n")), raw(80000)), npy_large)
    })
    closed_model <- pjrt_open_safetensors(model)
    close(closed_model)
    executables <- pjrt_memory_stats()$objects[["PJRTLoadedExecutable"]]
    # Waits until both devices have finished their work.
    settle <- function() {
      await(pjrt_execute(on_thread, x, x))
      await(copy_buffer(pjrt_execute(on_thread, x, x), there))
    }
  })
  o
}

# All uses to repeat.
repeated_uses <- function() {
  uses <- c(leak_uses(), routine_uses())
  uses[!duplicated(names(uses)) & !names(uses) %in% names(unrepeatable)]
}

# Loads a routine that returns how much memory the C library has allocated.
load_heap <- function(library) {
  dyn.load(library)
  function() .C("heap_bytes", 0)[[1L]]
}

# Bytes in use after a garbage collection: of the C library's heap (including R's memory), of R's objects, and of the
# process.
memory_now <- function(heap, objects) {
  objects$settle()
  # the second collection frees the pages that the first one emptied
  for (i in 1:2) counts <- gc()
  if (pjrt_memory_stats()$objects[["PJRTLoadedExecutable"]] > objects$executables) {
    # objects with a weak reference need another collection
    counts <- gc()
  }
  heap <- heap()
  pages <- as.numeric(strsplit(readLines("/proc/self/statm"), " ", fixed = TRUE)[[1L]][[2L]])
  c(heap = heap, objects = sum(counts[, 1L] * c(56, 8)), process = pages * 4096)
}

# Counts of this package's live objects. R objects of devices and memory spaces stay for the session.
live_now <- function() {
  stats <- pjrt_memory_stats()
  c(stats$objects, colSums(stats$clients[-1L]), pinned = stats$pinned)
}

# The median slope between all pairs of points, which is robust to outliers.
typical_slope <- function(y) {
  pairs <- utils::combn(length(y), 2L)
  stats::median((y[pairs[2L, ]] - y[pairs[1L, ]]) / (pairs[2L, ] - pairs[1L, ]))
}

# A function that runs one batch of a use, and the batch's number of repetitions: as many as fit in `seconds`, at most
# `most`. Quick uses are repeated at least 400 times unless `most` is less, so that losing a block of 24 bytes each time
# exceeds the noise limit of grows() in five batches.
repetition <- function(use, objects, most, seconds) {
  run <- compiler::cmpfun(eval(bquote(function(n) for (i in seq_len(n)) .(use)), objects))
  # warm up: the first uses fill caches and start threads, whose memory stays
  run(2L)
  for (first in c(4L, 20L)) {
    each <- max(1e-6, system.time(run(first), gcFirst = FALSE)[["elapsed"]] / first)
    if (each > 1e-3) break
  }
  n <- as.integer(max(2, min(most, max(seconds / each, if (each < 1e-3) 400))))
  list(run = function() run(n), n = n)
}

# Runs `batches` batches of these uses. Returns the growth in bytes per iteration, and the number of objects left over.
measure_growth <- function(uses, objects, heap, most, seconds, batches) {
  repetitions <- lapply(uses, repetition, objects, most, seconds)
  run <- function() for (repetition in repetitions) repetition$run()
  n <- max(vapply(repetitions, `[[`, 0L, "n"))
  run()
  memory_now(heap, objects)
  before <- live_now()
  start <- proc.time()[["elapsed"]]
  used <- vapply(seq_len(batches), FUN.VALUE = numeric(3L), function(batch) {
    run()
    memory_now(heap, objects)
  })
  took <- proc.time()[["elapsed"]] - start
  growth <- apply(used, 1L, typical_slope)
  after <- live_now()
  left <- after - before
  list(
    iterations = n * batches, microseconds = 1e6 * took / (n * batches), growth = growth / n,
    total = growth * (batches - 1L),
    left = left[left > 0]
  )
}

# Whether memory grows: per iteration by more than half of the smallest block, and in total by more than R's memory
# fluctuates. The limits of the process are higher since its pages may be partly free.
grows <- function(measured, limit = c(heap = 12, objects = 12, process = 100), heap = 32e3) {
  sway <- c(heap = heap, objects = 32e3, process = 16e6)
  any(measured$growth > limit & measured$total > sway) || length(measured$left) > 0L
}

# Measures each of these uses. Garbage collections take most of the time, so `together` uses share them; if memory grows
# twice, the heap by more than `shared_heap` bytes, each half of them is measured, down to single ones. A use that seems
# to leak is then measured up to `chances` times more, with `again` times the iterations: a leak grows every time.
# `report` is called as soon as a use has been measured alone.
find_leaks <- function(heap, uses = repeated_uses(), most = 1000L, seconds = 0.01, batches = 5L, again = 10L,
                       report = NULL, together = 1L, shared_heap = 32e3, objects = leak_objects(), chances = 2L) {
  measure <- function(group, more = 1L, times = batches) {
    measure_growth(group, objects, heap, more * most, more * seconds, times)
  }
  alone <- function(use) {
    measured <- measure(use)
    for (chance in seq_len(chances)) {
      if (!grows(measured)) break
      measured <- measure(use, again, 2L * batches)
    }
    if (!is.null(report)) report(names(use), measured)
    stats::setNames(list(measured), names(use))
  }
  look <- function(group) {
    if (length(group) == 1L) {
      return(alone(group))
    }
    for (chance in 1:2) {
      measured <- measure(group)
      # the limits per iteration hold for a single use
      if (!grows(measured, limit = 0, heap = shared_heap)) {
        measured$total[] <- 0
        return(lapply(group, function(use) measured))
      }
    }
    first <- seq_len(length(group) %/% 2L)
    c(look(group[first]), look(group[-first]))
  }
  do.call(c, lapply(unname(split(uses, (seq_along(uses) - 1L) %/% together)), look))
}

# A line for each use that leaks.
leaking <- function(found) {
  leaks <- Filter(grows, found)
  describe <- function(name) {
    one <- leaks[[name]]
    growth <- paste(sprintf("%.1f", one$growth), names(one$growth), collapse = ", ")
    left <- if (length(one$left) > 0L) c("; left:", paste(one$left, names(one$left)))
    paste(c(sprintf("%s: bytes for each of %d: %s", name, one$iterations, growth), left), collapse = " ")
  }
  vapply(names(leaks), describe, "", USE.NAMES = FALSE)
}
