# Bad input to functions for plugins, clients, devices and memory spaces. helper-bad-input.R explains the rows.
# Slow: tries every bad value.

rows <- list(
  as.character.PJRTClient = row(x = "client"),
  as.character.PJRTDevice = row(x = "one_device"),
  as.character.PJRTMemory = row(x = "memory"),
  as_pjrt_client = row(x = "client"),
  as_pjrt_device = row(x = "known_device"),
  as_pjrt_plugin = row(x = "plugin"),
  client_info = row(x = "client"),
  close.PJRTClient = row(con = of("ended", pjrt:::new_client(plugin, list(cpu_device_count = 1L)), "a closed client")),
  device_info = row(device = "known_device"),
  devices = row(x = of("client", client, "an executable", "a closed executable")),
  devices.PJRTClient = row(x = "client", addressable = "flag"),
  format.PJRTClient = row(x = of("client", client, of_files("PJRTClient"))),
  format.PJRTDevice = row(x = of("one_device", here, of_files("PJRTDevice"))),
  format.PJRTInfo = row(x = of("printed", device_info(here), "a list as PJRTInfo")),
  format.PJRTMemory = row(x = of("memory", memory, of_files("PJRTMemory"))),
  memory_spaces = row(x = of("client", client, "a device", "a closed device")),
  summary.PJRTMemory = row(object = "memory"),
  pjrt_client = row(platform = of("name", "cpu", "NULL"), distributed = of("none", NULL, "NULL")),
  pjrt_distributed = row(
    rank = of("index", 0, "0L"), size = of("index", 1, "1L", "integer64"), store = of("none", "redis://h"),
    local = of("index", 0, "NULL", "0L", "1L", "integer64"), job = of("string", "j", "!\"\""),
    timeout = of("index", 1, "integer64", "1L", "1.5", "1e-300")
  ),
  format.PJRTDistributed = row(x = of("printed", pjrt_distributed(0, 1, "redis://h", job = "j"))),
  print.PJRTDistributed = row(x = of("printed", pjrt_distributed(0, 1, "redis://h", job = "j"))),
  pjrt_device = row(device = "one_device"),
  pjrt_memory_stats = row(),
  format.PJRTMemoryStats = row(x = of("printed", pjrt_memory_stats())),
  print.PJRTMemoryStats = row(x = of("printed", pjrt_memory_stats())),
  plot.PJRTMemoryStats = row(
    x = of("printed", pjrt_memory_stats()), main = of("string", "title"), after = grDevices::graphics.off()
  ),
  pjrt_plugin = row(platform = "name"),
  pjrt_plugins = row(),
  platform = row(x = of("client", client, "!NULL", "a device", "a closed device", "a buffer", used_buffers)),
  platform.PJRTClient = row(x = "client"),
  platform.PJRTDevice = row(x = "one_device"),
  plugin_attributes = row(plugin = "plugin"),
  plugin_client_create = row(
    plugin = "plugin", platform = of("name", "fresh", platforms), options = of("list", list(), "NULL", "list()"),
    after = close(made)
  ),
  plugin_info = row(plugin = "plugin"),
  print.PJRTClient = row(x = of("client", client, of_files("PJRTClient"))),
  print.PJRTDevice = row(x = of("one_device", here, of_files("PJRTDevice"))),
  print.PJRTInfo = row(x = of("printed", device_info(here), "a list as PJRTInfo")),
  print.PJRTMemory = row(x = of("memory", memory, of_files("PJRTMemory"))),
  print.PJRTPlugin = row(x = of("any", plugin)),
  format.PJRTPlugin = row(x = of("any", plugin)),
  all.equal.PJRTClient = row(target = of("any", client), current = "any"),
  str.PJRTClient = row(object = "shown"),
  all.equal.PJRTDevice = row(target = of("any", here), current = "any"),
  str.PJRTDevice = row(object = "shown"),
  all.equal.PJRTMemory = row(target = of("any", memory), current = "any"),
  str.PJRTMemory = row(object = "shown"),
  all.equal.PJRTPlugin = row(target = of("any", plugin), current = "any"),
  str.PJRTPlugin = row(object = "any"),
  pjrt_topology = row(x = "plugin", name = of("string", "", "\"\"")),
  `==.PJRTDevice` = row(e1 = "one_device", e2 = of("compared", there)),
  `!=.PJRTDevice` = row(e1 = "one_device", e2 = of("compared", there)),
  `==.PJRTMemory` = row(e1 = of("any", memory), e2 = of("compared", memory)),
  `!=.PJRTMemory` = row(e1 = of("any", memory), e2 = of("compared", memory))
)

# Bad values inside an argument or an option; `.` in the name stands for the value.
uses <- list(
  `plugin_client_create(options = list(cpu_device_count = .))` = use(
    plugin_client_create(plugin, "fresh", list(cpu_device_count = bad)), of("index", NULL, "1L", "integer64"),
    after = close(made)
  ),
  `plugin_client_create(options = list(threads = .))` = use(
    plugin_client_create(plugin, "fresh", list(threads = bad)), of("index", NULL, "1L", "integer64"),
    after = close(made)
  ),
  `pjrt_client("cpu", cpu_device_count = .)` = use(pjrt_client("cpu", cpu_device_count = bad), "none")
)

test_that("functions of plugins, clients and devices refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 2900)
  expect_snapshot(cat(refusals(tried)))
})
