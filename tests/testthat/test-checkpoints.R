# Trainings that are saved and resumed. The functions come from vignette("train"): networks of flax, equinox and
# PyTorch, with the Adam of optax.
# Slow: trains networks.

training_file <- function(name) system.file("exported", "training", paste0(name, ".jaxexport"), package = "pjrt")

# Code that a session evaluates to train: `step`, `first` and `train(state, epochs)`.
training <- function(framework, arguments, seeded) {
  bquote({
    load <- function(name) {
      file <- paste0(.(framework), "-", name, ".jaxexport")
      pjrt_load_exported(system.file("exported", "training", file, package = "pjrt"))
    }
    step <- pjrt_step(pjrt_function(load("step"), arguments = .(arguments)))
    init <- pjrt_function(load("init"))
    first <- function(seed) if (.(seeded)) init(pjrt_buffer(c(0, seed), "ui32")) else init()
    x <- scale(as.matrix(datasets::iris[1:4]))
    species <- as.integer(datasets::iris$Species) - 1L
    train <- function(state, epochs) {
      for (epoch in epochs) {
        set.seed(epoch)
        rows <- sample(150)
        for (batch in split(rows, (seq_along(rows) - 1) %/% 32)) state <- step(state, x[batch, ], species[batch])
      }
      state
    }
  })
}

raw_bits <- function(x) as_raw(x, row_major = TRUE)

frameworks <- list(
  flax = training("flax", c("params", "opt_state", "key", "x", "species"), TRUE),
  equinox = training("equinox", c("network", "opt_state", "x", "species"), TRUE),
  torch = training("torch", c("weights", "opt_state", "x", "species"), FALSE)
)

test_that("a training that another session resumes equals one without a stop, bit by bit", {
  # all sessions train with the same executables
  withr::local_envvar(compiled_once())
  for (framework in names(frameworks)) {
    session <- new.env()
    eval(frameworks[[framework]], session)
    start <- session$first(42)
    kept <- names(start)
    if (framework == "flax") expect_setequal(kept, c("params", "opt_state", "key"))
    path <- file.path(withr::local_tempdir(), "state.safetensors")
    state <- session$train(start, 1:3)
    pjrt_save_safetensors(state[kept], path, c(epoch = "3"))
    before <- map_tree(state["loss"], as_array)
    whole <- session$train(state, 4:6)
    expect_lt(as_array(whole$loss), before$loss)

    resumed <- file.path(dirname(path), "resumed")
    child <- run_child(bquote({
      .(frameworks[[framework]])
      state <- pjrt_load_safetensors(.(path), like = first(0))
      state <- train(state, as.integer(attr(state, "metadata")[["epoch"]]) + 1:3)
      pjrt_save_safetensors(state, .(resumed), c(epoch = "6"))
    }))
    expect_clean(child, character())
    loaded <- pjrt_load_safetensors(resumed, like = whole)
    expect_identical(attr(loaded, "metadata"), c(epoch = "6"))
    for (part in names(whole)) {
      label <- paste(framework, part)
      expect_identical(map_tree(loaded[[part]], raw_bits), map_tree(whole[[part]], raw_bits), label = label)
    }
  }
})

test_that("the optimizer's steps are counted in the checkpoint", {
  withr::local_envvar(compiled_once())
  session <- new.env()
  eval(frameworks$flax, session)
  state <- session$train(session$first(1), 1:2)
  path <- file.path(withr::local_tempdir(), "state.safetensors")
  pjrt_save_safetensors(state[c("params", "opt_state", "key")], path)
  info <- safetensors_info(path)
  expect_identical(sum(info$dtype == "i32"), 1L)
  counter <- pjrt_load_safetensors(path, names = info$name[info$dtype == "i32"])[[1L]]
  expect_identical(as_array(counter), 10L)
  expect_identical(info$shape[info$dtype == "ui32"], list(2L))
  # the parameters alone make predictions
  params <- pjrt_load_safetensors(path, like = state["params"], extra = "ignore")$params
  predict <- pjrt_function(pjrt_load_exported(training_file("flax-predict")), as = "array")
  expect_identical(predict(params, session$x), predict(state$params, session$x))
})

test_that("a folder in Hugging Face's layout feeds a transformer", {
  folder <- system.file("exported", "transformer", package = "pjrt")
  params <- pjrt_load_safetensors(file.path(folder, "months"), separator = ".")
  expect_identical(params$lm_head$weight, params$transformer$wte$weight)
  expect_identical(attr(params, "metadata"), c(format = "pt"))
  expect_null(names(params$transformer$h))
  logits <- pjrt_function(pjrt_load_exported(file.path(folder, "months.jaxexport")), as = "array")
  text <- c(0L, match(strsplit("septembe", "")[[1L]], letters))
  scores <- logits(params, rbind(text, text))
  expect_identical(dim(scores), c(2L, 9L, 27L))
  expect_identical(letters[apply(scores[1L, , ], 1L, which.max)[3:9] - 1L], strsplit("ptember", "")[[1L]])
})
