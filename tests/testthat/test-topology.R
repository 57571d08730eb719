test_that("topology() describes the system of a client", {
  seen <- list()
  for (n in c(1L, 2L, 4L)) {
    client <- new_client(pjrt_plugin("cpu"), list(cpu_device_count = n))
    found <- topology(client)
    expect_s3_class(found, "PJRTTopology")
    expect_identical(found$platform, "cpu")
    expect_identical(found$platform_version, platform_version(client))
    expect_length(found$devices, n)
    for (i in seq_len(n)) {
      facts <- c("id", "kind", "label", "debug", "process_index", "attributes")
      expect_identical(unclass(found$devices[[i]])[facts], unclass(device_info(devices(client)[[i]]))[facts])
    }
    expect_type(found$serialized, "raw")
    expect_identical(topology(client), found)
    seen <- c(seen, list(found$serialized))
  }
  expect_length(unique(seen), 3L)
  expect_identical(topology(), topology("cpu"))
  expect_refused(topology(1), "invalid_input", "Must be a PJRTClient or a platform name")
})

test_that("a topology and its devices print one fact per line", {
  found <- topology(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 12L)))
  found$serialized <- raw(1000)
  expect_snapshot(found, cran = TRUE)
  expect_snapshot(found$devices[[12L]], cran = TRUE)
})

test_that("the CPU plugin refuses topologies without devices", {
  refused <- expect_refused(pjrt_topology("cpu", "1x1x8"), "unimplemented", "not supported by this plugin (cpu)")
  expect_snapshot(cat(conditionMessage(refused)), cran = TRUE)
})

test_that("pjrt_topology() describes devices of other machines", {
  plugin <- topology_plugin()
  found <- pjrt_topology(plugin, "2x4")
  expect_s3_class(found, "PJRTTopology")
  expect_named(found, names(topology("cpu")))
  expect_identical(found$platform, "abacus")
  expect_identical(vapply(found$devices, `[[`, 0L, "process_index"), rep(0:1, each = 4L))
  expect_identical(rawToChar(found$serialized), "beads 8")
  expect_length(pjrt_topology(plugin)$devices, 1L)
  expect_snapshot(found, cran = TRUE)
  # nothing is left of those before
  for (i in 1:3) expect_identical(pjrt_topology(plugin, "1x2")$attributes$living, 1L)
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
  expect_identical(pjrt_topology(plugin)$attributes$living, 1L)
  expect_refused(pjrt_topology(topology_plugin("no-create")), "unsupported_call", "PJRT_TopologyDescription_Create")
})
