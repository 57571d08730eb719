//! The attributes of an instruction in HLO text.

use super::sharding::OTHER;
use super::text::{braces, join, numbered, Context};
use super::*;
use crate::module::Conv;

impl HloInstructionProto {
    /// The attributes in XLA's order: the operation's own, the computations that it calls, and common ones.
    pub(super) fn attributes(&self, context: &Context) -> Vec<String> {
        let mut all = Attributes(Vec::new());
        self.add_own(&mut all);
        self.add_computations(context, &mut all);
        self.add_common(context, &mut all);
        all.0
    }

    fn add_own(&self, all: &mut Attributes) {
        match self.opcode.as_str() {
            "broadcast" | "reduce" | "reverse" | "transpose" | "concatenate" | "map" | "get-dimension-size"
            | "set-dimension-size" => all.list("dimensions", &self.dimensions),
            "sort" => {
                all.list("dimensions", &self.dimensions);
                all.flag("is_stable", self.is_stable);
            }
            "iota" => all.add("iota_dimension", join(&self.dimensions)),
            "get-tuple-element" => all.add("index", self.tuple_index),
            "slice" => all.add("slice", slice(&self.slice_dimensions)),
            "dynamic-slice" => all.list("dynamic_slice_sizes", &self.dynamic_slice_sizes),
            "pad" => all.some("padding", self.padding_config.as_ref().map(padding)),
            "compare" => {
                all.add("direction", &self.comparison_direction);
                all.some("type", Some("TOTALORDER").filter(|&t| t == self.comparison_type));
            }
            "fusion" => all.add("kind", &self.fusion_kind),
            "reduce-window" | "select-and-scatter" => self.add_window(all),
            "convolution" => {
                self.add_window(all);
                all.some("dim_labels", self.convolution_dimension_numbers.as_ref().map(dim_labels));
                all.above(1, "feature_group_count", self.feature_group_count);
                all.above(1, "batch_group_count", self.batch_group_count);
                self.add_precision(all);
            }
            "dot" => {
                if let Some(dims) = &self.dot_dimension_numbers {
                    all.list_if_any("lhs_batch_dims", &dims.lhs_batching);
                    all.list("lhs_contracting_dims", &dims.lhs_contracting);
                    all.list_if_any("rhs_batch_dims", &dims.rhs_batching);
                    all.list("rhs_contracting_dims", &dims.rhs_contracting);
                }
                self.add_precision(all);
            }
            "gather" => self.add_gather(all),
            "scatter" => self.add_scatter(all),
            "custom-call" => self.add_custom_call(all),
            "rng" => all.add("distribution", nth(&["rng_invalid", "rng_uniform", "rng_normal"], self.distribution)),
            "rng-bit-generator" => {
                all.add("algorithm", nth(&["rng_default", "rng_three_fry", "rng_philox"], self.rng_algorithm));
            }
            "rng-get-and-update-state" => all.add("delta", self.delta),
            "cholesky" => all.flag("lower", self.cholesky_options.as_ref().is_some_and(|o| o.lower)),
            "triangular-solve" => self.add_triangular_solve(all),
            "fft" => {
                all.add("fft_type", nth(&["FFT", "IFFT", "RFFT", "IRFFT"], self.fft_type));
                all.list("fft_length", &self.fft_length);
            }
            "reduce-precision" => {
                all.add("exponent_bits", self.exponent_bits);
                all.add("mantissa_bits", self.mantissa_bits);
            }
            "batch-norm-training" | "batch-norm-inference" | "batch-norm-grad" => {
                all.add("epsilon", self.epsilon);
                all.add("feature_index", self.feature_index);
            }
            "topk" => {
                all.add("k", self.k);
                all.add("largest", self.largest);
            }
            opcode => self.add_collective(opcode.strip_suffix("-start").unwrap_or(opcode), all),
        }
    }

    fn add_window(&self, all: &mut Attributes) {
        all.some("window", self.window.as_ref().filter(|w| !w.dimensions.is_empty()).map(window));
    }

    fn add_precision(&self, all: &mut Attributes) {
        let precision = self.precision_config.as_ref().map(|p| p.operand_precision.as_slice()).unwrap_or_default();
        if precision.iter().any(|&p| p != 0) {
            let names: Vec<_> = precision.iter().map(|&p| nth(&["default", "high", "highest"], p)).collect();
            all.list("operand_precision", &names);
        }
    }

