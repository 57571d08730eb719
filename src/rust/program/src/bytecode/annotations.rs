//! The annotations about devices of a program in bytecode. Unreadable ones are omitted.

use super::attributes::{Entries, Entry};
use super::operations::Operation;
use super::reader::Reader;
use super::Tables;
use crate::annotations::{Annotations, Array, ALIAS, DONOR, PARTITIONS, PATH, REPLICAS, SHARDINGS};
use pjrt_base::error::Result;

/// Numbers of kinds, of MLIR itself and of the portable form.
const ARRAY: [u64; 2] = [0, 1];
const DICTIONARY: [u64; 2] = [1, 6];
const STRING: [u64; 2] = [2, 14];
const INTEGER: [u64; 2] = [8, 9];
const TYPE: [u64; 2] = [6, 17];
const FUNCTION: [u64; 2] = [2, 8];
const TENSOR: [u64; 2] = [13, 20];
const ENCODED_TENSOR: [u64; 2] = [14, 21];

/// The entry function.
pub(super) const MAIN: &[u8] = b"main";

/// The portable form has no locations of its own.
const NAME_LOCATION: [u64; 2] = [14, u64::MAX];

/// Reads the annotations of an operation if it is the module or the entry function.
pub(super) fn note(operation: &Operation<'_>, tables: &Tables<'_>, notes: &mut Annotations) {
    let program = Program::new(tables);
    match (operation.dialect, operation.name) {
        (b"builtin", b"module") => {
            let number = |name: &[u8]| program.integer(program.item(operation.attributes?, name)?);
            notes.num_replicas = notes.num_replicas.or_else(|| number(REPLICAS));
            notes.num_partitions = notes.num_partitions.or_else(|| number(PARTITIONS));
        }
        (b"func", b"func") | (b"vhlo", b"func_v1") => {
            if let Some((inputs, outputs)) = program.arrays(operation) {
                (notes.inputs, notes.outputs) = (Some(inputs), Some(outputs));
            }
        }
        _ => {}
    }
}

/// Reads attributes and types.
pub(super) struct Program<'a> {
    entries: &'a Entries<'a>,
    strings: &'a [&'a [u8]],
}

/// A function's attributes.
#[derive(Default)]
struct Function<'a> {
    name: Option<&'a Entry<'a>>,
    shape: Option<&'a Entry<'a>>,
    inputs: Option<&'a Entry<'a>>,
    outputs: Option<&'a Entry<'a>>,
}

impl<'a> Program<'a> {
    pub fn new(tables: &'a Tables<'_>) -> Self {
        Program { entries: &tables.entries, strings: &tables.strings }
    }

    /// The name of a function.
    pub fn function_name(&self, operation: &Operation<'a>) -> Option<&'a [u8]> {
        self.string(self.function(operation)?.name?)
    }

    /// The name that a location gives to its place, if it does.
    pub fn location_name(&self, location: usize) -> Option<&'a [u8]> {
        // Both forms have MLIR's own locations.
        let mut content = self.content(self.entries.attribute_number(location), NAME_LOCATION)?;
        self.string(self.entries.attribute(&mut content).ok()?)
    }

    /// The inputs and outputs of the function `main`; `None` for another function.
    fn arrays(&self, operation: &Operation<'a>) -> Option<(Vec<Array>, Vec<Array>)> {
        let function = self.function(operation)?;
        if self.string(function.name?)? != MAIN {
            return None;
        }
        let mut shape = function.shape?;
        if let Some(mut content) = self.content(shape, TYPE) {
            shape = self.entries.type_at(&mut content).ok()?;
        }
        let mut content = self.content(shape, FUNCTION)?;
        let inputs = self.types(&mut content)?;
        let outputs = self.types(&mut content)?;
        Some((self.annotated(inputs, function.inputs)?, self.annotated(outputs, function.outputs)?))
    }

