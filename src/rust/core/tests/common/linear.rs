//! Matrices of complex numbers for tests of linear algebra, and programs with one custom call.

use super::{device, program};
use pjrt_base::error::Result;
use pjrt_core::executable::execute::ExecuteOptions;
use pjrt_core::executable::options::CompileOptions;
use pjrt_core::{Buffer, Device, Executable};
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;

/// The types of matrices, with LAPACK's letter, and how precise they are.
pub const TYPES: [(DType, char, f64); 4] =
    [(DType::F32, 's', 1e-4), (DType::F64, 'd', 1e-10), (DType::C64, 'c', 1e-4), (DType::C128, 'z', 1e-10)];

pub fn is_complex(dtype: DType) -> bool {
    matches!(dtype, DType::C64 | DType::C128)
}

/// The type of absolute values.
pub fn real_of(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    }
}

pub fn complex_of(dtype: DType) -> DType {
    match dtype {
        DType::F32 => DType::C64,
        DType::F64 => DType::C128,
        other => other,
    }
}

/// A complex number.
pub type C = (f64, f64);

/// A matrix in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<C>,
}

impl Matrix {
    pub fn new(rows: usize, columns: usize, value: impl Fn(usize, usize) -> C) -> Matrix {
        let values = (0..rows * columns).map(|at| value(at / columns.max(1), at % columns.max(1))).collect();
        Matrix { rows, columns, values }
    }

    pub fn at(&self, i: usize, j: usize) -> C {
        self.values[i * self.columns + j]
    }

    /// Where `keep` is false, zeros.
    pub fn only(&self, keep: impl Fn(usize, usize) -> bool) -> Matrix {
        Matrix::new(self.rows, self.columns, |i, j| if keep(i, j) { self.at(i, j) } else { (0.0, 0.0) })
    }

    pub fn lower(&self) -> Matrix {
        self.only(|i, j| i >= j)
    }

    pub fn upper(&self) -> Matrix {
        self.only(|i, j| i <= j)
    }

    pub fn rows(&self, rows: usize) -> Matrix {
        Matrix::new(rows, self.columns, |i, j| self.at(i, j))
    }

    pub fn columns(&self, columns: usize) -> Matrix {
        Matrix::new(self.rows, columns, |i, j| self.at(i, j))
    }

    pub fn adjoint(&self) -> Matrix {
        Matrix::new(self.columns, self.rows, |i, j| (self.at(j, i).0, -self.at(j, i).1))
    }

    pub fn transposed(&self) -> Matrix {
        Matrix::new(self.columns, self.rows, |i, j| self.at(j, i))
    }

    pub fn identity(n: usize) -> Matrix {
        Matrix::new(n, n, |i, j| if i == j { (1.0, 0.0) } else { (0.0, 0.0) })
    }

    pub fn diagonal(values: &[C]) -> Matrix {
        Matrix::new(values.len(), values.len(), |i, j| if i == j { values[i] } else { (0.0, 0.0) })
    }

    pub fn plus(&self, other: &Matrix) -> Matrix {
        Matrix::new(self.rows, self.columns, |i, j| {
            let (x, y) = (self.at(i, j), other.at(i, j));
            (x.0 + y.0, x.1 + y.1)
        })
    }

    pub fn times(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.columns, other.rows);
        Matrix::new(self.rows, other.columns, |i, j| {
            (0..self.columns).fold((0.0, 0.0), |sum, k| {
                let (x, y) = (self.at(i, k), other.at(k, j));
                (sum.0 + x.0 * y.0 - x.1 * y.1, sum.1 + x.0 * y.1 + x.1 * y.0)
            })
        })
    }

    pub fn trace(&self) -> C {
        (0..self.rows).fold((0.0, 0.0), |sum, i| (sum.0 + self.at(i, i).0, sum.1 + self.at(i, i).1))
    }

    pub fn squares(&self) -> f64 {
        self.values.iter().map(|x| x.0 * x.0 + x.1 * x.1).sum()
    }
}

#[track_caller]
pub fn assert_close(x: &Matrix, y: &Matrix, precision: f64) {
    assert_eq!((x.rows, x.columns), (y.rows, y.columns));
    for (x, y) in x.values.iter().zip(&y.values) {
        let difference = (x.0 - y.0).abs().max((x.1 - y.1).abs());
        assert!(difference <= precision, "{x:?} is not {y:?}");
    }
}

