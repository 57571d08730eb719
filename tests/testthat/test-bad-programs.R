# Damaged, deeply nested and oversized programs raise an error and never end the session. Compilers run in child
# processes.
# Slow: compiles thousands of damaged programs.

mutations <- local({
  fixture <- new.env()
  sys.source(test_path("fixtures", "mutate-programs.R"), fixture)
  fixture
})

test_that("a session survives damaged programs", {
  found <- mutations$run_mutations(times(1000L, 10000L), seed = 1L)
  expect_identical(unique(grep("^(died|hung|not ours)", found$outcome, value = TRUE)), character())
  expect_false(anyNA(found$outcome))
  # some programs of every kind are accepted and some refused
  kinds <- table(found$kind, found$outcome == "accepted")
  expect_identical(
    dimnames(kinds), list(c("bytecode", "executable", "hlo", "text"), c("FALSE", "TRUE")), ignore_attr = TRUE
  )
  # a damaged executable rarely loads, perhaps none of the few in the suite
  if (!is_soak()) kinds["executable", "TRUE"] <- 1L
  expect_true(all(kinds > 0L), label = paste(capture.output(kinds), collapse = "\n"))
})

# Compiles programs in a child and returns their error classes, or "accepted". `programs` creates a list of raw vectors
# whose names are formats.
outcomes <- function(programs) {
  child <- run_child(substitute({
    options(pjrt.cache = FALSE)
    programs <- PROGRAMS
    for (i in seq_along(programs)) {
      format <- names(programs)[[i]]
      cat(tryCatch(
        {
          if (format == "executable") pjrt_deserialize(programs[[i]]) else pjrt_compile(
            pjrt_program(programs[[i]], format = format)
          )
          "accepted"
        },
        pjrt_error = function(e) sub(
          "^invalid_(type|value|file)$", "invalid_input", sub("pjrt_error_", "", class(e)[[1L]])
        )
      ), "\n")
    }
  }, list(PROGRAMS = substitute(programs))), timeout = 600)
  expect_clean(child)
  trimws(child$out)
}

test_that("text nested 100,000 levels deep is refused", {
  expect_identical(outcomes({
    n <- 1e5L
    i <- seq_len(n)
    main <- "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    nested <- function(text) strrep(text, n)
    texts <- c(
      nested("("), nested("module {"),
      paste0(nested("module {"), main, nested("}")),
      sprintf("func.func @main(%%x: %stensor<f32>%s) { return }", nested("tuple<"), nested(">")),
      sprintf("module attributes {mhlo.a = %s%s} { %s }", nested("["), nested("]"), main),
      sprintf("module attributes {mhlo.a = %s1%s} { %s }", nested("{a = "), nested("}"), main),
      sprintf("module attributes {mhlo.a = affine_map<(d) -> (%sd)>} { %s }", nested("-"), main),
      sprintf(
        "!t0 = tensor<f32>\n%s\nfunc.func @main(%%x: !t%d) { return }",
        paste0("!t", i, " = tuple<!t", i - 1L, ">", collapse = "\n"), n
      ),
      sprintf("func.func @main(%%x: tensor<%sf32>) { return }", nested("1x")),
      paste0("func.func @main() { call @f1() : () -> () return }\n", paste0(
        "func.func @f", i, "() { call @f", i + 1L, "() : () -> () return }", collapse = "\n"
      )),
      "func.func @main() { call @main() : () -> () return }"
    )
    stats::setNames(lapply(texts, charToRaw), rep("mlir", length(texts)))
  }), rep("invalid_input", 11L))
})

