# The handlers of fixtures/handlers.c, as external pointers by name. Children get the library from their parent.
handlers <- local({
  loaded <- NULL
  function() {
    path <- Sys.getenv("PJRT_TEST_HANDLERS")
    if (is.null(loaded)) loaded <<- load_handlers(if (nzchar(path)) path else build_handlers("handlers.c"))
    loaded
  }
})

# Builds a library of a file in fixtures/ with handlers, and returns its path.
build_handlers <- function(source) {
  withr::local_envvar(PKG_CPPFLAGS = paste0("-I", shQuote(system.file("include", package = "pjrt"))))
  build_library(test_path("fixtures", source))
}

# Loads a library with handlers. Returns a function that finds a handler by name.
load_handlers <- function(path) {
  loaded <- dyn.load(path)
  structure(function(name) getNativeSymbolInfo(name, loaded)$address, path = path)
}

# A program that returns its input after `seconds`, without work for the processor, which others can use meanwhile.
# Children need the helpers "custom-calls".
waiting_program <- function(seconds = 1e9) {
  pjrt_register_custom_call("test_waits", list(host = handlers()("waits")), .package = "test waits")
  calling_program("test_waits", sprintf("seconds = %.0f : i64", seconds), "f64")
}

# The variable with which children find the library of the handlers.
handlers_env <- function() c(PJRT_TEST_HANDLERS = attr(handlers(), "path"))

# Registers a handler of fixtures/handlers.c until the end of the test.
local_handler <- function(target, handler = "copies", env = parent.frame()) {
  pjrt_register_custom_call(target, list(host = handlers()(handler)), .package = "test handlers")
  withr::defer(pjrt:::pjrt_unregister_custom_calls("test handlers"), env)
}

# A program that calls `target` with its input.
calling_program <- function(target, attributes = "", type = "4xf32") {
  sprintf('func.func @main(%%x: tensor<%s>) -> tensor<%s> {
  %%y = stablehlo.custom_call @"%s"(%%x) {api_version = 4 : i32, backend_config = {%s}} : (tensor<%s>) -> tensor<%s>
  return %%y : tensor<%s>
}', type, type, target, attributes, type, type, type)
}

# A program that prints its input and returns it.
printing_program <- function(type = "4xf32", attributes = "") {
  sprintf('func.func @main(%%x: tensor<%s>) -> tensor<%s> {
  stablehlo.custom_call @print_tensor(%%x) {
    api_version = 4 : i32, has_side_effect = true, backend_config = {%s}
  } : (tensor<%s>) -> ()
  return %%x : tensor<%s>
}', type, type, attributes, type, type)
}

# Runs a program on 1, 2, 3, 4.
run_on_four <- function(executable) as.vector(as_array(pjrt_execute(executable, pjrt_buffer(c(1, 2, 3, 4)))))
