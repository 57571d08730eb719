# Arrays of Python, in children that have reticulate. helper-reticulate.R runs them.
# Slow: starts many sessions with Python.

test_that("NumPy and pjrt use each other's arrays in place", {
  expect_python(env = reticulate_env(), quote({
    np <- import("numpy", convert = FALSE)
    number <- function(x) as.numeric(py_to_r(x$item()))
    # out: the same memory, read-only, alive without the buffer
    x <- ones()
    a <- np$from_dlpack(x)
    stopifnot(!py_to_r(a$flags$writeable), identical(py_to_r(a$dtype$name), "float32"))
    y <- pjrt_from_dlpack(a, copy = FALSE)
    pjrt_execute(doubling(), x)
    rm(x)
    reuse_memory()
    stopifnot(number(a$sum()) == 1e5, identical(as_array(y), array(1, 1e5)))
    rm(a)
    import("gc")$collect()
    stopifnot(identical(as_array(y), array(1, 1e5)))
    # a copy may be modified
    lent <- r_to_py(ones())
    a <- np$from_dlpack(lent, copy = TRUE)
    a$fill(5)
    stopifnot(number(a$sum()) == 5e5, number(np$from_dlpack(lent)$sum()) == 1e5)
    stopifnot(
      number(np$asarray(lent, dtype = "float64")$sum()) == 1e5, identical(py_str(lent), "<pjrt buffer f32[100000]>")
    )
    refused <- tryCatch(np$asarray(lent, dtype = "float64", copy = FALSE), error = conditionMessage)
    # older NumPy does not pass `copy` on
    stopifnot(numeric_version(py_to_r(np$version$version)) < "2.0" || grepl("without a copy", refused))
    # a copy is the same object, and its address does not go to other processes
    copies <- py_run_string("
import copy, dataclasses, gc, pickle

@dataclasses.dataclass
class Holder:
    held: object

def copies(buffer):
    made = [copy.copy(buffer), copy.deepcopy(buffer), dataclasses.asdict(Holder(buffer))['held']]
    return made if all(one is buffer for one in made) else None

def pickled(buffer):
    try:
        return pickle.dumps(buffer)
    except TypeError as error:
        return str(error)
", convert = FALSE)
    made <- copies$copies(pjrt_buffer(c(1, 2)))
    copies$gc$collect()
    invisible(gc())
    stopifnot(number(np$from_dlpack(made[2L])$sum()) == 3)
    stopifnot(grepl("cannot be pickled", py_to_r(copies$pickled(lent))))
    # in: types, shapes and orders
    for (type in c("bool", "int8", "uint16", "int64", "float16", "float64", "complex64")) {
      a <- np$arange(24L)$astype(type)$reshape(2L, 3L, 4L)
      expected <- as_raw(pjrt_buffer(a), row_major = TRUE)
      stopifnot(identical(expected, as.raw(py_to_r(np$frombuffer(a$tobytes(), dtype = "uint8")$tolist()))))
      turned <- pjrt_buffer(np$asfortranarray(a))
      stopifnot(identical(as_raw(turned, row_major = TRUE), expected))
    }
    backwards <- py_run_string("import numpy; a = numpy.arange(12.).reshape(3, 4)[::-1, ::-2]", convert = FALSE)$a
    stopifnot(identical(as_array(pjrt_buffer(backwards)), rbind(c(11, 9), c(7, 5), c(3, 1))))
    stopifnot(identical(shape(pjrt_buffer(np$zeros(c(0L, 3L)))), c(0L, 3L)))
    stopifnot(identical(shape(pjrt_buffer(np$array(1))), integer()))
    # a mask would be lost
    masked <- np$ma$array(c(1, 2), mask = c(TRUE, FALSE))
    refused <- tryCatch(pjrt_buffer(masked), pjrt_error = conditionMessage)
    stopifnot(
      startsWith(refused, "`x` is a masked array of NumPy"),
      identical(as_array(pjrt_buffer(masked$data)), array(c(1, 2)))
    )
    # the hint works for integers, too
    whole <- np$ma$array(1:2, mask = c(TRUE, FALSE))
    refused <- tryCatch(pjrt_buffer(whole), pjrt_error = conditionMessage)
    stopifnot(
      grepl("x.astype(float).filled(numpy.nan)", refused, fixed = TRUE),
      identical(as_array(pjrt_buffer(whole$astype("float")$filled(np$nan))), array(c(NaN, 2)))
    )
    # functions take R's data and buffers, and say what makes one of an array of Python
    refused <- tryCatch(pjrt_function(doubling())(np$ones(3L)), pjrt_error = conditionMessage)
    stopifnot(
      grepl("pjrt_buffer(x) reads an array of Python", refused, fixed = TRUE)
    )
    # a read-only array is not written to by a program that donates it
    a <- np$from_dlpack(ones())
    b <- pjrt_buffer(a, copy = FALSE)
    stopifnot(identical(as_array(pjrt_execute(doubling(), b)), array(2, 1e5)), is_deleted(b), number(a$sum()) == 1e5)
    # capsules
    capsule <- r_to_py(as_dlpack(ones()))
    stopifnot(identical(shape(pjrt_from_dlpack(capsule)), 100000L))
    refused <- function(code, message) {
      error <- tryCatch(code, pjrt_error_invalid_input = conditionMessage)
      stopifnot(is.character(error), grepl(message, error, fixed = TRUE))
    }
    refused(pjrt_from_dlpack(capsule), "was used already")
    unused <- r_to_py(as_dlpack(ones(), versioned = FALSE))
    rm(unused)
    refused(pjrt_buffer(np$array("text")), "DLPack only supports")
    refused(pjrt_buffer(r_to_py(list(1))), "__dlpack__")
    refused(pjrt_buffer(a, dtype = "f64"), "not converted")
    refused(pjrt_buffer(a, shape = 3), "same shape")
    odd <- py_run_string("import numpy; b = numpy.ones(999).view('u1')[1:]", convert = FALSE)$b
    refused(pjrt_buffer(odd, copy = FALSE), "multiple of 64")
    stopifnot(identical(as_array(pjrt_buffer(a, dtype = "float32", shape = 1e5)), array(1, 1e5)))
    # errors on Python's side
    small <- tryCatch(np$from_dlpack(pjrt_buffer(c(1, 2), "bf16")), error = conditionMessage)
    stopifnot(is.character(small))
    gone <- r_to_py(x <- ones())
    pjrt_delete(x)
    stopifnot(grepl("deleted", tryCatch(np$from_dlpack(gone), error = conditionMessage)))
    elsewhere <- tryCatch(gone$`__dlpack__`(dl_device = tuple(2L, 0L)), error = conditionMessage)
    stopifnot(grepl("only be copied to the CPU", elsewhere))
  }))
})

test_that("JAX and pjrt use each other's arrays in place", {
  expect_python(env = reticulate_env(c("numpy", "jax")), quote({
    jnp <- import("jax.numpy", convert = FALSE)
    number <- function(x) as.numeric(py_to_r(x$item()))
    x <- ones()
    a <- jnp$from_dlpack(r_to_py(x))
    rm(x)
    reuse_memory()
    stopifnot(number(a$sum()) == 1e5)
    # JAX's memory, in place: even if JAX and R drop and donate it
    b <- pjrt_buffer(jnp$ones(100000L), copy = FALSE)
    import("gc")$collect()
    reuse_memory()
    again <- jnp$from_dlpack(r_to_py(b))
    stopifnot(identical(as_array(pjrt_execute(doubling(), b)), array(2, 1e5)), number(again$sum()) == 1e5)
    for (type in c("bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "complex64", "uint32")) {
      a <- jnp$arange(6L)$astype(type)$reshape(2L, 3L)
      b <- pjrt_buffer(a)
      stopifnot(identical(as.numeric(as_array(b) != 0), as.numeric(c(0, 1, 1, 1, 1, 1))), identical(shape(b), 2:3))
      same <- jnp$array_equal(jnp$from_dlpack(r_to_py(b))$astype("float32"), a$astype("float32"))
      stopifnot(py_to_r(same$item()))
    }
    # both compute on one array
    x <- pjrt_buffer(matrix(1:6, 2), "f32")
    a <- jnp$from_dlpack(r_to_py(x))
    stopifnot(identical(as_array(pjrt_buffer(jnp$add(a, a))), matrix(c(2, 4, 6, 8, 10, 12), 2)))
  }))
})

test_that("NumPy, JAX and PyTorch share a buffer in one process", {
  expect_python(env = reticulate_env(c("numpy", "jax", "torch")), quote({
    np <- import("numpy", convert = FALSE)
    jnp <- import("jax.numpy", convert = FALSE)
    torch <- import("torch", convert = FALSE)
    number <- function(x) as.numeric(py_to_r(x$item()))
    x <- ones()
    arrays <- list(np$from_dlpack(x), jnp$from_dlpack(r_to_py(x)), torch$from_dlpack(x))
    rm(x)
    reuse_memory()
    for (a in arrays) stopifnot(number(a$sum()) == 1e5)
    # each takes what the next one gives
    t <- torch$from_dlpack(pjrt_from_dlpack(arrays[[2L]]))
    b <- pjrt_buffer(t, copy = FALSE)
    rm(arrays, t)
    import("gc")$collect()
    reuse_memory()
    stopifnot(identical(as_array(pjrt_execute(doubling(), b)), array(2, 1e5)))
    b <- pjrt_buffer(torch$ones(c(2L, 3L), dtype = torch$bfloat16))
    stopifnot(identical(as.character(elt_type(b)), "bf16"), identical(as_array(b), matrix(1, 2, 3)))
    stopifnot(
      identical(as_array(pjrt_buffer(torch$arange(6L)$reshape(2L, 3L)$t()$float())), matrix(as.numeric(0:5), 3))
    )
    grad <- tryCatch(pjrt_buffer(torch$ones(3L, requires_grad = TRUE)), pjrt_error_invalid_input = conditionMessage)
    negative <- py_run_string("import torch; x = torch.tensor([1+2j, 3-1j]).conj().imag", convert = FALSE)$x
    refused <- tryCatch(pjrt_buffer(negative), pjrt_error_invalid_input = conditionMessage)
    stopifnot(
      grepl("use x.resolve_neg()", refused, fixed = TRUE),
      identical(as_array(pjrt_buffer(negative$resolve_neg())), array(c(-2, 1)))
    )
    stopifnot(grepl("require gradient", grad, fixed = TRUE))
    capsule <- r_to_py(as_dlpack(ones(), versioned = FALSE))
    stopifnot(number(torch$utils$dlpack$from_dlpack(capsule)$sum()) == 1e5)
  }))
})

test_that("arrays of Python and R are freed in loops", {
  skip_on_os(c("mac", "windows"))
  expect_python(env = reticulate_env(), quote({
    np <- import("numpy", convert = FALSE)
    collect <- import("gc")$collect
    source <- np$ones(2000000L, dtype = "float32")
    x <- pjrt_buffer(rep(1, 2e6), "f32")
    run <- function(n) {
      for (i in seq_len(n)) {
        out <- np$from_dlpack(x, copy = TRUE)
        within <- np$from_dlpack(x)
        copied <- pjrt_buffer(source$copy())
        there <- pjrt_buffer(np$from_dlpack(pjrt_buffer(rep(1, 2e6), "f32")), copy = FALSE)
      }
      rm(out, within, copied, there)
      gc()
      collect()
      pjrt_memory_stats()
      gc()
    }
    run(20)
    before <- resident()
    live <- pjrt_memory_stats()
    # 50 or 250 arrays of 8 MB each way and round. The allocator keeps some of it now and then, but a leak grows in
    # every round.
    for (round in 1:4) {
      run(times(50, 250))
      growth <- resident() - before
      if (growth < 1e8) break
      before <- resident()
    }
    stopifnot(growth < 1e8)
    stopifnot(identical(pjrt_memory_stats()$objects, live$objects))
    stopifnot(identical(pjrt_memory_stats()$clients$live_buffers, live$clients$live_buffers))
  }))
})

test_that("a session ends well whoever holds an array last", {
  env <- reticulate_env()
  ends <- list(
    quote(q("no")), quote(NULL), quote({
      rm(kept, held)
      gc()
    }), quote(pjrt_execute(pjrt_compile(pjrt_program(loop_program(1e7))), pjrt_scalar(0, "f64")))
  )
  for (end in ends) {
    code <- bquote({
      library(reticulate)
      np <- import("numpy", convert = FALSE)
      x <- ones()
      kept <- list(
        np$from_dlpack(x), r_to_py(x), as_dlpack(x), r_to_py(as_dlpack(x)), r_to_py(as_dlpack(x, versioned = FALSE))
      )
      held <- list(pjrt_buffer(np$ones(100000L)), pjrt_buffer(np$ones(3L)), pjrt_from_dlpack(kept[[1L]], copy = FALSE))
      py_run_string("kept = []", convert = FALSE)$kept$append(kept[[1L]])
      cat("done\n")
      .(end)
    })
    child <- run_child(code, env, helpers = c("programs", "dlpack"))
    expect_identical(child$status, 0L, info = paste(child$err, collapse = "\n"))
    expect_identical(child$out[[1L]], "done")
  }
})

# Code for one session, since each needs seconds to load reticulate and NumPy. The fork is the last to run.
short_parts <- list(
  threads = quote({
    run <- py_run_string("
import threading, numpy
def run(buffer, pending):
    sums = []
    def work():
        for i in range(50):
            sums.append(float(numpy.from_dlpack(buffer).sum()))
        sums.append(float(numpy.from_dlpack(pending)))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return sums
")$run
    loop <- pjrt_compile(pjrt_program(loop_program(1e6)))
    pending <- pjrt_execute(loop, pjrt_scalar(0, "f64"))
    sums <- run(ones(), pending)
    stopifnot(length(sums) == 204L, sum(sums == 1e5) >= 200L, sums[[204L]] == as_array(pending))
  }),
  `not lent` = quote({
    np <- import("numpy", convert = FALSE)
    ml <- import("ml_dtypes", convert = FALSE)
    message_of <- function(x) conditionMessage(tryCatch(pjrt_buffer(x), pjrt_error = identity))
    stopifnot(
      grepl("x.astype(x.dtype.newbyteorder", message_of(np$array(c(1, 2), dtype = ">f8")), fixed = TRUE),
      grepl("types of ml_dtypes", message_of(np$array(c(1, 2), dtype = ml$bfloat16)), fixed = TRUE),
      grepl("numpy.asarray(x)", message_of(np$float32(1.5)), fixed = TRUE)
    )
  }),
  fork = quote({
    np <- import("numpy", convert = FALSE)
    x <- ones()
    a <- np$from_dlpack(x)
    b <- pjrt_buffer(a, copy = FALSE)
    job <- parallel::mcparallel({
      rm(a, b, x, pos = globalenv())
      gc()
      class(tryCatch(as_dlpack(ones()), error = identity))[[1L]]
    })
    stopifnot(identical(parallel::mccollect(job)[[1L]], "pjrt_error_forked"))
    stopifnot(identical(as_array(b), array(1, 1e5)), as.numeric(py_to_r(a$sum()$item())) == 1e5)
  })
)

short_results <- local({
  results <- NULL
  function() {
    if (is.null(results)) results <<- python_results(short_parts, reticulate_env(c("numpy", "ml_dtypes")))
    results
  }
})

test_that("threads of Python use a buffer while R waits", {
  expect_identical(short_results()[["threads"]], "done")
})

test_that("Python objects that NumPy does not lend say what to do", {
  expect_identical(short_results()[["not lent"]], "done")
})

test_that("a fork leaves shared arrays alone", {
  skip_on_os("windows")
  expect_identical(short_results()[["fork"]], "done")
})

test_that("the session of these parts ends well", {
  expect_identical(attr(short_results(), "status"), 0L)
})
