//! Loops and branches.

use super::{like, strange, Known, Refiner};
use pjrt_base::error::Result;
use pjrt_ir::module::{Operation, Region, Type, Value};

impl<'m> Refiner<'m> {
    /// The types of a region's arguments, as they are declared.
    pub(super) fn region_types(&self, region: &Region) -> Vec<Type> {
        let arguments = region.blocks.iter().flat_map(|block| &block.arguments);
        arguments.map(|&argument| self.declared(argument).clone()).collect()
    }

    /// Builds a region with arguments of these types, and of these integers where they are known; with what it returns.
    pub(super) fn region(
        &mut self,
        region: &'m Region,
        types: Vec<Type>,
        known: &[Option<Known>],
    ) -> Result<(Region, Vec<Value>)> {
        let [source] = region.blocks.as_slice() else { return Err(strange("a region with several blocks")) };
        ensure!(types.len() == source.arguments.len(), strange("a region with other arguments than it declares"));
        let mut block = self.empty(source, types, known);
        let outer = std::mem::take(&mut self.out);
        let results = self.block(source)?;
        block.operations = std::mem::replace(&mut self.out, outer);
        let last = source.operations.last().map_or("stablehlo.return", |last| &last.name);
        block.operations.push(Operation::new(last, results.clone(), Vec::new()));
        Ok((Region { blocks: vec![block] }, results))
    }

    /// A loop. Values that its body returns as they are stay known.
    pub(super) fn repeat(&mut self, source: &'m Operation, operands: Vec<Value>) -> Result<Vec<Value>> {
        let [condition, body] = source.regions.as_slice() else { return Err(strange("a loop without a body")) };
        let block = source.block(1).ok_or_else(|| strange("a loop without a body"))?;
        let returned = block.operations.last().map(|last| last.operands.as_slice()).unwrap_or_default();
        let stays = |i: usize| returned.get(i).is_some_and(|value| block.arguments.get(i) == Some(value));
        let known: Vec<Option<Known>> =
            (0..operands.len()).map(|i| self.known(operands[i]).cloned().filter(|_| stays(i))).collect();
        let types = self.types_of(&operands);
        let (condition, _) = self.region(condition, types.clone(), &known)?;
        let (body, _) = self.region(body, types.clone(), &known)?;
        let operation = Operation { regions: vec![condition, body], ..like(source, operands) };
        let results = self.push(operation, types)?;
        Ok(self.with_known(results, &known))
    }

    /// A choice between regions; if it is known, the operations of the chosen one.
    pub(super) fn choose(&mut self, source: &'m Operation, operands: Vec<Value>) -> Result<Vec<Value>> {
        let index = operands.first().and_then(|&operand| self.known(operand)).and_then(|known| known.first().copied());
        if let Some(index) = index {
            let last = source.regions.len().saturating_sub(1);
            let chosen = match source.kind() {
                "if" => usize::from(index == 0),
                // Any other number stands for the last one.
                _ => usize::try_from(index).map_or(last, |index| index.min(last)),
            };
            let block = source.block(chosen).ok_or_else(|| strange("a branch without operations"))?;
            return self.block(block);
        }
        let mut operation = like(source, operands);
        let mut types = Vec::new();
        for (i, region) in source.regions.iter().enumerate() {
            let (region, results) = self.region(region, Vec::new(), &[])?;
            operation.regions.push(region);
            let found = self.types_of(&results);
            ensure!(i == 0 || found == types, strange("branches with results of different types"));
            types = found;
        }
        self.push(operation, types)
    }

    /// The body of a function as the region of an operation.
    pub(super) fn function_region(&mut self, name: &str) -> Result<Region> {
        let region = self.called(name)?.regions.first().ok_or_else(|| strange("a function without a body"))?;
        let types = self.region_types(region);
        let outer = std::mem::take(&mut self.values);
        let (mut region, _) = self.region(region, types, &[])?;
        self.values = outer;
        if let Some(last) = region.blocks.first_mut().and_then(|block| block.operations.last_mut()) {
            last.name = "stablehlo.return".into();
        }
        Ok(region)
    }
}
