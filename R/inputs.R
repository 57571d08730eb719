# Inputs of programs: src/rust/src/execution/inputs.rs finds their order.

# `inputs` as a list of all inputs.
sole_inputs <- function(inputs, ...) {
  if (typeof(inputs) != "list" || is.object(inputs)) {
    abort_type("`inputs` must be a list of buffers, not ", given(inputs), ".")
  }
  if (...length() > 0L) {
    abort_input("`inputs` must contain all inputs: got ", ...length(), " more in `...`.")
  }
  inputs
}