test_that("bytecode and HLO modules nested 100,000 levels deep are refused", {
  expect_identical(outcomes({
    n <- 1e5L
    # The number of trailing zero bits is the number of bytes that follow.
    number <- function(x) {
      bytes <- if (x < 2^7) 1L else if (x < 2^14) 2L else 3L
      as.raw((2^bytes * x + 2^(bytes - 1L)) %/% 256^(seq_len(bytes) - 1L) %% 256)
    }
    all_of <- function(...) unlist(list(...))
    section <- function(id, ...) {
      content <- all_of(...)
      # The length takes eight bytes.
      c(as.raw(c(id, 0)), as.raw(length(content) %/% 256^(0:7) %% 256), content)
    }
    strings <- c("builtin", "module")
    bytecode <- function(attributes, operations) {
      c(
        charToRaw("ML"), as.raw(0xef), charToRaw("R"), number(6), charToRaw("x"), as.raw(0),
        section(
          0L, number(2), lapply(rev(nchar(strings)) + 1L, number),
          lapply(strings, function(s) c(charToRaw(s), as.raw(0)))
        ),
        section(1L, number(1), number(0), number(1), number(0), number(1), number(2)),
        section(2L, attributes),
        section(
          3L, number(length(attributes)), number(0), number(0), number(length(attributes)),
          lapply(attributes, function(a) number(2 * length(a) + 1))
        ),
        section(4L, operations)
      )
    }
    unknown <- number(15)
    # A module with a location, and one region of one block of one operation.
    nested <- all_of(
      number(2),
      lapply(seq_len(n), function(i) c(number(0), as.raw(0x10), number(0), number(2), number(1), number(0), number(2)))
    )
    arrays <- c(list(unknown), lapply(seq_len(n), function(i) c(number(0), number(1), number(i - 1L))))

    # The same with protocol buffers: field 4 is an element of a tuple, 3.8.2.3 the shape of an instruction.
    varint <- function(x) {
      bytes <- max(1L, ceiling(log2(x + 1) / 7))
      as.raw(x %/% 128^(seq_len(bytes) - 1L) %% 128 + 128 * (seq_len(bytes) < bytes))
    }
    field <- function(number, content) c(varint(8 * number + 2), varint(length(content)), content)
    size <- 2
    starts <- vector("list", n)
    for (i in seq_len(n)) {
      starts[[n + 1L - i]] <- c(varint(8 * 4 + 2), varint(size))
      size <- size + length(starts[[n + 1L - i]])
    }
    shape <- c(unlist(starts), as.raw(c(0x10, 13)))
    instruction <- c(field(2L, charToRaw("parameter")), field(3L, shape))
    list(
      mlir = bytecode(list(unknown), nested),
      mlir = bytecode(arrays, all_of(number(2), number(0), as.raw(0), number(n))),
      hlo = field(3L, field(2L, instruction)), hlo = field(4L, field(2L, shape))
    )
  }), rep("invalid_input", 4L))
})

test_that("empty programs are refused", {
  expect_identical(
    outcomes(
      list(
        mlir = raw(), hlo = raw(), executable = raw(), mlir = charToRaw(" "),
        mlir = c(charToRaw("ML"), as.raw(0xef), charToRaw("R"))
      )
    ),
    c("invalid_input", "invalid_input", "serialized_invalid", "compile", "invalid_input")
  )
  expect_error(compile(""), class = "pjrt_error_unknown")
})

test_that("100 MB of data that is not a program is refused", {
  expect_identical(outcomes({
    set.seed(1)
    garbage <- rep(as.raw(sample(0:255, 1e6, replace = TRUE)), 100L)
    main <- charToRaw("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }\n")
    bytecode <- c(charToRaw("ML"), as.raw(0xef), charToRaw("R"))
    spaces <- rep(charToRaw(" "), length(garbage))
    list(
      mlir = garbage, mlir = c(main, garbage), mlir = c(bytecode, garbage), mlir = c(bytecode, as.raw(13), garbage),
      hlo = garbage, executable = garbage, mlir = spaces,
      mlir = c(main, spaces)
    )
  }), c(
    "invalid_input", "invalid_input", "compile", "invalid_input", "invalid_input", "serialized_invalid", "compile",
    "accepted"
  ))
})

test_that("zero bytes in text raise an error or count as whitespace", {
  expect_identical(outcomes({
    main <- charToRaw("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }\n")
    with_zeros <- function(at) append(main, as.raw(c(0, 0)), at)
    list(
      mlir = with_zeros(0L), mlir = with_zeros(12L), mlir = with_zeros(20L), mlir = raw(1000L), hlo = raw(1000L),
      executable = raw(1000L)
    )
  }), c("accepted", "compile", "accepted", "compile", "invalid_input", "serialized_invalid"))
})

test_that("element types that the compiler lacks name the argument", {
  # newer compilers have types of six bits
  for (type in c("index", "f80", "i128", "tf32", if (!plugin_api(115)) "f6E2M3FN", "complex<f16>")) {
    text <- "func.func @main(%%x: tensor<f32>, %%a: tensor<2x%s>) -> tensor<f32> { return %%x : tensor<f32> }"
    text <- sprintf(text, type)
    error <- expect_refused(pjrt_compile(pjrt_program(text)), "unsupported_dtype", "argument 2 (`%a`) is ")
    expect_match(conditionMessage(error), paste0(type, "[2]"), fixed = TRUE)
  }
})

