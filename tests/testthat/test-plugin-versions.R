# Plugins of other versions and malformed plugins, all played by a fake plugin.

test_that("attributes of every type are read exactly", {
  attributes <- plugin_attributes(fake_plugin())
  expect_identical(attributes$text, "a text")
  expect_identical(attributes$counted_end, "text")
  expect_identical(attributes$no_text, "")
  expect_identical(attributes$integer, -7L)
  expect_identical(attributes$large, 5e9)
  expect_bits(attributes$exact, int64("9007199254740993", NULL))
  expect_identical(attributes$least, -2^63)
  expect_identical(attributes$integers, c(1L, -2L, 3L))
  expect_identical(attributes$many, c(5e9, -1))
  expect_bits(attributes$exact_ones, int64(c("9007199254740993", "1"), NULL))
  expect_identical(attributes$no_integers, integer())
  expect_identical(attributes$number, 0.25)
  expect_identical(attributes$flag, TRUE)
  expect_identical(attributes$unknown, NA)
})

test_that("large attributes print exactly", {
  child <- run_child(
    quote(print(plugin_attributes("fake")$exact)),
    env = c(PJRT_PLUGIN_PATH_FAKE = fake_library())
  )
  expect_clean(child, c("integer64", "[1] 9007199254740993"))
})

test_that("plugin_info()$api_version returns the plugin's API version", {
  version <- plugin_info("cpu")$api_version
  expect_named(version, c("major", "minor"))
  expect_identical(version$major, 0L)
  expect_gt(version$minor, 50L)
  expect_identical(plugin_info(fake_plugin("newer"))$api_version, list(major = 0L, minor = 200L))
  expect_refused(plugin_info(1)$api_version, "invalid_input", "Invalid plugin")
})

test_that("extensions are listed with their names if known", {
  extensions <- plugin_info(fake_plugin())$extensions
  expect_identical(extensions, data.frame(name = c("FFI", NA), type = c(5, 777), size = c(64, 24)))
  expect_identical(nrow(plugin_info(fake_plugin("no-extensions"))$extensions), 0L)
  for (oddity in c("cyclic-extensions", "short-extension", "crooked-extensions")) {
    expect_identical(plugin_info(fake_plugin(oddity))$extensions, extensions)
  }
  expect_true(all(c("FFI", "Layouts") %in% plugin_info("cpu")$extensions$name))
})

test_that("StableHLO versions of a plugin can be compared", {
  versions <- plugin_info("cpu")$stablehlo_versions
  expect_named(versions, c("minimum", "current"))
  expect_identical(format(versions$current), paste(plugin_attributes("cpu")$stablehlo_current_version, collapse = "."))
  expect_true(versions$minimum < "1.0.0" && versions$current > "1.0.0")
  expect_null(plugin_info(fake_plugin())$stablehlo_versions)
})

test_that("older and newer plugins work with the calls that they provide", {
  create <- function(oddity) plugin_client_create(fake_plugin(oddity), "fake")
  expect_refused(create("older"), "unsupported_call", "(PJRT API 0.40) has no PJRT_Client_Create")
  expect_refused(create("no-client-create"), "unsupported_call", "omits it")
  expect_refused(create("none"), "failed_precondition", "There is no device.")
  # this plugin has larger argument structs
  expect_refused(create("newer"), "failed_precondition", "There is no device.")
  expect_refused(fake_plugin("much-newer"), "invalid_argument", "0.200, is too new for this package")
})

test_that("an invalid table of functions is refused", {
  cases <- c(
    null = "returned no function table", major = "PJRT API 1.90", truncated = "truncated (56 bytes)",
    empty = "truncated (0 bytes)", "only-size" = "truncated (8 bytes)", huge = "claims an impossible size",
    crooked = "is not a function table"
  )
  for (oddity in names(cases)) {
    expect_refused(fake_plugin(oddity), "plugin_invalid", cases[[oddity]])
  }
})

test_that("a plugin that fails to initialize raises its own error", {
  error <- expect_refused(fake_plugin("initialize-fails"), "unavailable", "The device sleeps.")
  expect_identical(error$code, 14L)
  expect_identical(error$call_name, "PJRT_Plugin_Initialize")
  expect_refused(fake_plugin("silent"), "internal", "without an error message")
  expect_refused(fake_plugin("strange-code"), "unknown", "What is this?")
  expect_refused(fake_plugin("error-in-error"), "unknown", "The device sleeps.")
  expect_refused(fake_plugin("no-error-calls"), "unknown", "without an error message")
  for (oddity in c("no-setup", "attributes-fail", "null-attributes")) {
    expect_length(plugin_attributes(fake_plugin(oddity)), 0L)
  }
})

