test_that("pjrt_topology() describes the system of a client", {
  seen <- list()
  for (n in c(1L, 2L, 4L)) {
    client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = n))
    found <- pjrt_topology(client)
    expect_s3_class(found, "PJRTTopology")
    expect_identical(found$platform, "cpu")
    expect_identical(found$platform_version, client_info(client)$platform_version)
    expect_length(found$devices, n)
    for (i in seq_len(n)) {
      facts <- c("id", "kind", "label", "debug", "process_index", "attributes")
      expect_identical(unclass(found$devices[[i]])[facts], unclass(device_info(devices(client)[[i]]))[facts])
    }
    expect_type(found$serialized, "raw")
    expect_identical(pjrt_topology(client), found)
    seen <- c(seen, list(found$serialized))
  }
  expect_length(unique(seen), 3L)
  expect_refused(pjrt_topology(client, "a"), "invalid_input", "has no name and no options")
  expect_refused(pjrt_topology(client, a = 1), "invalid_input", "has no name and no options")
})

test_that("a topology and its devices print one fact per line", {
  found <- pjrt_topology(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 12L)))
  found$serialized <- raw(1000)
  expect_snapshot(found, cran = TRUE)
  expect_snapshot(found$devices[[12L]], cran = TRUE, transform = old_labels)
})

test_that("the CPU plugin refuses topologies without devices", {
  refused <- expect_refused(pjrt_topology("cpu", "1x1x8"), "unimplemented", "not supported by this plugin (cpu)")
  expect_snapshot(cat(conditionMessage(refused)), cran = TRUE)
})

test_that("pjrt_topology() describes devices of other machines", {
  plugin <- topology_plugin()
  found <- pjrt_topology(plugin, "2x4")
  expect_s3_class(found, "PJRTTopology")
  expect_named(found, names(pjrt_topology(pjrt_client("cpu"))))
  expect_identical(found$platform, "abacus")
  expect_identical(vapply(found$devices, `[[`, 0L, "process_index"), rep(0:1, each = 4L))
  expect_identical(rawToChar(found$serialized), "beads 8")
  expect_length(pjrt_topology(plugin)$devices, 1L)
  expect_snapshot(found, cran = TRUE)
  # nothing is left of those that R has collected
  for (i in 1:3) {
    rm(found)
    gc()
    found <- pjrt_topology(plugin, "1x2")
    expect_identical(found$attributes$living, 1L)
  }
})

test_that("options of topologies reach the plugin with their types", {
  plugin <- topology_plugin()
  found <- pjrt_topology(plugin, text = "a text", whole = 2^40, wholes = c(1L, -2L), number = 0.5, flag = FALSE)
  given <- list(text = "a text", whole = 2^40, wholes = c(1L, -2L), number = 0.5, flag = FALSE)
  expect_identical(found$attributes[names(given)], given)
  expect_identical(pjrt_topology(plugin, wholes = I(7))$attributes$wholes, 7L)
})

test_that("bad names and options of topologies are refused", {
  plugin <- topology_plugin()
  expect_refused(pjrt_topology(plugin, 1), "invalid_input", "`name` must be a string")
  expect_refused(pjrt_topology(plugin, NA_character_), "invalid_input", "`name` must be a string")
  expect_refused(pjrt_topology(1), "invalid_input", "Invalid plugin")
  expect_refused(pjrt_topology(plugin, "", 1), "invalid_input", "Topology options must have unique names")
  expect_refused(pjrt_topology(plugin, flag = NA), "invalid_input", "Topology options must be")
  expect_refused(pjrt_topology(plugin, "beads"), "invalid_argument", "not like 2x4")
  expect_refused(pjrt_topology(plugin, other = 1), "invalid_argument", "no such option")
  expect_refused(pjrt_topology(plugin, fails = TRUE), "internal", "The beads are lost.")
  gc()
  expect_identical(pjrt_topology(plugin)$attributes$living, 1L)
  expect_refused(pjrt_topology(topology_plugin("no-create")), "unsupported_call", "PJRT_TopologyDescription_Create")
})

test_that("a program is compiled for absent devices, and loaded where they are", {
  plugin <- load_plugin(hosts_library(), "fake")
  program <- pjrt_program(path = sum_module(FALSE), format = "hlo")
  far <- pjrt_topology(plugin, "far", devices = 4L, processes = 2L)
  options <- pjrt_compile_options(num_replicas = 2L)
  sum <- pjrt_compile(program, options, topology = far)
  expect_s3_class(sum, "PJRTExecutable", exact = TRUE)
  expect_snapshot(sum, cran = TRUE)
  expect_identical(format(sum), "sum(f32[2]) -> f32[2]")
  expect_output(str(sum), "PJRTExecutable sum(f32[2]) -> f32[2]", fixed = TRUE)
  expect_identical(executable_info(sum)$inputs$dtype, "f32")
  expect_identical(executable_info(sum)$outputs$shape, list(2L))
  # the topology lives as long as its description
  rm(far)
  gc()
  expect_identical(unserialize(serialize(sum, NULL)), sum)

  client <- plugin_client_create(plugin, "fake", list(each = 2L, script = "none"))
  pair <- devices(client)
  inputs <- Map(function(x, device) pjrt_buffer(c(x, 1), "f32", device = device), 3:4, pair)
  path <- withr::local_tempfile()
  pjrt_save_executable(sum, path)
  for (loaded in list(
    pjrt_load_executable(path, device = pair), pjrt_deserialize(pjrt_serialize(sum), device = pair),
    pjrt_load_executable(path, device = pair, compile_options = options)
  )) {
    expect_identical(devices(loaded), pair)
    expect_identical(executable_info(loaded)$inputs[1:4], executable_info(sum)$inputs[1:4])
    expect_equal(lapply(pjrt_execute_sharded(loaded, inputs), as_array), list(array(c(7, 2)), array(c(1007, 2))))
  }
  # the system of a client is a topology, too
  own <- pjrt_compile(program, options, topology = pjrt_topology(client))
  restored <- pjrt_deserialize(pjrt_serialize(own), device = pair)
  expect_identical(as_array(pjrt_execute_sharded(restored, inputs)[[2L]]), array(c(1007, 2)))
})

