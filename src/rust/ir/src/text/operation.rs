//! Operations: functions, MLIR's generic form, and short forms.

use super::read::{Constant, Reader, Result, LONGEST_LIST};
use crate::module::{
    is_elementwise, is_listed, Attribute, Block, Dense, Dot, Element, Name, Operation, Region, Type, Value,
};
use pjrt_data::dtype::DType;
use std::collections::HashMap;
use std::sync::Arc;

/// How a setting of a short form is written.
#[derive(Clone, Copy)]
enum Setting {
    Number,
    Numbers,
    Bool,
    Choice(&'static str),
    Precision,
    /// `e5m7`: the bits of a float's exponent and of its mantissa.
    Format,
    Algorithm,
    Conv,
    /// Settings in braces.
    Window,
    /// Pairs of integers.
    Rows,
    Bools,
    /// Dimensions of both sides of a product: `[0] x [1]`.
    Batching,
    Contracting,
}

/// The settings of short forms: operations, the key in text, and the attribute.
#[rustfmt::skip]
const SETTINGS: &[(&str, &str, &str, Setting)] = &[
    ("transpose", "dims", "permutation", Setting::Numbers),
    ("broadcast_in_dim dynamic_broadcast_in_dim", "dims", "broadcast_dimensions", Setting::Numbers),
    ("broadcast", "sizes", "broadcast_sizes", Setting::Numbers),
    ("reverse", "dims", "dimensions", Setting::Numbers),
    ("concatenate get_dimension_size set_dimension_size", "dim", "dimension", Setting::Number),
    ("iota dynamic_iota", "dim", "iota_dimension", Setting::Number),
    ("dynamic_slice", "sizes", "slice_sizes", Setting::Numbers),
    ("pad", "low", "edge_padding_low", Setting::Numbers),
    ("pad", "high", "edge_padding_high", Setting::Numbers),
    ("pad", "interior", "interior_padding", Setting::Numbers),
    ("fft", "type", "fft_type", Setting::Choice("fft_type")),
    ("fft", "length", "fft_length", Setting::Numbers),
    ("rng", "distribution", "rng_distribution", Setting::Choice("rng_distribution")),
    ("rng_bit_generator", "algorithm", "rng_algorithm", Setting::Choice("rng_algorithm")),
    ("cholesky", "lower", "lower", Setting::Bool),
    ("dot dot_general", "precision", "precision_config", Setting::Precision),
    ("dot_general", "algorithm", "algorithm", Setting::Algorithm),
    ("dot_general", "batching_dims", "dot_dimension_numbers", Setting::Batching),
    ("dot_general", "contracting_dims", "dot_dimension_numbers", Setting::Contracting),
    ("reduce_precision", "format", "", Setting::Format),
    ("convolution", "dim_numbers", "dimension_numbers", Setting::Conv),
    ("convolution", "window", "", Setting::Window),
    ("convolution", "stride", "window_strides", Setting::Numbers),
    ("convolution", "pad", "padding", Setting::Rows),
    ("convolution", "lhs_dilate", "lhs_dilation", Setting::Numbers),
    ("convolution", "rhs_dilate", "rhs_dilation", Setting::Numbers),
    ("convolution", "reverse", "window_reversal", Setting::Bools),
];

/// Operations whose short form has operands, settings and types alone, besides those that compute each element, in alphabetical
/// order.
#[rustfmt::skip]
const SHORT: [&str; 39] = [
    "after_all", "bitcast_convert", "broadcast", "broadcast_in_dim", "cholesky", "clamp", "complex", "concatenate",
    "convert", "create_token", "dot", "dynamic_broadcast_in_dim", "dynamic_iota", "dynamic_pad", "dynamic_reshape",
    "dynamic_slice", "dynamic_update_slice", "fft", "get_dimension_size", "imag", "iota", "is_finite",
    "optimization_barrier", "pad", "partition_id", "real", "real_dynamic_slice", "reduce_precision", "replica_id",
    "reshape", "reverse", "rng", "rng_bit_generator", "select", "set_dimension_size", "transpose", "tuple",
    "uniform_dequantize", "uniform_quantize",
];

// Parts that are not inlined keep the frames small of what recursion goes through.
impl<'a> Reader<'a> {
    pub fn operation(&mut self) -> Result<Operation> {
        self.skip();
        let start = self.at;
        let names = self.definition().unwrap_or_default();
        let mut operation = Operation::new("", Vec::new(), Vec::new());
        let read = match self.peek() {
            Some(b'"') => self.generic(&mut operation),
            _ => self.short(&mut operation),
        };
        let read = read.and_then(|types| self.location().map(|()| types));
        let mut types = match read {
            Ok(types) if !self.is_lenient || self.is_at_end() => types,
            Ok(types) => self.pass(&mut operation, types),
            Err(_) if self.is_lenient && !operation.name.is_empty() => self.pass(&mut operation, Vec::new()),
            Err(unknown) => return Err(unknown),
        };
        let mut count = names.iter().fold(0usize, |sum, (_, count)| sum.saturating_add(*count));
        if !self.is_lenient && count != types.len() {
            self.at = start;
            return self.unknown(format_args!("{count} names for {} results", types.len()));
        }
        // The last types are the results' types.
        count = count.min(LONGEST_LIST.max(types.len()));
        types.drain(..types.len().saturating_sub(count));
        types.resize(count, Type::None);
        if let (true, [(name, 1)]) = (&*operation.name == "stablehlo.constant", &names[..]) {
            let start = name.as_ptr() as usize - self.text.as_ptr() as usize;
            let value = Value(self.types.len() as u32);
            let kind = types.first().cloned().unwrap_or(Type::None);
            self.constants.push(Constant { value, name: start..start + name.len(), end: self.last_kind, kind });
        }
        let mut types = &types[..];
        for (name, count) in names {
            let (own, rest) = types.split_at(count.min(types.len()));
            operation.results.extend(self.define(name, own));
            types = rest;
        }
        Ok(operation)
    }

