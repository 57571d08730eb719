# Nested lists in safetensors files.

saved_names <- function(...) safetensors_info(pjrt_save_safetensors(...))$name

new_path <- function(env = parent.frame()) {
  file.path(withr::local_tempdir(.local_envir = env), "model.safetensors")
}

# A nested list like the state of a training.
training_state <- function() {
  list(
    params = list(dense = list(w = pjrt_buffer(matrix(1:6, 2)), b = pjrt_buffer(1:3)), scale = pjrt_scalar(2)),
    opt_state = list(list(count = pjrt_scalar(5L), mu = list(pjrt_scalar(0.5), pjrt_scalar(1))), list(), NULL),
    key = pjrt_buffer(c(0, 42), "ui32")
  )
}

state_names <- c(
  "params.dense.w", "params.dense.b", "params.scale", "opt_state.0.count", "opt_state.0.mu.0", "opt_state.0.mu.1", "key"
)

test_that("nested lists are saved under joined names, and elements without names are numbered from 0", {
  path <- new_path()
  state <- training_state()
  expect_identical(saved_names(state, path), state_names)
  expect_identical(saved_names(state, path, separator = "/"), gsub(".", "/", state_names, fixed = TRUE))
  layers <- list(h = lapply(0:10, pjrt_scalar), a.b = pjrt_scalar(1))
  expect_identical(saved_names(layers, path), c(paste0("h.", 0:10), "a.b"))
  expect_identical(saved_names(list(a = list(pjrt_scalar(1), b = pjrt_scalar(2))), path), c("a.0", "a.b"))
  expect_identical(saved_names(list(a = NULL, b = list(), c = list(NULL)), path), character())
})

test_that("a list of the same structure restores everything", {
  path <- new_path()
  state <- training_state()
  for (separator in c(".", "/", "::")) {
    for (size in list(NULL, 20)) {
      pjrt_save_safetensors(state, path, c(epoch = "3"), max_shard_size = size, separator = separator)
      loaded <- pjrt_load_safetensors(path, like = training_state(), separator = separator)
      expect_identical(attr(loaded, "metadata"), c(epoch = "3"))
      attr(loaded, "metadata") <- NULL
      expect_identical(map_tree(loaded, as_array), map_tree(state, as_array))
    }
  }
  pjrt_save_safetensors(state, path)
  expect_named(pjrt_load_safetensors(path, like = state, separator = NULL), names(state))
  # the arrays of `like` do not matter, and its metadata are not kept
  pjrt_save_safetensors(state, path)
  like <- structure(map_tree(state, function(leaf) NA), metadata = c(old = "1"))
  expect_identical(map_tree(pjrt_load_safetensors(path, like = like), as_array), map_tree(state, as_array))
})

test_that("names become nested lists", {
  path <- new_path()
  state <- training_state()
  pjrt_save_safetensors(state, path)
  loaded <- pjrt_load_safetensors(path, separator = ".")
  # files contain no empty lists
  state$opt_state <- state$opt_state[1L]
  expect_identical(map_tree(loaded, as_array), map_tree(state, as_array))
  expect_named(pjrt_load_safetensors(path), state_names)
  chosen <- pjrt_load_safetensors(path, names = c("params.scale", "params.dense.b"), separator = ".")
  expect_identical(map_tree(chosen, as_array), list(params = list(scale = 2, dense = list(b = array(1:3)))))
  expect_named(pjrt_load_safetensors(path, separator = "/"), state_names)
  # the order of a file does not matter, nor do gaps
  tensors <- stats::setNames(lapply(1:4, pjrt_scalar), c("h.1", "h.0", "g.0", "g.2"))
  pjrt_save_safetensors(tensors, path)
  numbered <- pjrt_load_safetensors(path, separator = ".")
  expect_identical(map_tree(numbered, as_array), list(h = list(2L, 1L), g = list(`0` = 3L, `2` = 4L)))
  pjrt_save_safetensors(list(a.b = pjrt_scalar(1), a = pjrt_scalar(2)), path)
  expect_refused(
    pjrt_load_safetensors(path, separator = "."), "invalid_input",
    "\"a\" would be both an array and a list with \"a.b\""
  )
  expect_named(pjrt_load_safetensors(path, separator = "/"), c("a.b", "a"))
})

