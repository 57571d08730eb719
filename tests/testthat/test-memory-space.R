test_that("memory_space() returns a buffer's memory space", {
  space <- memory_space(pjrt_scalar(1))
  expect_identical(class(space), "PJRTMemory")
  expect_identical(as.character(space), "device")
  expect_identical(format(space), "device")
  expect_identical(space, device_info("cpu:0")$default_memory_space)
  expect_snapshot(space, cran = TRUE)
  expect_refused(memory_space(1), "invalid_pointer", "PJRTBuffer")
})

test_that("each device has its own memory spaces, each always the same R object", {
  for (n in c(1L, 2L, 4L)) {
    client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = n))
    all <- memory_spaces(client)
    own <- lapply(devices(client), memory_spaces)
    expect_identical(do.call(c, own), all)
    expect_identical(length(unique(vapply(all, function(x) summary(x)$id, 1L))), length(all))
    for (i in seq_len(n)) {
      expect_identical(vapply(own[[i]], as.character, ""), c("device", "pinned_host", "unpinned_host"))
      expect_identical(device_info(devices(client)[[i]])$default_memory_space, own[[i]][[1L]])
      for (space in own[[i]]) expect_identical(summary(space)$devices, devices(client)[i])
    }
  }
  expect_identical(memory_spaces(), memory_spaces("cpu:0"))
  expect_identical(memory_spaces("cpu"), memory_spaces("cpu:0"))
  expect_identical(device_info()$default_memory_space, device_info("cpu:0")$default_memory_space)
  expect_refused(memory_spaces(1), "invalid_input", "Must be a PJRTDevice")
  expect_refused(device_info(1), "invalid_input", "Must be a PJRTDevice")
})

test_that("== compares memory spaces and returns FALSE for other objects", {
  spaces <- memory_spaces("cpu:0")
  expect_true(spaces[[1L]] == device_info("cpu:0")$default_memory_space)
  expect_false(spaces[[1L]] == spaces[[2L]])
  expect_true(spaces[[1L]] != memory_spaces("cpu:1")[[1L]])
  expect_false(spaces[[1L]] != spaces[[1L]])
  expect_false(spaces[[1L]] == "device")
  other <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = 2L))
  expect_false(spaces[[1L]] == memory_spaces(other)[[1L]])
})

test_that("summary() describes a memory space", {
  space <- memory_spaces(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 2L)))[[5L]]
  info <- summary(space)
  expect_s3_class(info, "PJRTMemorySpaceInfo")
  expect_identical(info$kind, "pinned_host")
  expect_type(info$id, "integer")
  expect_snapshot(info, cran = TRUE)
  expect_refused(summary(space, 1), "invalid_input", "Unused arguments")
  saved <- unserialize(serialize(space, NULL))
  expect_refused(summary(saved), "invalid_pointer", "saving and loading")
})

test_that("buffers can be copied to every memory space of every device and back", {
  for (n in c(1L, 2L, 4L)) {
    client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = n))
    values <- matrix(rnorm(600), 20)
    x <- pjrt_buffer(values, "f64", device = devices(client)[[1L]])
    for (space in memory_spaces(client)) {
      copy <- copy_buffer(x, space)
      expect_identical(memory_space(copy), space)
      expect_identical(list(device(copy)), summary(space)$devices)
      expect_identical(as_array(copy), values)
      back <- copy_buffer(copy, device_info(x_device <- device(x))$default_memory_space)
      expect_identical(device(back), x_device)
      expect_identical(memory_space(back), device_info(x_device)$default_memory_space)
      expect_identical(as_array(back), values)
    }
  }
})

test_that("copying a buffer to its own memory space returns the buffer", {
  x <- pjrt_buffer(1:3)
  expect_identical(copy_buffer(x, device_info("cpu:0")$default_memory_space), x)
  host <- copy_buffer(x, memory_spaces("cpu:0")[[2L]])
  expect_false(identical(host, x))
  expect_identical(copy_buffer(host, memory_space(host)), host)
})

test_that("programs accept buffers in any memory space", {
  host <- copy_buffer(pjrt_buffer(c(1, 2)), memory_spaces("cpu:0")[[3L]])
  out <- pjrt_execute(compile(add_program("2xf32")), host, pjrt_buffer(c(3, 4)))
  expect_identical(as_array(out), array(c(4, 6)))
  expect_identical(memory_space(out), device_info("cpu:0")$default_memory_space)
})

test_that("buffers can be copied to memory spaces of another client", {
  other <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = 1L))
  x <- pjrt_buffer(matrix(1:6, 2))
  for (space in memory_spaces(other)) {
    copy <- copy_buffer(x, space)
    expect_identical(memory_space(copy), space)
    expect_identical(device(copy), devices(other)[[1L]])
    expect_identical(as_array(copy), matrix(1:6, 2))
  }
})

test_that("copying a pending buffer returns at once with its memory space", {
  slow <- compile(loop_program(1e7))
  x <- pjrt_execute(slow, pjrt_scalar(1, "f64"))
  host <- memory_spaces("cpu:0")[[2L]]
  far <- memory_spaces("cpu:1")[[3L]]
  copy <- copy_buffer(x, host)
  further <- copy_buffer(copy, far)
  same <- copy_buffer(copy, host)
  stays <- copy_buffer(x, device_info("cpu:0")$default_memory_space)
  spaces <- list(memory_space(copy), memory_space(further), memory_space(x))
  expect_false(is_ready(x))
  expect_false(is_ready(further))
  expect_identical(spaces, list(host, far, device_info("cpu:0")$default_memory_space))
  expect_identical(same, copy)
  expect_identical(stays, x)
  expect_identical(device(further), devices("cpu")[[2L]])
  expect_identical(as_array(further), 2)
  expect_identical(as_array(copy), 2)
  expect_identical(memory_space(copy), host)
  expect_identical(memory_space(x), device_info("cpu:0")$default_memory_space)
})

test_that("copying refuses donated buffers and invalid memory spaces", {
  x <- pjrt_buffer(c(1, 2))
  pjrt_execute(compile(add_program("2xf32", donates)), x, pjrt_buffer(c(1, 2)))
  expect_refused(copy_buffer(x, memory_spaces("cpu:0")[[2L]]), "deleted_buffer", "called on deleted or donated buffer")
  expect_refused(memory_space(x), "deleted_buffer", "called on deleted or donated buffer")
  expect_refused(copy_buffer(1, memory_spaces("cpu:0")[[2L]]), "invalid_pointer", "`buffer` must be a `PJRTBuffer`")
  saved <- unserialize(serialize(memory_spaces("cpu:0")[[2L]], NULL))
  expect_refused(copy_buffer(pjrt_scalar(1), saved), "invalid_pointer", "saving and loading")
})

test_that("a device without an allocator of its own has no memory statistics", {
  info <- device_info("cpu:1")
  expect_true("memory" %in% names(info))
  expect_null(info$memory)
})
