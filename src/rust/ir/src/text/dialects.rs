//! Short forms of the operations of Shardy and of CHLO.

use super::read::{utf8, Reader, Result};
use crate::module::{Attribute, Operation, Type};

impl Reader<'_> {
    /// What comes after the name of an operation of Shardy; the types of the results.
    #[inline(never)]
    pub fn of_shardy(&mut self, operation: &mut Operation) -> Result<Vec<Type>> {
        match operation.base() {
            "mesh" => {
                operation.set("sym_name", Attribute::string(&self.symbol()?));
                self.expect("=")?;
                self.inside(operation, "mesh", "<", "#sdy.mesh<", ">")?;
                self.attributes(operation)?;
                Ok(Vec::new())
            }
            "sharding_constraint" | "reshard" => {
                self.operand(operation)?;
                self.inside(operation, "sharding", "<", "#sdy.sharding<", ">")?;
                self.attributes(operation)?;
                self.expect(":")?;
                self.types()
            }
            "sharding_group" => {
                self.operand(operation)?;
                self.key("group_id")?;
                operation.set("group_id", Attribute::number(self.integer()?));
                self.attributes(operation)?;
                self.expect(":")?;
                self.types().map(|_| Vec::new())
            }
            "manual_computation" | "named_computation" => self.computation(operation),
            _ => self.unknown(format_args!("the operation '{}' in a form that is not known", operation.name)),
        }
    }

    /// `<"name">(%x) in_shardings=[..] out_shardings=[..] manual_axes={..} (%y: type) {..} : types`.
    fn computation(&mut self, operation: &mut Operation) -> Result<Vec<Type>> {
        if self.eat("<") {
            operation.set("name", Attribute::String((*self.string()?).into()));
            self.expect(">")?;
        }
        self.operands(operation)?;
        for (key, open, prefix, suffix) in [
            ("in_shardings", "[", "#sdy.sharding_per_value<[", "]>"),
            ("out_shardings", "[", "#sdy.sharding_per_value<[", "]>"),
            ("manual_axes", "{", "#sdy<manual_axes{", "}>"),
        ] {
            if self.eat(key) {
                self.expect("=")?;
                self.inside(operation, key, open, prefix, suffix)?;
            }
        }
        let arguments = self.list(["(", ")"], Self::argument)?;
        operation.regions.push(self.region(&arguments)?);
        self.attributes(operation)?;
        self.expect(":")?;
        Ok(self.signature()?.1)
    }

    /// Sets an attribute to what is in the brackets that come next, between other brackets.
    fn inside(&mut self, operation: &mut Operation, key: &str, open: &str, prefix: &str, suffix: &str) -> Result<()> {
        let Some(content) = self.bracketed(open)? else { return self.expect(open) };
        operation.set(key, Attribute::Other(format!("{prefix}{}{suffix}", utf8(content)).into()));
        Ok(())
    }

    /// What comes after the name of an operation of CHLO: `%x, %y : type -> type`, or `(%x, k = 2) : type -> types`.
    #[inline(never)]
    pub fn of_chlo(&mut self, operation: &mut Operation) -> Result<Vec<Type>> {
        if operation.base() == "top_k" {
            self.expect("(")?;
            self.operand(operation)?;
            while self.eat(",") {
                let key = self.word();
                self.expect("=")?;
                let value = self.attribute()?;
                operation.set(key, value);
            }
            self.expect(")")?;
        } else {
            self.parts(operation)?;
        }
        self.attributes(operation)?;
        self.expect(":")?;
        if self.peek() == Some(b'(') {
            return Ok(self.signature()?.1);
        }
        let types = self.types()?;
        match self.eat("->") {
            true if self.eat("(") => self.items(")", Self::kind),
            true => self.types(),
            false => Ok(types[..1].to_vec()),
        }
    }
}