    fn add_gather(&self, all: &mut Attributes) {
        if let Some(dims) = &self.gather_dimension_numbers {
            all.list("offset_dims", &dims.offset_dims);
            all.list("collapsed_slice_dims", &dims.collapsed_slice_dims);
            all.list("start_index_map", &dims.start_index_map);
            all.list_if_any("operand_batching_dims", &dims.operand_batching_dims);
            all.list_if_any("start_indices_batching_dims", &dims.start_indices_batching_dims);
            all.add("index_vector_dim", dims.index_vector_dim);
        }
        all.list("slice_sizes", &self.gather_slice_sizes);
        all.flag("indices_are_sorted", self.indices_are_sorted);
    }

    fn add_scatter(&self, all: &mut Attributes) {
        if let Some(dims) = &self.scatter_dimension_numbers {
            all.list("update_window_dims", &dims.update_window_dims);
            all.list("inserted_window_dims", &dims.inserted_window_dims);
            all.list("scatter_dims_to_operand_dims", &dims.scatter_dims_to_operand_dims);
            all.list_if_any("input_batching_dims", &dims.input_batching_dims);
            all.list_if_any("scatter_indices_batching_dims", &dims.scatter_indices_batching_dims);
            all.add("index_vector_dim", dims.index_vector_dim);
        }
        all.flag("indices_are_sorted", self.indices_are_sorted);
        all.flag("unique_indices", self.unique_indices);
    }