test_that("missing and superfluous tensors are named", {
  path <- new_path()
  state <- training_state()
  pjrt_save_safetensors(state, path)
  like <- state
  names(like$params$dense)[[1L]] <- "weight"
  error <- expect_refused(
    pjrt_load_safetensors(path, like = like), "invalid_input", "There is no tensor \"params.dense.weight\"."
  )
  expect_match(
    conditionMessage(error), "The file has 7 tensors: \"params.dense.w\", \"params.dense.b\", ", fixed = TRUE
  )
  error <- expect_refused(
    pjrt_load_safetensors(path, like = state["params"]), "invalid_input",
    "The file has 4 tensors that `like` does not have: \"opt_state.0.count\", "
  )
  expect_match(conditionMessage(error), "`extra = \"ignore\"` leaves them out.", fixed = TRUE)
  loaded <- pjrt_load_safetensors(path, like = state["params"], extra = "ignore")
  expect_identical(map_tree(loaded, as_array), map_tree(state["params"], as_array))
  expect_identical(pjrt_load_safetensors(path, like = list(a = list()), extra = "ignore"), list(a = list()))
  expect_refused(
    pjrt_load_safetensors(path, like = like, extra = "ignore"), "invalid_input", "There is no tensor"
  )
  expect_refused(pjrt_load_safetensors(path, like = list()), "invalid_input", "The file has 7 tensors that `like`")
})

test_that("names are translated in both directions", {
  path <- new_path()
  params <- list(layers = list(list(kernel = pjrt_buffer(1:2), bias = pjrt_scalar(3L))))
  to_file <- function(names) paste0("model.", sub("kernel", "weight", names))
  expect_identical(saved_names(params, path, rename = to_file), c("model.layers.0.weight", "model.layers.0.bias"))
  from_file <- function(names) sub("weight", "kernel", sub("^model[.]", "", names))
  for (loaded in list(
    pjrt_load_safetensors(path, rename = from_file, separator = "."),
    pjrt_load_safetensors(path, rename = from_file, like = params)
  )) {
    expect_identical(map_tree(loaded, as_array), map_tree(params, as_array))
  }
  expect_named(pjrt_load_safetensors(path, names = "layers.0.kernel", rename = from_file), "layers.0.kernel")
  error <- expect_refused(
    pjrt_load_safetensors(path, rename = function(names) rep("a", 2)), "invalid_input",
    "`rename` returns the name \"a\" for `model.layers.0.weight`, `model.layers.0.bias`."
  )
  expect_refused(pjrt_load_safetensors(path, rename = toupper, names = "x"), "invalid_input", "\"MODEL.LAYERS.0.BIAS\"")
  for (rename in list(function(names) 1, function(names) names[1], function(names) NA_character_, 1)) {
    expect_refused(pjrt_load_safetensors(path, rename = rename), "invalid_input", "`rename` must")
    expect_refused(pjrt_save_safetensors(params, path, rename = rename), "invalid_input", "`rename` must")
  }
})

test_that("arguments that make no sense are refused", {
  path <- new_path()
  state <- training_state()
  pjrt_save_safetensors(state, path)
  refused <- function(message, ...) expect_refused(pjrt_load_safetensors(path, ...), "invalid_input", message)
  refused("`names` and `like` must not both be given", names = "key", like = state)
  refused("`like` must be a nested list", like = pjrt_scalar(1))
  refused("`like` must be a nested list", like = 1)
  refused("`extra` must be one of", extra = "keep")
  refused("`separator` must be one non-empty string", separator = "")
  refused("must not be NA", like = stats::setNames(list(1), NA))
  deep <- pjrt_scalar(1)
  for (i in 1:10001) deep <- list(a = deep)
  refused("nested too deep", like = deep)
  expect_refused(pjrt_save_safetensors(deep, path), "invalid_input", "nested too deep")
  error <- expect_refused(
    pjrt_save_safetensors(list(params = list(w = 1)), path), "invalid_input",
    "Tensor \"params.w\" must be a `PJRTBuffer`"
  )
  expect_match(conditionMessage(error), "pjrt_buffer() converts R data", fixed = TRUE)
  both <- list(a.b = pjrt_scalar(1), a = list(b = pjrt_scalar(2)))
  expect_refused(pjrt_save_safetensors(both, path), "invalid_input", "There are two tensors \"a.b\".")
  expect_identical(saved_names(both, path, separator = "/"), c("a.b", "a/b"))
})

