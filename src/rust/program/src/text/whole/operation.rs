//! Operations: functions, MLIR's generic form, and short forms.

use super::{Pairs, Reader};
use crate::module::{Attribute, Block, Dense, Dot, Element, Name, Operation, Region, Type, Value};
use pjrt_base::error::Result;
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
];

/// Operations whose short form has operands, settings and types alone.
const SHORT: &str =
    "abs add after_all and atan2 bitcast_convert broadcast broadcast_in_dim cbrt ceil cholesky clamp complex concatenate \
     convert cosine count_leading_zeros create_token divide dot dynamic_broadcast_in_dim dynamic_iota dynamic_reshape \
     dynamic_slice dynamic_update_slice exponential exponential_minus_one fft floor get_dimension_size imag iota is_finite \
     log log_plus_one logistic maximum minimum multiply negate not optimization_barrier or pad partition_id popcnt power \
     real remainder replica_id reshape reverse rng rng_bit_generator round_nearest_afz round_nearest_even rsqrt select \
     set_dimension_size shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh transpose \
     tuple xor";

impl<'a> Reader<'a> {
    pub fn operation(&mut self) -> Result<Operation> {
        self.deeper(|this| {
            let mut names: Vec<(&'a str, usize)> = Vec::new();
            this.skip();
            let start = this.at;
            while this.peek() == Some(b'%') {
                let (name, _) = this.value_name()?;
                let count = if this.eat(":") { this.integer()? as usize } else { 1 };
                names.push((name, count));
                if !this.eat(",") {
                    this.expect("=")?;
                    break;
                }
            }
            let (mut operation, types) = match this.peek() {
                Some(b'"') => this.generic()?,
                _ => this.short()?,
            };
            this.location()?;
            let count = names.iter().fold(0usize, |sum, (_, count)| sum.saturating_add(*count));
            if count != types.len() {
                this.at = start;
                return this.unknown(&format!("{count} names for {} results", types.len()));
            }
            let mut types = &types[..];
            for (name, count) in names {
                let (own, rest) = types.split_at(count);
                operation.results.extend(this.define(name, own));
                types = rest;
            }
            Ok(operation)
        })
    }

    /// `"name"(operands) <{properties}> (regions) {attributes} : types`.
    fn generic(&mut self) -> Result<(Operation, Vec<Type>)> {
        let mut operation = Operation::new(&self.name()?, Vec::new(), Vec::new());
        self.expect("(")?;
        operation.operands = self.items(")", Self::used)?;
        if self.eat("<") {
            operation.attributes = self.dictionary()?;
            self.expect(">")?;
        }
        if self.eat("(") {
            operation.regions = self.items(")", |this| this.region(&[]))?;
        }
        if self.peek() == Some(b'{') {
            operation.attributes.extend(self.dictionary()?);
        }
        self.expect(":")?;
        let types = self.signature()?.1;
        Ok((operation, types))
    }

    /// A region in braces, whose block has arguments of its own, or these.
    fn region(&mut self, arguments: &[(&'a str, Type)]) -> Result<Region> {
        self.expect("{")?;
        self.scopes.push(HashMap::new());
        let mut block = Block::default();
        for (name, kind) in arguments {
            block.arguments.extend(self.define(name, std::slice::from_ref(kind)));
        }
        if self.eat("^") {
            self.word();
            if self.eat("(") {
                for (name, kind) in self.items(")", Self::argument)? {
                    block.arguments.extend(self.define(name, &[kind]));
                }
            }
            self.expect(":")?;
        }
        while !self.eat("}") {
            block.operations.push(self.operation()?);
        }
        self.scopes.pop();
        Ok(Region { blocks: vec![block] })
    }

    fn argument(&mut self) -> Result<(&'a str, Type)> {
        let (name, _) = self.value_name()?;
        self.expect(":")?;
        let kind = self.kind()?;
        self.location()?;
        Ok((name, kind))
    }

    fn function(&mut self) -> Result<Operation> {
        let mut function = Operation::new("func.func", Vec::new(), Vec::new());
        let visibility = ["public", "private", "nested"].into_iter().find(|word| self.eat(word));
        let name = self.symbol()?;
        self.expect("(")?;
        let attributes = |this: &mut Self| if this.peek() == Some(b'{') { this.dictionary() } else { Ok(Vec::new()) };
        let inputs = self.items(")", |this| {
            let (name, _) = this.value_name()?;
            this.expect(":")?;
            Ok((name, this.kind()?, attributes(this)?, this.named_location()?))
        })?;
        let mut outputs = Vec::new();
        if self.eat("->") {
            outputs = match self.eat("(") {
                true => self.items(")", |this| Ok((this.kind()?, attributes(this)?)))?,
                false => vec![(self.kind()?, Vec::new())],
            };
        }
        let types = (
            inputs.iter().map(|(_, kind, ..)| kind.clone()).collect(),
            outputs.iter().map(|(kind, _)| kind.clone()).collect(),
        );
        function.set("sym_name", Attribute::string(&name));
        function.set("function_type", Attribute::Type(Type::Function(Arc::new(types))));
        if let Some(visibility) = visibility {
            function.set("sym_visibility", Attribute::string(visibility));
        }
        let mut annotate = |key: &str, items: Vec<Pairs>| {
            if items.iter().any(|item| !item.is_empty()) {
                let items = items.into_iter().map(|item| Attribute::Dictionary(item.into()));
                function.set(key, Attribute::Array(items.collect()));
            }
        };
        annotate("arg_attrs", inputs.iter().map(|(_, _, attributes, _)| attributes.clone()).collect());
        annotate("res_attrs", outputs.into_iter().map(|(_, attributes)| attributes).collect());
        if self.eat("attributes") {
            function.attributes.extend(self.dictionary()?);
        }
        // Functions do not use values from outside.
        let outer = std::mem::take(&mut self.scopes);
        let arguments: Vec<_> = inputs.iter().map(|(name, kind, ..)| (*name, kind.clone())).collect();
        let mut region = self.region(&arguments)?;
        self.scopes = outer;
        let name_of = |(name, _, _, location): &(&str, Type, Pairs, Option<Name>)| {
            // Printers number arguments without a name.
            location.clone().or_else(|| (!name.starts_with("arg")).then(|| Name::from(*name)))
        };
        region.blocks[0].names = inputs.iter().map(name_of).collect();
        function.regions.push(region);
        Ok(function)
    }

    /// An operation in its own syntax, and the types of its results.
    fn short(&mut self) -> Result<(Operation, Vec<Type>)> {
        let word = self.word();
        let base = word.strip_prefix("stablehlo.").unwrap_or(word);
        let full_name = match word {
            "return" | "call" => format!("func.{word}"),
            _ => word.to_owned(),
        };
        let mut operation = Operation::new(&full_name, Vec::new(), Vec::new());
        match (word, base) {
            ("func.func", _) => return Ok((self.function()?, Vec::new())),
            ("sdy.mesh", _) => {
                operation.set("sym_name", Attribute::string(&self.symbol()?));
                self.expect("=")?;
                let mesh = self.bracketed("<")?.unwrap_or_default();
                operation.set("mesh", Attribute::Other(format!("#sdy.mesh<{mesh}>").into()));
                return Ok((operation, Vec::new()));
            }
            ("return" | "func.return" | "stablehlo.return", _) => {
                if self.peek() == Some(b'%') {
                    operation.operands = self.values()?;
                    self.expect(":")?;
                    self.types()?;
                }
                return Ok((operation, Vec::new()));
            }
            ("call" | "func.call", _) => {
                operation.set("callee", Attribute::symbol(self.symbol()?.into()));
                self.expect("(")?;
                operation.operands = self.items(")", Self::used)?;
            }
            (_, "constant") if word != base => {
                let value = self.attribute()?;
                let Attribute::Dense(dense) = &value else { return self.unknown("a constant without its type") };
                let kind = dense.kind.clone();
                operation.set("value", value);
                return Ok((operation, vec![kind]));
            }
            (_, "custom_call") if word != base => {
                operation.set("call_target_name", Attribute::string(&self.symbol()?));
                self.expect("(")?;
                operation.operands = self.items(")", Self::used)?;
            }
            (_, "compare") if word != base => {
                let direction = self.word();
                operation.set("comparison_direction", self.choice("comparison_direction", direction)?);
                self.expect(",")?;
                operation.operands = vec![self.used()?];
                self.expect(",")?;
                operation.operands.push(self.used()?);
                if self.eat(",") {
                    let kind = self.word();
                    operation.set("compare_type", self.choice("comparison_type", kind)?);
                }
            }
            (_, "slice") if word != base => {
                operation.operands = vec![self.used()?];
                self.slices(&mut operation)?;
            }
            (_, "get_tuple_element") if word != base => {
                operation.operands = vec![self.used()?];
                let index = self.integers()?.first().copied().unwrap_or_default();
                operation.set("index", Attribute::Integer(index, Element::Number(DType::I32)));
            }
            (_, "dot_general") if word != base => {
                operation.operands = vec![self.used()?];
                self.expect(",")?;
                operation.operands.push(self.used()?);
                self.dimensions_of_product(&mut operation)?;
            }
            (_, "convolution") if word != base => self.convolution(&mut operation)?,
            (_, "reduce") if word != base => return self.reduce(operation),
            (_, "while") if word != base => return self.while_loop(operation),
            _ if word != base && SHORT.split_ascii_whitespace().any(|known| known == base) => {
                self.parts(&mut operation)?
            }
            _ => return self.unknown(&format!("the operation '{word}' in a form that is not known")),
        }
        if self.peek() == Some(b'{') {
            operation.attributes.extend(self.dictionary()?);
        }
        self.expect(":")?;
        let types = self.results(&operation)?;
        Ok((operation, types))
    }

    fn values(&mut self) -> Result<Vec<Value>> {
        let mut values = vec![self.used()?];
        while self.eat(",") {
            values.push(self.used()?);
        }
        Ok(values)
    }

    fn types(&mut self) -> Result<Vec<Type>> {
        let mut types = vec![self.kind()?];
        while self.eat(",") {
            types.push(self.kind()?);
        }
        Ok(types)
    }

    /// The types of results: those after the arrow; those of all values, if there is none.
    fn results(&mut self, operation: &Operation) -> Result<Vec<Type>> {
        if self.peek() == Some(b'(') {
            return Ok(self.signature()?.1);
        }
        let mut types = self.types()?;
        match (operation.kind(), types.len()) {
            ("optimization_barrier", _) | (_, 1) => Ok(types),
            ("select", 2) => Ok(types.split_off(1)),
            _ => self.unknown("types in a form that is not known"),
        }
    }

    /// Operands and settings, between commas.
    fn parts(&mut self, operation: &mut Operation) -> Result<()> {
        while !matches!(self.peek(), Some(b':' | b'{')) {
            if self.peek() == Some(b'%') {
                operation.operands.push(self.used()?);
            } else {
                let key = self.word();
                self.expect("=")?;
                self.setting(key, operation)?;
            }
            if !self.eat(",") {
                break;
            }
        }
        Ok(())
    }

    fn setting(&mut self, key: &str, operation: &mut Operation) -> Result<()> {
        let is_of = |names: &str| names.split(' ').any(|name| name == operation.kind());
        let found = SETTINGS.iter().find(|(names, known, ..)| *known == key && is_of(names));
        let Some((_, _, name, setting)) = found else { return self.unknown(&format!("the setting '{key}'")) };
        let value = match setting {
            Setting::Number => Attribute::Integer(self.integer()?, Element::Number(DType::I64)),
            Setting::Numbers => Attribute::Numbers(self.integers()?.into()),
            Setting::Bool => Attribute::Bool(self.word() == "true"),
            Setting::Choice(of) => {
                let word = self.word();
                self.choice(of, word)?
            }
            Setting::Precision => {
                self.expect("[")?;
                let items = self.items("]", |this| {
                    let word = this.word();
                    this.choice("precision", word)
                })?;
                Attribute::Array(items.into())
            }
        };
        operation.set(name, value);
        Ok(())
    }

    /// `[0:2, 1:4:2]`: starts, limits and strides.
    fn slices(&mut self, operation: &mut Operation) -> Result<()> {
        self.expect("[")?;
        let slices = self.items("]", |this| {
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

    /// `, batching_dims = [0] x [0], contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT]`.
    fn dimensions_of_product(&mut self, operation: &mut Operation) -> Result<()> {
        let mut dot = Dot::default();
        while self.eat(",") {
            let key = self.word();
            self.expect("=")?;
            if !matches!(key, "batching_dims" | "contracting_dims") {
                self.setting(key, operation)?;
                continue;
            }
            let lhs = self.integers()?;
            self.expect("x")?;
            let rhs = self.integers()?;
            match key {
                "batching_dims" => (dot.lhs_batching, dot.rhs_batching) = (lhs, rhs),
                _ => (dot.lhs_contracting, dot.rhs_contracting) = (lhs, rhs),
            }
        }
        operation.set("dot_dimension_numbers", Attribute::Dot(Arc::new(dot)));
        Ok(())
    }

    /// `(%x, %k) dim_numbers = .., window = {stride = [..], pad = [[..]], lhs_dilate = [..], rhs_dilate = [..], reverse = [..]}`.
    fn convolution(&mut self, operation: &mut Operation) -> Result<()> {
        self.expect("(")?;
        operation.operands = self.items(")", Self::used)?;
        self.expect("dim_numbers")?;
        self.expect("=")?;
        operation.set("dimension_numbers", Attribute::Conv(Arc::new(self.conv()?)));
        self.expect(",")?;
        self.expect("window")?;
        self.expect("=")?;
        self.expect("{")?;
        self.items("}", |this| {
            let key = this.word();
            this.expect("=")?;
            match key {
                "pad" => {
                    this.expect("[")?;
                    let rows = this.items("]", Self::integers)?;
                    let dims = vec![rows.len() as i64, 2];
                    let dense = Dense::of_integers(dims, Element::Number(DType::I64), &rows.concat());
                    operation.set("padding", Attribute::Dense(Arc::new(dense)));
                }
                "reverse" => {
                    this.expect("[")?;
                    let values = this.items("]", |this| Ok(matches!(this.word(), "true" | "1")))?;
                    operation.set("window_reversal", Attribute::Bools(values.into()));
                }
                _ => {
                    let name = match key {
                        "stride" => "window_strides",
                        "lhs_dilate" => "lhs_dilation",
                        "rhs_dilate" => "rhs_dilation",
                        _ => return this.unknown(&format!("the setting '{key}'")),
                    };
                    operation.set(name, Attribute::Numbers(this.integers()?.into()));
                }
            }
            Ok(())
        })?;
        Ok(())
    }

    /// `(%x init: %a), (%y init: %b) applies stablehlo.add across dimensions = [0] : types`, or with a function after the types:
    /// ` reducer(%p: type, %q: type) {..}`.
    fn reduce(&mut self, mut operation: Operation) -> Result<(Operation, Vec<Type>)> {
        let mut starts = Vec::new();
        loop {
            self.expect("(")?;
            operation.operands.push(self.used()?);
            self.expect("init")?;
            self.expect(":")?;
            starts.push(self.used()?);
            self.expect(")")?;
            if !self.eat(",") {
                break;
            }
        }
        let starts_types: Vec<Type> = starts.iter().map(|value| self.types[value.0 as usize].clone()).collect();
        operation.operands.extend(&starts);
        let applied = if self.eat("applies") { Some(self.word()) } else { None };
        self.expect("across")?;
        self.expect("dimensions")?;
        self.expect("=")?;
        operation.set("dimensions", Attribute::Numbers(self.integers()?.into()));
        if self.peek() == Some(b'{') {
            operation.attributes.extend(self.dictionary()?);
        }
        self.expect(":")?;
        let types = self.signature()?.1;
        if let Some(name) = applied {
            let [kind] = &starts_types[..] else { return self.unknown("a reduction of several arrays in short form") };
            let [left, right, result]: [Value; 3] =
                self.define("", &[kind.clone(), kind.clone(), kind.clone()]).try_into().unwrap_or([Value(0); 3]);
            let inner = Operation::new(name, vec![left, right], vec![result]);
            let end = Operation::new("stablehlo.return", vec![result], Vec::new());
            let block = Block { arguments: vec![left, right], names: Vec::new(), operations: vec![inner, end] };
            operation.regions.push(Region { blocks: vec![block] });
            return Ok((operation, types));
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
        Ok((operation, types))
    }

    /// `(%a = %x, %b = %y) : types cond {..} do {..}`, perhaps with attributes before the regions.
    fn while_loop(&mut self, mut operation: Operation) -> Result<(Operation, Vec<Type>)> {
        self.expect("(")?;
        let names = self.items(")", |this| {
            let (name, _) = this.value_name()?;
            this.expect("=")?;
            operation.operands.push(this.used()?);
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
        Ok((operation, types))
    }
}