    fn function(&self, operation: &Operation<'a>) -> Option<Function<'a>> {
        let Some(mut properties) = operation.properties else {
            // Bytecode from before operations had properties.
            let item = |name: &[u8]| self.item(operation.attributes?, name);
            return Some(Function {
                name: item(b"sym_name"),
                shape: item(b"function_type"),
                inputs: item(b"arg_attrs"),
                outputs: item(b"res_attrs"),
            });
        };
        let mut attribute = || self.entries.attribute(&mut properties).ok();
        if operation.dialect == b"vhlo" {
            let (inputs, shape, outputs, name) = (attribute(), attribute(), attribute(), attribute());
            return Some(Function { name, shape, inputs, outputs });
        }
        // In the order of their names; `no_inline` is one of them.
        let mut optional = |is_optional: bool| -> Option<Option<&'a Entry<'a>>> {
            if is_optional {
                self.entries.optional_attribute(&mut properties).ok()
            } else {
                self.entries.attribute(&mut properties).ok().map(Some)
            }
        };
        let inputs = optional(true)?;
        let shape = optional(false)?;
        optional(true)?;
        let outputs = optional(true)?;
        Some(Function { name: optional(false)?, shape, inputs, outputs })
    }

    /// Arrays of these shapes, and what their attributes say, which are omitted if empty.
    fn annotated(&self, dims: Vec<Option<Vec<i64>>>, attributes: Option<&'a Entry<'a>>) -> Option<Vec<Array>> {
        let attributes = match attributes {
            Some(list) => self.list(list)?,
            None => Vec::new(),
        };
        if !attributes.is_empty() && attributes.len() != dims.len() {
            return None;
        }
        let has_sharding = |i: usize| {
            let Some(attributes) = attributes.get(i) else { return false };
            SHARDINGS.iter().any(|name| self.item(attributes, name).is_some())
                || self
                    .item(attributes, b"mhlo.frontend_attributes")
                    .is_some_and(|inner| SHARDINGS.iter().any(|name| self.item(inner, name).is_some()))
        };
        let path = |i: usize| {
            let path = self.string(self.item(attributes.get(i)?, PATH)?)?;
            std::str::from_utf8(path).ok().map(str::to_owned)
        };
        let item = |i: usize, name: &[u8]| self.item(attributes.get(i)?, name);
        let array = |(i, dims)| Array {
            dims,
            has_sharding: has_sharding(i),
            path: path(i),
            is_donated: item(i, ALIAS).is_some() || item(i, DONOR).is_some(),
            alias: item(i, ALIAS).and_then(|number| usize::try_from(self.integer(number)?).ok()),
        };
        Some(dims.into_iter().enumerate().map(array).collect())
    }

    /// The rest of an entry after the number of its kind, if it is of this kind in one of the forms.
    fn content(&self, entry: &Entry<'a>, kinds: [u64; 2]) -> Option<Reader<'a>> {
        let kind = match entry.dialect() {
            b"builtin" => kinds[0],
            b"vhlo" => kinds[1],
            _ => return None,
        };
        entry.kind().ok().flatten().filter(|&(found, _)| found == kind).map(|(_, content)| content)
    }

    pub fn string(&self, entry: &Entry<'a>) -> Option<&'a [u8]> {
        let mut content = self.content(entry, STRING)?;
        Some(self.strings[content.index(self.strings.len()).ok()?])
    }

    fn integer(&self, entry: &Entry<'a>) -> Option<i64> {
        let mut content = self.content(entry, INTEGER)?;
        self.entries.type_at(&mut content).ok()?;
        signed(&mut content).ok()
    }

    fn list(&self, entry: &Entry<'a>) -> Option<Vec<&'a Entry<'a>>> {
        let mut content = self.content(entry, ARRAY)?;
        let count = content.count().ok()?;
        (0..count).map(|_| self.entries.attribute(&mut content).ok()).collect()
    }

    /// The value for a name in a dictionary.
    fn item(&self, dictionary: &Entry<'a>, name: &[u8]) -> Option<&'a Entry<'a>> {
        let mut content = self.content(dictionary, DICTIONARY)?;
        for _ in 0..content.count().ok()? {
            let key = self.entries.attribute(&mut content).ok()?;
            let value = self.entries.attribute(&mut content).ok()?;
            if self.string(key)? == name {
                return Some(value);
            }
        }
        None
    }

    /// A list of types: the dimensions of each that is an array of fixed size.
    fn types(&self, content: &mut Reader<'a>) -> Option<Vec<Option<Vec<i64>>>> {
        let count = content.count().ok()?;
        (0..count).map(|_| Some(self.dims(self.entries.type_at(content).ok()?))).collect()
    }

    fn dims(&self, entry: &Entry<'a>) -> Option<Vec<i64>> {
        let mut content = self.content(entry, TENSOR).or_else(|| {
            let mut content = self.content(entry, ENCODED_TENSOR)?;
            // The encoding.
            self.entries.attribute(&mut content).ok()?;
            Some(content)
        })?;
        let count = content.count().ok()?;
        (0..count).map(|_| signed(&mut content).ok().filter(|&dim| dim >= 0)).collect()
    }
}

/// A number with its sign in the last bit.
fn signed(reader: &mut Reader<'_>) -> Result<i64> {
    let (number, is_negative) = reader.flagged()?;
    Ok(if is_negative { !(number as i64) } else { number as i64 })
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use crate::annotations::{Annotations, Array};
    use crate::mlir;

    fn fixture(name: &str) -> Vec<u8> {
        let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).unwrap()
    }

    fn of(name: &str) -> Annotations {
        check(&fixture(name)[4..]).unwrap()
    }

    #[test]
    fn bytecode_and_its_text_are_read_alike() {
        for name in ["gspmd", "shardy"] {
            let text = mlir::read(&fixture(&format!("sharded/step-{name}.mlir"))).unwrap();
            assert_eq!((text.num_replicas, text.num_partitions), (Some(1), Some(4)));
            let array =
                |dims: &[i64], has_sharding| Array { dims: Some(dims.into()), has_sharding, ..Array::default() };
            let inputs = [array(&[8, 4], true), array(&[4, 6], true), array(&[6], false)];
            assert_eq!(text.inputs.as_deref(), Some(&inputs[..]));
            let output = |dims, path: &str| Array { path: Some(path.into()), ..array(dims, false) };
            assert_eq!(text.outputs.as_deref(), Some(&[output(&[8, 6], "result[0]"), output(&[8], "result[1]")][..]));
            for form in ["mlirbc", "artifact"] {
                assert_eq!(of(&format!("sharded/step-{name}.{form}")), text, "{name} {form}");
            }
        }
        let sharded = Array { dims: Some(vec![4, 3]), has_sharding: true, ..Array::default() };
        assert_eq!(of("sharded.mlirbc").inputs, Some(vec![sharded.clone()]));
        assert_eq!(of("sharded.mlirbc").outputs, Some(vec![sharded]));
    }

    #[test]
    fn inputs_say_whether_and_where_their_memory_goes() {
        let inputs = |name: &str| -> Vec<(bool, Option<usize>)> {
            of(name).inputs.unwrap().iter().map(|input| (input.is_donated, input.alias)).collect()
        };
        assert!(inputs("donor.mlirbc").contains(&(true, None)));
        assert!(inputs("donating.mlirbc").iter().any(|&(is_donated, alias)| is_donated && alias.is_some()));
        assert_eq!(inputs("square.mlirbc"), [(false, None)]);
    }

    #[test]
    fn programs_for_one_device_may_omit_the_device_count() {
        for name in ["square.mlirbc", "square.artifact"] {
            let found = of(name);
            assert_eq!((found.num_replicas, found.num_partitions), (None, None), "{name}");
            let array = Array { dims: Some(vec![2, 2]), has_sharding: false, ..Array::default() };
            assert_eq!((found.inputs, found.outputs), (Some(vec![array.clone()]), Some(vec![array])), "{name}");
        }
    }
}