    /// `"name"(operands) <{properties}> (regions) {attributes} : types`; the types of the results.
    fn generic(&mut self, operation: &mut Operation) -> Result<Vec<Type>> {
        operation.name = (*self.name()?).into();
        self.is_function = &*operation.name == "func.func";
        self.operands(operation)?;
        if self.eat("<") {
            operation.attributes = self.dictionary()?;
            self.expect(">")?;
        }
        self.regions(operation)?;
        self.attributes(operation)?;
        self.expect(":")?;
        Ok(self.signature()?.1)
    }

    /// The regions in parentheses, if there are any.
    fn regions(&mut self, operation: &mut Operation) -> Result<()> {
        if self.eat("(") {
            self.items(")", |this| {
                operation.regions.push(this.region(&[])?);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The attributes in braces, if there are any.
    pub fn attributes(&mut self, operation: &mut Operation) -> Result<()> {
        if self.peek() == Some(b'{') {
            operation.attributes.extend(self.dictionary()?);
        }
        Ok(())
    }

    pub fn operand(&mut self, operation: &mut Operation) -> Result<()> {
        operation.operands.extend(self.used()?);
        Ok(())
    }

    /// Operands in parentheses.
    pub fn operands(&mut self, operation: &mut Operation) -> Result<()> {
        self.list(["(", ")"], |this| this.operand(operation)).map(|_| ())
    }

    /// A region in braces, whose block has arguments of its own, or these.
    pub fn region(&mut self, arguments: &[(&'a str, Type)]) -> Result<Region> {
        self.deeper(|this| {
            this.expect("{")?;
            let mut block = Block::default();
            this.scopes.push(HashMap::new());
            for (name, kind) in arguments {
                block.arguments.extend(this.define(name, std::slice::from_ref(kind)));
            }
            let read = this.block(&mut block);
            this.scopes.pop();
            read.map(|()| Region { blocks: vec![block] })
        })
    }

    /// The operations up to the brace that ends them. Several blocks are one, if they may be.
    fn block(&mut self, block: &mut Block) -> Result<()> {
        while !self.eat("}") {
            let start = self.at;
            match self.peek() {
                None if self.is_lenient => break,
                Some(b'^') if self.is_lenient || block.operations.is_empty() => {
                    self.if_known(|this| this.label(block))?;
                }
                _ => match self.operation() {
                    Ok(operation) => block.operations.push(operation),
                    Err(unknown) if !self.is_lenient => return Err(unknown),
                    // Not an operation: go on after this byte.
                    Err(_) => self.at = (start + 1).max(self.at),
                },
            }
        }
        Ok(())
    }

    /// `^name(%x: type):`, the start of a block.
    fn label(&mut self, block: &mut Block) -> Result<()> {
        self.expect("^")?;
        self.word();
        if self.eat("(") {
            let is_function = std::mem::take(&mut self.is_function);
            let arguments = self.items(")", Self::located_argument)?;
            for (name, kind, location) in arguments {
                block.arguments.extend(self.define(name, &[kind]));
                if is_function {
                    block.names.push(self.name_of_argument(name, location));
                }
            }
        }
        self.expect(":")
    }

    fn located_argument(&mut self) -> Result<(&'a str, Type, Option<Name>)> {
        let (name, _) = self.value_name()?;
        self.expect(":")?;
        Ok((name, self.kind()?, self.named_location()?))
    }

    pub fn argument(&mut self) -> Result<(&'a str, Type)> {
        self.located_argument().map(|(name, kind, _)| (name, kind))
    }

    /// A function after its keyword. A declaration has no region.
    #[inline(never)]
    pub fn function(&mut self, with_body: bool) -> Result<Operation> {
        let mut function = Operation::new("func.func", Vec::new(), Vec::new());
        let visibility = ["public", "private", "nested"].into_iter().find(|word| self.eat(word));
        let name = self.symbol()?;
        let attributes = |this: &mut Self| match this.peek() {
            Some(b'{') => this.if_known(Self::dictionary),
            _ => Ok(Vec::new()),
        };
        let mut names = Vec::new();
        let inputs = self.list(["(", ")"], |this| {
            let mut name = "";
            if !this.is_lenient || this.peek() == Some(b'%') {
                name = this.value_name()?.0;
                this.if_known(|this| this.expect(":"))?;
            }
            let input = (this.kind()?, attributes(this)?);
            names.push((name, this.named_location()?));
            Ok(input)
        })?;
        let mut outputs = Vec::new();
        if self.eat("->") {
            outputs = match self.eat("(") {
                true => self.items(")", |this| Ok((this.kind()?, attributes(this)?)))?,
                false => vec![(self.kind()?, Vec::new())],
            };
        }
        let (inputs, input_attributes): (Vec<_>, Vec<_>) = inputs.into_iter().unzip();
        let (outputs, output_attributes): (Vec<_>, Vec<_>) = outputs.into_iter().unzip();
        let arguments: Vec<_> = names.iter().map(|(name, _)| *name).zip(inputs.iter().cloned()).collect();
        function.set("sym_name", Attribute::string(&name));
        function.set("function_type", Attribute::Type(Type::Function(Arc::new((inputs, outputs)))));
        if let Some(visibility) = visibility {
            function.set("sym_visibility", Attribute::string(visibility));
        }
        for (key, items) in [("arg_attrs", input_attributes), ("res_attrs", output_attributes)] {
            if items.iter().any(|item| !item.is_empty()) {
                let items = items.into_iter().map(|item| Attribute::Dictionary(item.into()));
                function.set(key, Attribute::Array(items.collect()));
            }
        }
        if self.eat("attributes") {
            function.attributes.extend(attributes(self)?);
        }
        if self.is_lenient && self.peek() != Some(b'{') {
            return Ok(function);
        }
        let mut region = Region { blocks: vec![Block::default()] };
        if with_body {
            // Functions do not use values from outside.
            let outer = std::mem::take(&mut self.scopes);
            region = self.region(&arguments)?;
            self.scopes = outer;
        }
        let names = names.into_iter().map(|(name, location)| self.name_of_argument(name, location));
        region.blocks[0].names = names.collect();
        function.regions.push(region);
        Ok(function)
    }

    fn name_of_argument(&self, name: &str, location: Option<Name>) -> Option<Name> {
        match location {
            // Compilers name arguments in the text.
            _ if self.is_lenient => (!name.is_empty()).then(|| format!("%{name}").into()),
            // Printers number arguments without a name.
            None => (!name.starts_with("arg")).then(|| Name::from(name)),
            location => location,
        }
    }

    /// An operation in its own syntax; the types of its results.
    fn short(&mut self, operation: &mut Operation) -> Result<Vec<Type>> {
        let word = self.word();
        operation.name = match word {
            "return" | "call" => format!("func.{word}").into(),
            "module" => "builtin.module".into(),
            _ => word.into(),
        };
        match (word, word.strip_prefix("stablehlo.").unwrap_or_default()) {
            ("func.func", _) => {
                *operation = self.function(true)?;
                return Ok(Vec::new());
            }
            ("module" | "builtin.module", _) => {
                self.head_of_module(operation)?;
                operation.regions.push(self.region(&[])?);
                return Ok(Vec::new());
            }
            ("return" | "func.return" | "sdy.return", _) | (_, "return") => {
                if self.peek() == Some(b'%') {
                    self.operand(operation)?;
                    while self.eat(",") {
                        self.operand(operation)?;
                    }
                    self.expect(":")?;
                    self.types()?;
                }
                return Ok(Vec::new());
            }
            ("call" | "func.call", _) => {
                operation.set("callee", Attribute::symbol((*self.symbol()?).into()));
                self.operands(operation)?;
            }
            ("chlo.constant", _) | (_, "constant") => {
                self.attributes(operation)?;
                let (value, kind) = self.dense()?;
                operation.set("value", value);
                return Ok(vec![kind]);
            }
            (_, "custom_call") => {
                operation.set("call_target_name", Attribute::string(&self.symbol()?));
                self.operands(operation)?;
            }
            (_, "compare") => {
                operation.set("comparison_direction", self.choice("comparison_direction")?);
                self.expect(",")?;
                self.operand(operation)?;
                self.expect(",")?;
                self.operand(operation)?;
                if self.eat(",") {
                    operation.set("compare_type", self.choice("comparison_type")?);
                }
            }
            (_, "slice") => {
                self.operand(operation)?;
                self.slices(operation)?;
            }
            (_, "get_tuple_element") => {
                self.operand(operation)?;
                let index = self.integers()?.first().copied().unwrap_or_default();
                operation.set("index", Attribute::Integer(index, Element::Number(DType::I32)));
            }
            (_, "dot_general") => {
                self.parts(operation)?;
                let dimensions = operation.remove("dot_dimension_numbers");
                let dimensions = dimensions.unwrap_or_else(|| Attribute::Dot(Arc::default()));
                operation.set("dot_dimension_numbers", dimensions);
            }
            // `(%x, %k) dim_numbers = .., window = {stride = [..], pad = [[..]], lhs_dilate = [..], reverse = [..]}`
            (_, "convolution") => {
                self.operands(operation)?;
                self.parts(operation)?;
            }
            (_, "reduce") => return self.reduce(operation),
            (_, "while") => return self.while_loop(operation),
            (_, "composite") => {
                operation.set("name", Attribute::String((*self.string()?).into()));
                self.parts(operation)?;
                self.regions(operation)?;
            }
            (_, own) if is_elementwise(own) || SHORT.binary_search(&own).is_ok() => self.parts(operation)?,
            (word, "") if word.starts_with("sdy.") => return self.of_shardy(operation),
            (word, "") if word.starts_with("chlo.") => return self.of_chlo(operation),
            _ => return self.unknown(format_args!("the operation '{word}' in a form that is not known")),
        }
        self.attributes(operation)?;
        self.expect(":")?;
        self.results(operation)
    }

    /// The types of results: the types after the arrow or, without an arrow, the types of all values.
    fn results(&mut self, operation: &Operation) -> Result<Vec<Type>> {
        if self.peek() == Some(b'(') {
            return Ok(self.signature()?.1);
        }
        let mut types = self.types()?;
        match (operation.kind(), types.len()) {
            ("optimization_barrier", _) | (_, 1) => Ok(types),
            ("select", 2) => Ok(types.split_off(1)),
            _ if self.is_lenient => Ok(types),
            _ => self.unknown("types in a form that is not known"),
        }
    }

    /// Operands and settings, between commas.
    #[inline(never)]
    pub fn parts(&mut self, operation: &mut Operation) -> Result<()> {
        while !matches!(self.peek(), Some(b':' | b'{' | b'(')) {
            if self.peek() == Some(b'%') {
                self.operand(operation)?;
            } else {
                self.keyed(operation)?;
            }
            if !self.eat(",") {
                break;
            }
        }
        Ok(())
    }

    /// A key, an equals sign, and a setting.
    fn keyed(&mut self, operation: &mut Operation) -> Result<()> {
        let key = self.word();
        self.expect("=")?;
        self.setting(key, operation)
    }

    #[inline(never)]
    pub fn setting(&mut self, key: &str, operation: &mut Operation) -> Result<()> {
        let found = SETTINGS.iter().find(|(of, known, ..)| *known == key && is_listed(of, operation.kind()));
        let Some((_, _, name, setting)) = found else {
            return match self.is_lenient {
                true => self.attribute().map(|value| operation.set(key, value)),
                false => self.unknown(format_args!("the setting '{key}'")),
            };
        };
        let value = match setting {
            Setting::Number => Attribute::number(self.integer()?),
            Setting::Numbers => Attribute::Numbers(self.integers()?.into()),
            Setting::Bool => Attribute::Bool(self.word() == "true"),
            Setting::Choice(of) => self.choice(of)?,
            Setting::Precision => Attribute::Array(self.list(["[", "]"], |this| this.choice("precision"))?.into()),
            Setting::Format => {
                let bits = self.word().strip_prefix('e').and_then(|word| word.split_once('m'));
                let bits = bits.and_then(|(exponent, mantissa)| Some([exponent.parse().ok()?, mantissa.parse().ok()?]));
                let Some(bits) = bits else { return self.unknown("a format of floats that is something else") };
                for (key, bits) in ["exponent_bits", "mantissa_bits"].into_iter().zip(bits) {
                    operation.set(key, Attribute::Integer(bits, Element::Number(DType::I32)));
                }
                return Ok(());
            }
            Setting::Conv => Attribute::Conv(self.conv()?),
            Setting::Window => {
                return self.deeper(|this| this.list(["{", "}"], |this| this.keyed(operation))).map(|_| ());
            }
            Setting::Rows => {
                let rows = self.list(["[", "]"], Self::integers)?;
                let dims = vec![rows.len() as i64, 2];
                Attribute::Dense(Arc::new(Dense::of_integers(dims, Element::Number(DType::I64), &rows.concat())))
            }
            Setting::Bools => {
                let values = self.list(["[", "]"], |this| Ok(matches!(this.word(), "true" | "1")))?;
                Attribute::Bools(values.into())
            }
            Setting::Algorithm => {
                self.expect("<")?;
                self.algorithm()?
            }
            Setting::Batching | Setting::Contracting => {
                let lhs = self.integers()?;
                self.expect("x")?;
                let rhs = self.integers()?;
                let mut dot = match operation.attribute(name) {
                    Some(Attribute::Dot(dot)) => (**dot).clone(),
                    _ => Dot::default(),
                };
                match setting {
                    Setting::Batching => (dot.lhs_batching, dot.rhs_batching) = (lhs, rhs),
                    _ => (dot.lhs_contracting, dot.rhs_contracting) = (lhs, rhs),
                }
                Attribute::Dot(Arc::new(dot))
            }
        };
        operation.set(name, value);
        Ok(())
    }

    /// `[0:2, 1:4:2]`: starts, limits and strides.
    #[inline(never)]
    fn slices(&mut self, operation: &mut Operation) -> Result<()> {
        let slices = self.list(["[", "]"], |this| {
            let start = this.integer()?;
            this.expect(":")?;
            let limit = this.integer()?;
            Ok([start, limit, if this.eat(":") { this.integer()? } else { 1 }])
        })?;
        for (i, key) in ["start_indices", "limit_indices", "strides"].into_iter().enumerate() {
            operation.set(key, Attribute::Numbers(slices.iter().map(|slice| slice[i]).collect()));
        }
        Ok(())
    }

    /// `(%x init: %a), (%y init: %b) applies stablehlo.add across dimensions = [0] : types`, or with a function after the types:
    /// ` reducer(%p: type, %q: type) {..}`.
    #[inline(never)]
    fn reduce(&mut self, operation: &mut Operation) -> Result<Vec<Type>> {
        let (mut starts, mut count) = (Vec::new(), 0);
        loop {
            self.expect("(")?;
            self.operand(operation)?;
            self.expect("init")?;
            self.expect(":")?;
            starts.extend(self.used()?);
            self.expect(")")?;
            count += 1;
            if !self.eat(",") {
                break;
            }
        }
        operation.operands.extend(&starts);
        let applied = if self.eat("applies") { Some(self.word()) } else { None };
        self.expect("across")?;
        self.key("dimensions")?;
        operation.set("dimensions", Attribute::Numbers(self.integers()?.into()));
        self.attributes(operation)?;
        self.expect(":")?;
        let types = self.signature()?.1;
        if let Some(name) = applied {
            if count != 1 {
                return self.unknown("a reduction of several arrays in short form");
            }
            let kind = starts.first().map_or(Type::None, |value| self.types[value.0 as usize].clone());
            let [left, right, result] = [0; 3].map(|_| self.value_of(kind.clone()));
            let inner = Operation::new(name, vec![left, right], vec![result]);
            let end = Operation::new("stablehlo.return", vec![result], Vec::new());
            let block = Block { arguments: vec![left, right], names: Vec::new(), operations: vec![inner, end] };
            operation.regions.push(Region { blocks: vec![block] });
            return Ok(types);
        }
        self.location()?;
        self.expect("reducer")?;
        let mut pairs = Vec::new();
        while self.eat("(") {
            pairs.push(self.items(")", Self::argument)?);
        }
        // The left sides come first.
        let side = |i: usize| pairs.iter().filter_map(move |pair| pair.get(i).cloned());
        let arguments: Vec<_> = side(0).chain(side(1)).collect();
        operation.regions.push(self.region(&arguments)?);
        Ok(types)
    }

    /// `(%a = %x, %b = %y) : types cond {..} do {..}`, perhaps with attributes before the regions.
    #[inline(never)]
    fn while_loop(&mut self, operation: &mut Operation) -> Result<Vec<Type>> {
        let names = self.list(["(", ")"], |this| {
            let (name, _) = this.value_name()?;
            this.expect("=")?;
            this.operand(operation)?;
            Ok(name)
        })?;
        let types = if self.eat(":") { self.types()? } else { Vec::new() };
        if types.len() != names.len() {
            return self.unknown("a loop whose types do not match its values");
        }
        let arguments: Vec<_> = names.into_iter().zip(types.iter().cloned()).collect();
        if self.eat("attributes") {
            operation.attributes.extend(self.dictionary()?);
        }
        for word in ["cond", "do"] {
            self.expect(word)?;
            let region = self.region(&arguments)?;
            operation.regions.push(region);
        }
        Ok(types)
    }
}