/// Numbers between -1 and 1 that are the same in each run.
pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub fn matrix(&mut self, dtype: DType, rows: usize, columns: usize) -> Matrix {
        let mut values = Vec::new();
        for _ in 0..rows * columns {
            let real = self.number();
            values.push((real, if is_complex(dtype) { self.number() } else { 0.0 }));
        }
        // Rounded as the type rounds them.
        let bytes = encode(dtype, &values);
        Matrix { rows, columns, values: decode(dtype, &bytes) }
    }

    /// A matrix with positive eigenvalues.
    pub fn positive(&mut self, dtype: DType, n: usize) -> Matrix {
        let x = self.matrix(dtype, n, n);
        let product = x.times(&x.adjoint()).plus(&Matrix::identity(n));
        Matrix { values: decode(dtype, &encode(dtype, &product.values)), ..product }
    }
}

pub fn encode(dtype: DType, values: &[C]) -> Vec<u8> {
    let one = |&(re, im): &C| match dtype {
        DType::I32 => (re as i32).to_ne_bytes().to_vec(),
        DType::F32 => (re as f32).to_ne_bytes().to_vec(),
        DType::F64 => re.to_ne_bytes().to_vec(),
        DType::C64 => [(re as f32).to_ne_bytes(), (im as f32).to_ne_bytes()].concat(),
        DType::C128 => [re.to_ne_bytes(), im.to_ne_bytes()].concat(),
        _ => panic!("{dtype}"),
    };
    values.iter().flat_map(one).collect()
}

pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<C> {
    let f32 = |bytes: &[u8]| f32::from_ne_bytes(bytes.try_into().unwrap()) as f64;
    let f64 = |bytes: &[u8]| f64::from_ne_bytes(bytes.try_into().unwrap());
    let one = |bytes: &[u8]| match dtype {
        DType::I32 => (f64::from(i32::from_ne_bytes(bytes.try_into().unwrap())), 0.0),
        DType::F32 => (f32(bytes), 0.0),
        DType::F64 => (f64(bytes), 0.0),
        DType::C64 => (f32(&bytes[..4]), f32(&bytes[4..])),
        DType::C128 => (f64(&bytes[..8]), f64(&bytes[8..])),
        _ => panic!("{dtype}"),
    };
    bytes.chunks_exact(dtype.host_bytes()).map(one).collect()
}

/// An operand: its type, its dimensions, and how many of these are a matrix's or vector's own.
#[derive(Debug, Clone)]
pub struct Operand {
    pub dtype: DType,
    pub dims: Vec<usize>,
    pub own: usize,
}

impl Operand {
    pub fn new(dtype: DType, batch: &[usize], own: &[usize]) -> Operand {
        Operand { dtype, dims: [batch, own].concat(), own: own.len() }
    }

    fn mlir(&self) -> String {
        let dims: String = self.dims.iter().map(|dim| format!("{dim}x")).collect();
        format!("tensor<{dims}{}>", self.dtype.info().mlir)
    }

    /// Column-major matrices, one after the other.
    fn layout(&self) -> String {
        let rank = self.dims.len();
        let mut order: Vec<_> = (0..rank).rev().collect();
        if self.own == 2 {
            order.swap(0, 1);
        }
        format!("dense<{order:?}> : tensor<{rank}xindex>")
    }
}

/// A program that calls `target`; `donated` is an attribute of its first argument.
pub fn text(target: &str, attributes: &str, inputs: &[Operand], outputs: &[Operand], donated: &str) -> String {
    let join =
        |list: &[Operand], each: &dyn Fn(&Operand) -> String| list.iter().map(each).collect::<Vec<_>>().join(", ");
    let names = (0..inputs.len()).map(|i| format!("%x{i}")).collect::<Vec<_>>();
    let arguments: Vec<_> = names
        .iter()
        .zip(inputs)
        .enumerate()
        .map(|(i, (name, input))| format!("{name}: {}{}", input.mlir(), if i == 0 { donated } else { "" }))
        .collect();
    let results: Vec<_> = (0..outputs.len()).map(|i| format!("%y{i}")).collect();
    let (takes, gives) = (join(inputs, &Operand::mlir), join(outputs, &Operand::mlir));
    format!(
        "func.func @main({}) -> ({gives}) {{
  {} = stablehlo.custom_call @{target}({}) {{api_version = 4 : i32, backend_config = {{{attributes}}},
    operand_layouts = [{}], result_layouts = [{}]}} : ({takes}) -> ({gives})
  return {} : {gives}
}}",
        arguments.join(", "),
        results.join(", "),
        names.join(", "),
        join(inputs, &Operand::layout),
        join(outputs, &Operand::layout),
        results.join(", "),
    )
}