test_that("operands that do not fit each other say how to make them fit", {
  error_of <- function(text) tryCatch(compile(text), pjrt_error = conditionMessage)
  add <- function(type) sprintf("func.func @main(%%x: tensor<2xf32>, %%y: tensor<%s>) -> tensor<2xf32> {
    %%0 = stablehlo.add %%x, %%y : tensor<2xf32>
    return %%0 : tensor<2xf32>
  }", type)
  expect_match(
    error_of(add("f32")),
    "Repeat the scalar: `stablehlo.broadcast_in_dim %y, dims = [] : (tensor<f32>) -> tensor<2xf32>`.", fixed = TRUE
  )
  expect_match(
    error_of(add("f64")), paste(
      "Convert it first: `stablehlo.convert %y : (tensor<f64>) -> tensor<f32>`, and then repeat it with",
      "`stablehlo.broadcast_in_dim`."
    ), fixed = TRUE
  )
  expect_match(error_of(add("2xf64")), "`stablehlo.convert %y : (tensor<2xf64>) -> tensor<2xf32>`.", fixed = TRUE)
  narrow <- "func.func @main(%x: tensor<2x2xi4>) -> tensor<2x2xi32> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<2x2xi4>, tensor<2x2xi4>) -> tensor<2x2xi32>
    return %0 : tensor<2x2xi32>
  }"
  expect_match(error_of(narrow), "`stablehlo.convert` to i8", fixed = TRUE)
})

test_that("the function for the largest elements stays within its arrays", {
  top <- function(operand, result) {
    sprintf("func.func @main(%%x: tensor<%sxf32>) -> tensor<%sxf32> {
      %%y:2 = stablehlo.custom_call @TopK(%%x) : (tensor<%sxf32>) -> (tensor<%sxf32>, tensor<%sxi32>)
      return %%y#0 : tensor<%sxf32>
    }", operand, result, operand, result, result, result)
  }
  for (result in c("100000", "5")) {
    expect_refused(compile(top("4", result)), "unsupported_program", "calls 'TopK' with arrays that do not fit")
  }
  expect_refused(compile(top("2x2", "3000x2")), "unsupported_program", "Use `chlo.top_k` instead")
  expect_identical(as_array(pjrt_execute(compile(top("4", "2")), pjrt_buffer(c(1, 4, 3, 2)))), array(c(4, 3)))
  for (dims in list(5L, c(2L, 5L), c(3L, 2L, 5L), c(2L, 3L, 2L, 5L))) {
    of <- paste0(c(dims, "f32"), collapse = "x")
    to <- paste0(c(dims[-length(dims)], 2L), collapse = "x")
    program <- compile(sprintf("func.func @main(%%x: tensor<%s>) -> tensor<%sxf32> {
      %%y:2 = chlo.top_k(%%x, k = 2) : tensor<%s> -> (tensor<%sxf32>, tensor<%sxi32>)
      return %%y#0 : tensor<%sxf32>
    }", of, to, of, to, to, to))
    x <- array(as.numeric(seq_len(prod(dims))), dims)
    largest <- as_array(pjrt_execute(program, pjrt_buffer(x, "f32")))
    rows <- matrix(x, ncol = 5L)
    expect_identical(c(largest), c(rows[, 5L], rows[, 4L]))
  }
})

test_that("a sort by a comparison that holds for equal elements stays within its array", {
  child <- run_child(bquote({
    text <- "func.func @main(%x: tensor<{n}xf32>) -> tensor<{n}xf32> {
      %y = \"stablehlo.sort\"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %r = stablehlo.compare {by}, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %r : tensor<i1>
      }) : (tensor<{n}xf32>) -> tensor<{n}xf32>
      return %y : tensor<{n}xf32>
    }"
    sorted <- function(program, x) as.vector(as_array(pjrt_execute(pjrt_compile(program), pjrt_buffer(x, "f32"))))
    for (by in c("LE", "GE", "EQ", "NE", "LT")) {
      for (n in c(20L, 5000L)) {
        program <- pjrt_program(gsub("{n}", n, gsub("{by}", by, text, fixed = TRUE), fixed = TRUE))
        for (x in list(rep(1, n), rep(c(2, 1, 3, 1), n / 4))) {
          y <- sorted(program, x)
          stopifnot(identical(sort(y), sort(x)), by != "LE" || !is.unsorted(y), by != "GE" || !is.unsorted(rev(y)))
        }
      }
    }
    # an HLO module
    bytes <- readBin(.(normalizePath(test_path("fixtures", "sorted.hlo.pb"))), "raw", 1e5)
    at <- grepRaw("LT", bytes, fixed = TRUE)
    bytes[at + 1L] <- charToRaw("E")
    program <- pjrt_program(bytes, format = "hlo")
    for (i in 1:200) stopifnot(identical(sorted(program, rep(1, 7)), rep(1, 7)))
    cat(sorted(program, c(3, 1, 2, 2, 0, 1, 1)), "\n")
  }), timeout = 600)
  expect_clean(child, "0 1 1 1 2 2 3 ")
})
