# The plugin that throws C++ exceptions on demand, see fixtures/throwing-plugin.cpp.
throwing_library <- local({
  built <- NULL
  function() {
    if (is.null(built)) built <<- build_library(test_path("fixtures", "throwing-plugin.cpp"))
    built
  }
})

# Runs code in a child with this plugin as its CPU plugin, which compiles in R's process.
run_throwing <- function(...) end_child(start_throwing(...))

start_throwing <- function(code, env = character(), helpers = character()) {
  code <- bquote({
    options(pjrt.compile = "inside")
    .(code)
  })
  plugin <- c(
    PJRT_PLUGIN_PATH_CPU = throwing_library(), PJRT_REAL_PLUGIN = real_plugin(), PJRT_CPU_DEVICE_COUNT = "2",
    PJRT_CACHE = "0", PJRT_DISCOVER = "0"
  )
  start_child(code, c(plugin, env), c("programs", "throwing-plugin", helpers))
}

# A program that contains a word that the plugin looks for.
worded_program <- function(word) pjrt_program(paste0("module @", word, " {", unary_program("3xf32"), "}"))

# The class of the error that the code raises, or "fine".
class_of <- function(code) tryCatch({
  code
  "fine"
}, error = function(e) class(e)[[1L]])