    fn add_custom_call(&self, all: &mut Attributes) {
        all.add("custom_call_target", quoted(&self.custom_call_target));
        self.add_window(all);
        if self.constrain_layout {
            let shapes = numbered(self.operand_shapes_with_layout.iter().map(|s| s.text(true)));
            all.add("operand_layout_constraints", format!("{{{shapes}}}"));
        }
        all.flag("custom_call_has_side_effect", self.custom_call_has_side_effect);
        let alias = |a: &OutputOperandAliasing| {
            let (output, operand) = (braces(&a.output_shape_index), braces(&a.operand_shape_index));
            format!("{output}: ({}, {operand})", a.operand_index)
        };
        all.set_if_any("output_to_operand_aliasing", self.output_operand_aliasing.iter().map(alias));
        let versions = ["", "", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI"];
        let version = Some(nth(&versions, self.custom_call_api_version)).filter(|v| !v.is_empty());
        all.some("api_version", version.map(|v| format!("API_VERSION_{v}")));
    }

    fn add_triangular_solve(&self, all: &mut Attributes) {
        if let Some(options) = &self.triangular_solve_options {
            all.flag("left_side", options.left_side);
            all.flag("lower", options.lower);
            all.flag("unit_diagonal", options.unit_diagonal);
            let transposed = nth(&["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"], options.transpose_a);
            all.add("transpose_a", transposed);
        }
    }

    fn add_collective(&self, opcode: &str, all: &mut Attributes) {
        let is_collective = opcode.starts_with("all-") || opcode.starts_with("collective-");
        if !is_collective && !matches!(opcode, "reduce-scatter" | "send" | "recv" | "send-done" | "recv-done") {
            return;
        }
        all.above(0, "channel_id", self.channel_id);
        if opcode == "collective-permute" {
            let pairs: Vec<_> =
                self.source_target_pairs.iter().map(|p| format!("{{{},{}}}", p.source, p.target)).collect();
            all.list("source_target_pairs", &pairs);
        } else if is_collective || opcode == "reduce-scatter" {
            all.add("replica_groups", self.replica_groups());
        }
        let dimensions_first = opcode == "all-gather";
        if dimensions_first {
            all.list("dimensions", &self.dimensions);
        }
        all.flag("use_global_device_ids", self.use_global_device_ids);
        if !dimensions_first {
            all.list_if_any("dimensions", &self.dimensions);
        }
        all.flag("is_host_transfer", self.is_host_transfer);
    }

    fn replica_groups(&self) -> String {
        if let Some(iota) = self.range_of_groups() {
            let range = iota_tiles(&iota.iota_reshape_dims, &iota.iota_transpose_perm);
            return format!("[{},{}]{range}", iota.num_replica_groups, iota.num_devices_per_group);
        }
        braces(&self.groups().unwrap_or_default().iter().map(|group| braces(group)).collect::<Vec<_>>())
    }

    fn add_computations(&self, context: &Context, all: &mut Attributes) {
        let called: Vec<_> = self.called_computation_ids.iter().map(|&id| context.computation(id)).collect();
        match (self.opcode.as_str(), called.as_slice()) {
            ("while", [body, condition]) => {
                all.add("condition", condition);
                all.add("body", body);
            }
            ("select-and-scatter", [select, scatter]) => {
                all.add("select", select);
                all.add("scatter", scatter);
            }
            ("conditional", [yes, no]) if self.chooses_by_truth(context) => {
                all.add("true_computation", yes);
                all.add("false_computation", no);
            }
            ("conditional", _) => all.set_if_any("branch_computations", called.into_iter()),
            ("fusion" | "async-start" | "async-update" | "async-done", [one]) => all.add("calls", one),
            (opcode, [one]) if opcode != "custom-call" => all.add("to_apply", one),
            _ => all.set_if_any("called_computations", called.into_iter()),
        }
    }

    fn chooses_by_truth(&self, context: &Context) -> bool {
        let chooser = self.operand_ids.first().and_then(|id| context.instructions.get(id));
        let shape = chooser.and_then(|c| c.shape.as_ref());
        shape.is_some_and(|s| DType::from_xla_code(s.element_type) == Some(DType::Pred))
    }

    fn add_common(&self, context: &Context, all: &mut Attributes) {
        all.some("sharding", self.sharding.as_ref().map(|s| format!("{{{}}}", s.text())));
        let attributes = self.frontend_attributes.iter().flat_map(|a| &a.map);
        let attributes: Vec<_> = attributes.map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        all.list_if_any("frontend_attributes", &attributes);
        let predecessors = self.control_predecessor_ids.iter().map(|&id| context.instruction(id));
        all.set_if_any("control-predecessors", predecessors);
        let origin = self.metadata.as_ref().map(|m| m.text(context)).filter(|text| !text.is_empty());
        all.some("metadata", origin.map(|text| format!("{{{text}}}")));
        let config = Some(String::from_utf8_lossy(&self.backend_config)).filter(|c| !c.is_empty());
        all.some("backend_config", config.map(|c| if c.starts_with('{') { c.into_owned() } else { quoted(&c) }));
    }
}

/// `name=value` each.
struct Attributes(Vec<String>);

impl Attributes {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push(format!("{name}={value}"));
    }

    fn some(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.some(name, value.then_some(true));
    }

    fn above(&mut self, limit: i64, name: &str, value: impl Into<i64>) {
        self.some(name, Some(value.into()).filter(|&value| value > limit));
    }

    fn list<T: std::fmt::Display>(&mut self, name: &str, items: &[T]) {
        self.add(name, braces(items));
    }

    fn set_if_any(&mut self, name: &str, items: impl Iterator<Item = String>) {
        let items = items.collect::<Vec<_>>().join(", ");
        self.some(name, Some(items).filter(|items| !items.is_empty()).map(|items| format!("{{{items}}}")));
    }

    fn list_if_any<T: std::fmt::Display>(&mut self, name: &str, items: &[T]) {
        if !items.is_empty() {
            self.list(name, items);
        }
    }
}