test_that("a buffer with several names is written once, and found under all of them", {
  path <- new_path()
  embedding <- pjrt_buffer(matrix(1:6000, 60))
  params <- list(
    wte = list(weight = embedding), h = list(pjrt_buffer(1:500)), lm_head = list(weight = embedding), again = embedding
  )
  names <- c("wte.weight", "h.0", "lm_head.weight", "again")
  for (size in list(NULL, 3000)) {
    pjrt_save_safetensors(params, path, c(note = "x"), max_shard_size = size)
    files <- list.files(dirname(path), "[.]safetensors$", full.names = TRUE)
    expect_lt(sum(file.size(files)), 24000 + 2000 + 2 * 1000)
    info <- safetensors_info(dirname(path))
    expect_identical(info$name, names[c(1, 2, 3, 4)])
    expect_identical(info$offset[3:4], info$offset[c(1, 1)])
    expect_identical(info$bytes, c(24000, 2000, 24000, 24000))
    loaded <- pjrt_load_safetensors(dirname(path))
    expect_identical(attr(loaded, "metadata"), c(note = "x"))
    expect_named(loaded, names)
    expect_identical(lapply(loaded, as_array), lapply(flatten(params), as_array), ignore_attr = TRUE)
    expect_identical(loaded$again, loaded$wte.weight)
    expect_identical(
      lapply(pjrt_load_safetensors(path, names = c("again", "h.0")), as_array),
      list(again = as_array(embedding), h.0 = array(1:500)), ignore_attr = TRUE
    )
    nested <- pjrt_load_safetensors(path, like = params)
    expect_identical(nested$lm_head$weight, nested$wte$weight)
    model <- pjrt_open_safetensors(path)
    expect_identical(as_array(model$again), as_array(embedding))
    expect_identical(names(model), names)
    close(model)
    # the tie survives another save
    other <- new_path()
    pjrt_save_safetensors(nested, other)
    expect_lt(file.size(other), 24000 + 2000 + 1000)
    expect_identical(attr(safetensors_info(other), "metadata"), c(note = "x"))
    expect_setequal(safetensors_info(other)$name, names)
  }
  # equal buffers are not tied, and names can be left out
  pjrt_save_safetensors(list(a = pjrt_buffer(1:3), b = pjrt_buffer(1:3)), path)
  expect_identical(diff(safetensors_info(path)$offset), 12)
  pjrt_save_safetensors(pjrt_load_safetensors(other)["again"], path)
  expect_identical(safetensors_info(path)$name, "again")
})

test_that("metadata that would be read as another name of a tensor are refused", {
  path <- new_path()
  a <- pjrt_scalar(1)
  expect_refused(
    pjrt_save_safetensors(list(a = a), path, c(best = "a")), "invalid_input",
    "The metadata entry \"best\" cannot be \"a\": this would be another name of tensor \"a\"."
  )
  expect_refused(
    pjrt_save_safetensors(list(a = a, b = a), path, c(b = "x")), "invalid_input",
    "Metadata cannot have an entry \"b\", which is the name of a tied tensor."
  )
  expect_false(file.exists(path))
})

test_that("metadata of a folder's files are kept with the index's", {
  path <- new_path()
  pjrt_save_safetensors(list(a = pjrt_buffer(1:3), b = pjrt_buffer(4:6)), path, c(format = "pt"), max_shard_size = 1)
  index <- paste0(path, ".index.json")
  # as Hugging Face writes it
  places <- sprintf('"%s": "model-0000%d-of-00002.safetensors"', c("a", "b"), 1:2)
  writeLines(sprintf('{"metadata": {"total_size": 24, "parameters": 6}, "weight_map": {%s}}', toString(places)), index)
  for (read in list(pjrt_load_safetensors, safetensors_info)) {
    expect_identical(attr(read(dirname(path)), "metadata"), c(parameters = "6", format = "pt"))
  }
  loaded <- pjrt_load_safetensors(dirname(path))
  pjrt_save_safetensors(loaded, path)
  expect_identical(attr(safetensors_info(path), "metadata"), c(parameters = "6", format = "pt"))
})