pub fn compile(text: &str) -> Executable {
    compile_on(&device(0), text)
}

pub fn compile_on(device: &Device, text: &str) -> Executable {
    Executable::compile(std::slice::from_ref(device), &program(text), &CompileOptions::default()).unwrap()
}

pub fn upload(operand: &Operand, values: &[C]) -> Buffer {
    upload_on(&device(0), operand, values)
}

pub fn upload_on(device: &Device, operand: &Operand, values: &[C]) -> Buffer {
    let dims: Vec<_> = operand.dims.iter().map(|&dim| dim as i64).collect();
    let bytes = encode(operand.dtype, values);
    Buffer::from_bytes(device, Spec::new(operand.dtype, &dims).unwrap(), &bytes).unwrap()
}

pub fn values(buffer: &Buffer) -> Vec<C> {
    decode(buffer.dtype(), buffer.read().unwrap().bytes())
}

/// The outputs of a program, as numbers.
pub fn run(executable: &Executable, inputs: &[&Buffer]) -> Result<Vec<Vec<C>>> {
    let outputs = executable.execute(inputs, &ExecuteOptions::default())?;
    for output in &outputs {
        output.wait()?;
    }
    Ok(outputs.iter().map(values).collect())
}

/// Calls `target` with these inputs.
pub fn try_call(
    target: &str,
    attributes: &str,
    inputs: &[(Operand, Vec<C>)],
    outputs: &[Operand],
) -> Result<Vec<Vec<C>>> {
    let (operands, buffers): (Vec<_>, Vec<_>) =
        inputs.iter().map(|(operand, values)| (operand.clone(), upload(operand, values))).unzip();
    let text = text(target, attributes, &operands, outputs, "");
    let executable = Executable::compile(&[device(0)], &program(&text), &CompileOptions::default())?;
    run(&executable, &buffers.iter().collect::<Vec<_>>())
}

/// An input of a batch: the type and the dimensions of each item, and the items' values.
pub type Items<'a> = (DType, &'a [usize], &'a [Vec<C>]);

/// Calls `target` with a batch for each input: the dimensions of each item, and the items' values. Returns the outputs
/// of each item. There are batches of no dimension, of two, and an empty one.
pub fn call(target: &str, attributes: &str, inputs: &[Items<'_>], outputs: &[(DType, &[usize])]) -> Vec<Vec<Matrix>> {
    let count = inputs[0].2.len();
    let batch: &[usize] = if count == 1 { &[] } else { &[count / 2, 2] };
    let of = |batch: &[usize], count: usize| {
        let inputs: Vec<_> = inputs
            .iter()
            .map(|(dtype, dims, items)| (Operand::new(*dtype, batch, dims), items[..count].concat()))
            .collect();
        let results: Vec<_> = outputs.iter().map(|(dtype, dims)| Operand::new(*dtype, batch, dims)).collect();
        try_call(target, attributes, &inputs, &results).unwrap()
    };
    if count > 1 {
        assert!(of(&[3, 0], 0).iter().all(Vec::is_empty));
    }
    let found = of(batch, count);
    let item = |i: usize| {
        let matrix = |(values, (_, dims)): (&Vec<C>, &(DType, &[usize]))| {
            let (rows, columns) = match dims {
                [] => (1, 1),
                [n] => (1, *n),
                [m, n] => (*m, *n),
                _ => panic!("{dims:?}"),
            };
            let size = rows * columns;
            Matrix { rows, columns, values: values[i * size..(i + 1) * size].to_vec() }
        };
        found.iter().zip(outputs).map(matrix).collect()
    };
    (0..count).map(item).collect()
}