test_that("an executable that is not loaded is refused", {
  plugin <- load_plugin(hosts_library(), "fake")
  sum <- pjrt_compile(pjrt_program(path = sum_module(FALSE), format = "hlo"), topology = pjrt_topology(plugin))
  x <- pjrt_buffer(1:2, "f32")
  refused <- expect_refused(pjrt_execute(sum, x), "invalid_input", "is not loaded")
  expect_snapshot(cat(conditionMessage(refused)), cran = TRUE)
  for (use in list(
    function(x) pjrt_execute_sharded(x, list()), executable_cost, inspect_hlo, pjrt_benchmark, pjrt_function, pjrt_step,
    function(exe) pjrt_unshard(list(x), executable = exe)
  )) {
    expect_refused(use(sum), "invalid_input", "is not loaded: it was compiled for a topology")
  }
  program <- pjrt_program(path = sum_module(FALSE), format = "hlo")
  expect_refused(
    pjrt_function(program, topology = pjrt_topology(plugin)), "invalid_input", "The executable is not loaded"
  )
  known <- c("name", "inputs", "outputs", "num_replicas", "num_partitions")
  expect_named(executable_info(sum), known)
  expect_output(print(executable_info(sum)), "<PJRTExecutable>", fixed = TRUE)
  damaged <- sum
  damaged$bytes <- rev(sum$bytes)
  expect_refused(pjrt_save_executable(damaged, tempfile()), "serialized_invalid", "not a serialized executable")
  damaged$bytes <- 1
  for (use in list(print, format, pjrt_serialize, executable_info, function(x) pjrt_save_executable(x, tempfile()))) {
    expect_refused(use(damaged), "invalid_input", "its parts were changed")
  }
})

test_that("older CPU plugins compile nothing for a topology", {
  add <- pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
  compile <- function() pjrt_compile(add, topology = pjrt_topology(pjrt_client("cpu")))
  if (plugin_api(115)) {
    expect_s3_class(compile(), "PJRTExecutable")
  } else {
    refused <- expect_refused(compile(), "unimplemented", "Compiling for a topology is not supported by this plugin")
    expect_match(conditionMessage(refused), "No compiler (registered|factory)")
    expect_match(conditionMessage(refused), "Compile the program where the devices are")
  }
})

test_that("what cannot be compiled for a topology is refused", {
  plugin <- load_plugin(hosts_library(), "fake")
  program <- pjrt_program(path = sum_module(FALSE), format = "hlo")
  far <- pjrt_topology(plugin, "far", devices = 2L)
  expect_refused(pjrt_compile(program, topology = "far"), "invalid_input", "`topology` must be a `PJRTTopology`")
  expect_refused(
    pjrt_compile(program, topology = structure(list(platform = "", devices = list()), class = class(far))),
    "invalid_input",
    "this package did not make it"
  )
  expect_refused(
    pjrt_compile(program, topology = unserialize(serialize(far, NULL))), "invalid_pointer", "does not survive saving"
  )
  wide <- pjrt_program(all_reduce_program("2xf64", 2))
  needed <- "collective operations need 2 devices, but it is compiled for 1"
  expect_refused(pjrt_compile(wide, topology = far), "invalid_input", needed)
  expect_refused(pjrt_compile(program, device = "cpu", topology = far), "invalid_input", "`topology` has the devices")
  expect_refused(
    pjrt_compile(program, devices = list("cpu"), topology = far), "invalid_input", "`topology` has the devices"
  )
  three <- pjrt_compile_options(num_replicas = 3L)
  expect_refused(
    pjrt_compile(program, three, topology = far), "invalid_input", "needs 3 devices, but the topology has 2."
  )
  other <- pjrt_compile_options(device_assignment = 9L)
  expect_refused(
    pjrt_compile(program, other, topology = far), "invalid_input", "no device of the topology has. Device ids: 0, 1."
  )
  expect_refused(
    pjrt_compile(program, topology = pjrt_topology(plugin, "broken")), "invalid_argument",
    "The program is not for this topology."
  )
  expect_refused(pjrt_compile(program, topology = pjrt_topology(topology_plugin())), "unimplemented", "not supported")

  add <- pjrt_program(path = system.file("programs", "add-2x2.mlir", package = "pjrt"))
  closed <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = 1L))
  gone <- pjrt_topology(closed)
  close(closed)
  expect_refused(pjrt_compile(add, topology = gone), "client_closed", "closed")
})