/// The word for a number of an enumeration, empty for one unknown.
fn nth(words: &[&'static str], number: i32) -> &'static str {
    usize::try_from(number).ok().and_then(|i| words.get(i)).copied().unwrap_or_default()
}

impl OpMetadata {
    fn text(&self, context: &Context) -> String {
        let frame = context.source.and_then(|source| source.place(self.stack_frame_id));
        let place = frame.unwrap_or((&self.source_file, self.source_line));
        let mut all = Attributes(Vec::new());
        for (name, value) in [("op_type", self.op_type.as_str()), ("op_name", &self.op_name), ("source_file", place.0)]
        {
            all.some(name, Some(value).filter(|value| !value.is_empty()).map(quoted));
        }
        all.above(0, "source_line", place.1);
        all.above(0, "source_end_line", self.source_end_line);
        all.above(0, "source_column", self.source_column);
        all.above(0, "source_end_column", self.source_end_column);
        all.0.join(" ")
    }
}

impl OpSharding {
    /// As in HLO text, without its brackets.
    pub fn text(&self) -> String {
        if self.named.is_some() {
            return self.tiled().map_or_else(|| "unknown".into(), |tiled| tiled.text());
        }
        match self.kind {
            0 => "replicated".into(),
            1 => format!("maximal device={}", join(&self.tile_devices)),
            2 => {
                let parts: Vec<_> = self.tuple_shardings.iter().map(|s| format!("{{{}}}", s.text())).collect();
                parts.join(", ")
            }
            OTHER => {
                let devices = match self.iota_reshape_dims.as_slice() {
                    [] => join(&self.tile_devices),
                    dims => iota_tiles(dims, &self.iota_transpose_perm),
                };
                let last = if self.replicate_on_last_tile_dim { " last_tile_dim_replicate" } else { "" };
                let kinds = ["replicated", "maximal", "tuple", "other", "manual", "unknown", "unreduced"];
                let kinds: Vec<_> = self.last_tile_dims.iter().map(|&kind| nth(&kinds, kind)).collect();
                let kinds = kinds.join(", ");
                let kinds = if self.last_tile_dims.is_empty() { kinds } else { format!(" last_tile_dims={{{kinds}}}") };
                format!("devices=[{}]{devices}{last}{kinds}", join(&self.tile_dims))
            }
            4 => "manual".into(),
            6 => "unreduced".into(),
            _ => "unknown".into(),
        }
    }
}

/// A range of numbers, reshaped and transposed.
fn iota_tiles(dims: &[i64], order: &[i32]) -> String {
    let plain = order.iter().enumerate().all(|(i, &dim)| dim as usize == i);
    let order = if plain { String::new() } else { format!("T({})", join(order)) };
    format!("<=[{}]{order}", join(dims))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn slice(dims: &[SliceDimensions]) -> String {
    let strided = dims.iter().any(|d| d.stride > 1);
    let one = |d: &SliceDimensions| {
        let stride = if strided { format!(":{}", d.stride) } else { String::new() };
        format!("[{}:{}{stride}]", d.start, d.limit)
    };
    format!("{{{}}}", dims.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn padding(config: &PaddingConfig) -> String {
    let inside = config.dimensions.iter().any(|d| d.interior != 0);
    let one = |d: &PaddingConfigDimension| {
        let interior = if inside { format!("_{}", d.interior) } else { String::new() };
        format!("{}_{}{interior}", d.low, d.high)
    };
    config.dimensions.iter().map(one).collect::<Vec<_>>().join("x")
}

fn window(window: &Window) -> String {
    let dims = &window.dimensions;
    let by_x = |value: fn(&WindowDimension) -> String| dims.iter().map(value).collect::<Vec<_>>().join("x");
    let mut parts = vec![format!("size={}", by_x(|d| d.size.to_string()))];
    let mut add = |name: &str, differs: fn(&WindowDimension) -> bool, value: fn(&WindowDimension) -> String| {
        if dims.iter().any(differs) {
            parts.push(format!("{name}={}", by_x(value)));
        }
    };
    add("stride", |d| d.stride != 1, |d| d.stride.to_string());
    add("pad", |d| d.padding_low != 0 || d.padding_high != 0, |d| format!("{}_{}", d.padding_low, d.padding_high));
    add("lhs_dilate", |d| d.base_dilation != 1, |d| d.base_dilation.to_string());
    add("rhs_dilate", |d| d.window_dilation != 1, |d| d.window_dilation.to_string());
    add("rhs_reversal", |d| d.window_reversal, |d| i32::from(d.window_reversal).to_string());
    format!("{{{}}}", parts.join(" "))
}

/// What the dimensions of a convolution mean, as in `b01f_01io->b01f`.
fn dim_labels(dims: &Conv) -> String {
    let [input, kernel, output] =
        dims.meanings().map(|all| all.into_iter().map(|(_, label)| label).collect::<String>());
    format!("{input}_{kernel}->{output}")
}