test_that("no malformed plugin ends the session", {
  oddities <- c(
    "older", "newer", "much-newer", "null", "major", "truncated", "empty", "only-size", "huge", "crooked", "no-setup",
    "no-client-create", "no-error-calls", "error-in-error", "cyclic-extensions", "short-extension", "crooked-extensions"
  )
  code <- quote({
    for (i in seq_along(oddities)) {
      do.call(Sys.setenv, stats::setNames(list(oddities[[i]], libraries[[i]]), c("PJRT_FAKE", "PJRT_PLUGIN_PATH_FAKE")))
      try(pjrt_client("fake"), silent = TRUE)
      try(plugin_info("fake")$extensions, silent = TRUE)
      rm(list = intersect("fake", names(pjrt:::the$plugins)), envir = pjrt:::the$plugins)
    }
    cat("done\n")
  })
  libraries <- vapply(oddities, function(oddity) fake_library(), "")
  code <- bquote({
    oddities <- .(oddities)
    libraries <- .(unname(libraries))
    .(code)
  })
  expect_clean(run_child(code), "done")
})

test_that("files that are not libraries for this machine are refused", {
  load <- function(bytes) {
    file <- withr::local_tempfile(fileext = ".so")
    writeBin(bytes, file)
    load_plugin(file, "fake")
  }
  library <- fake_library()
  whole <- readBin(library, raw(), file.size(library))
  for (length in c(1, 20, 100, 5000, length(whole) - 1)) {
    expect_refused(load(whole[seq_len(length)]), "plugin_invalid")
  }
  expect_refused(load(whole[seq_len(5000)]), "plugin_invalid", "Download or copy it again")
  expect_refused(load(raw()), "plugin_invalid", "it is empty")
  expect_refused(load(charToRaw("<html>404</html>")), "plugin_invalid", "it is an HTML page, not the file itself")
  expect_refused(load_plugin(tempdir(), "fake"), "plugin_invalid", "it is a folder")
  skip_if_not(identical(whole[1:4], as.raw(c(0x7f, 0x45, 0x4c, 0x46))), "the library is an ELF file")
  other <- whole
  other[19:20] <- as.raw(c(8, 0))
  expect_refused(load(other), "plugin_invalid", "processor number 8, this is")
  whole[[17]] <- as.raw(1)
  expect_refused(load(whole), "plugin_invalid", "not linked")
})

test_that("an operation without an older form raises an error that names it", {
  current <- plugin_info("cpu")$stablehlo_versions$current
  skip_if(current >= "1.15.0", "the plugin reads what this program needs")
  newer <- pjrt_program(r"(func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = "stablehlo.collective_reduce"(%x) <{replica_groups = dense<0> : tensor<1x1xi64>}> ({
      ^bb0(%y: tensor<f32>, %z: tensor<f32>):
        %1 = stablehlo.add %y, %z : tensor<f32>
        stablehlo.return %1 : tensor<f32>
    }) : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  })")
  expect_refused(pjrt_compile(newer), "program_version", paste0(
    "The plugin reads StableHLO up to version ", format(current),
    ", which has no `stablehlo.collective_reduce` in function `main`."
  ))
})

test_that("a newer program with an older form runs, as an artifact, bytecode and text", {
  newer <- lapply(c("newer.artifact", "newer.mlirbc"), function(name) pjrt_program(path = test_path("fixtures", name)))
  for (program in c(newer, list(pjrt_program(as.character(newer[[1L]]))))) {
    expect_equal(c(as_array(pjrt_execute(pjrt_compile(program), pjrt_buffer(1:4, "f32")))), 1:4)
  }
})

test_that("a program of a newer version that uses no new features compiles", {
  code <- readBin(test_path("fixtures", "square.artifact"), raw(), 10000)
  # byte 18 is the first digit of "StableHLO_v1.0.0"
  code[[18]] <- charToRaw("9")
  square <- pjrt_compile(pjrt_program(code))
  expect_equal(as_array(pjrt_execute(square, pjrt_buffer(matrix(3, 2, 2), "f32"))), matrix(9, 2, 2))
})
