//! Operators: functions of buffers that run at once. Each is a small program, made for an operation, the types and shapes of its
//! operands, and their device. It is kept until others were used more recently.

pub mod scalars;

use crate::buffer::Buffer;
use crate::cache::Cache;
use crate::client::Client;
use crate::compile::queue::Compiling;
use crate::executable::execute::Dispatch;
use crate::executable::options::CompileOptions;
use crate::executable::Executable;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_data::array::Spec;
use pjrt_data::dtype::DType;
use pjrt_data::hash::Mixer;
use pjrt_program::eager::{self, Operand, Operation};
use pjrt_program::program::{Format, Program};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// What an operator is to compute.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub operation: Operation,
    pub operands: &'a [&'a Buffer],
    pub parameters: &'a [i64],
    /// The type of fractions that integers give.
    pub float: DType,
}

/// How many programs were made, and what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that are kept now.
    pub kept: usize,
    pub made: u64,
    /// Those that made room for others.
    pub evictions: u64,
}

/// The programs of operators.
#[derive(Debug, Default)]
pub struct Operators {
    /// By the hash of what each was made for.
    programs: HashMap<u64, Made>,
    /// Counts the uses, for their order.
    clock: u64,
    made: u64,
    evictions: u64,
}

/// A program, and what it was made for.
#[derive(Debug)]
struct Made {
    operation: Operation,
    operands: SmallVec<[Arc<Spec>; 2]>,
    parameters: Box<[i64]>,
    float: DType,
    device: usize,
    executable: Executable,
    last_use: u64,
}

impl Request<'_> {
    /// The buffer whose device the others must be on.
    fn first(&self) -> Result<&Buffer> {
        match self.operands.first() {
            Some(first) => Ok(first),
            None => bail!(Internal, "An operator needs a buffer."),
        }
    }

    /// Checks that the operands can be used, together.
    ///
    /// # Errors
    /// `DeletedBuffer`, `ClientClosed`, `Forked` and `DeviceMismatch`.
    pub fn check(&self) -> Result<()> {
        let first = self.first()?;
        for operand in self.operands {
            operand.check_alive()?;
            if !(operand.client().same(first.client()) && operand.device_index() == first.device_index()) {
                return Err(self.device_error(first, operand));
            }
        }
        Ok(())
    }

    #[cold]
    fn device_error(&self, first: &Buffer, other: &Buffer) -> Error {
        let is_one_client = self.operands.iter().all(|operand| operand.client().same(other.client()));
        let message = format!(
            "`{}` takes buffers on one device, not on '{}' and '{}'{}.",
            self.operation.name(),
            first.device().label(),
            other.device().label(),
            if is_one_client { "" } else { " of different clients" }
        );
        Error::new(Kind::DeviceMismatch, message).hint(Reason::BufferElsewhere)
    }

    fn hash(&self) -> Result<u64> {
        let first = self.first()?;
        let mut mixer = Mixer::default();
        mixer.word(self.operation as u64);
        mixer.word(first.client().id());
        mixer.word((first.device_index() as u64) << 8 | self.float as u64);
        for operand in self.operands {
            mixer.word((operand.dims().len() as u64) << 8 | operand.dtype() as u64);
            operand.dims().iter().for_each(|&dim| mixer.word(dim as u64));
        }
        self.parameters.iter().for_each(|&parameter| mixer.word(parameter as u64));
        Ok(mixer.finish())
    }

    /// Compiles the program for this, or loads it from the cache. Waits.
    ///
    /// # Errors
    /// The errors of [`eager::program`] for operands that do not fit, and of a compilation.
    pub fn compile(&self, cache: Option<&Cache>, dispatch: Dispatch) -> Result<Executable> {
        let operands: SmallVec<[Operand; 2]> =
            self.operands.iter().map(|operand| Operand { dtype: operand.dtype(), shape: operand.dims() }).collect();
        let text = eager::program(self.operation, &operands, self.parameters, self.float)?;
        let program = Program::new(text.into_bytes(), Format::Mlir)?;
        let options = CompileOptions { dispatch, ..CompileOptions::default() };
        Compiling::start(cache, &[self.first()?.device()], &program, &options)?.wait()
    }
}

impl Operators {
    /// The program for this, if it is kept.
    ///
    /// # Errors
    /// As [`Request::check`].
    pub fn find(&mut self, request: &Request) -> Result<Option<Executable>> {
        request.check()?;
        let Some(made) = self.programs.get_mut(&request.hash()?) else { return Ok(None) };
        if !made.is_for(request) {
            return Ok(None);
        }
        self.clock += 1;
        made.last_use = self.clock;
        Ok(Some(made.executable.clone()))
    }

    /// Keeps a program, and drops those that were used least recently, so that there are `most` at most.
    ///
    /// # Errors
    /// `Internal` for a request without operands.
    pub fn keep(&mut self, request: &Request, executable: Executable, most: usize) -> Result<()> {
        self.made += 1;
        self.programs.retain(|_, made| made.executable.client().handle().is_ok());
        while self.programs.len() >= most.max(1) {
            let oldest = self.programs.iter().map(|(&hash, made)| (made.last_use, hash)).min();
            let Some((_, hash)) = oldest else { break };
            self.programs.remove(&hash);
            self.evictions += 1;
        }
        if most == 0 {
            return Ok(());
        }
        self.clock += 1;
        let made = Made {
            operation: request.operation,
            operands: request.operands.iter().map(|operand| operand.spec().clone()).collect(),
            parameters: request.parameters.into(),
            float: request.float,
            device: request.first()?.device_index(),
            executable,
            last_use: self.clock,
        };
        self.programs.insert(request.hash()?, made);
        Ok(())
    }

    /// Drops the programs of a client.
    pub fn forget(&mut self, client: &Client) {
        self.programs.retain(|_, made| !made.executable.client().same(client));
    }

    pub fn counts(&self) -> Counts {
        Counts { kept: self.programs.len(), made: self.made, evictions: self.evictions }
    }
}

impl Made {
    /// Whether it is the program for this. The hash says so already for all but the rarest cases.
    fn is_for(&self, request: &Request) -> bool {
        let fits = |(spec, operand): (&Arc<Spec>, &&Buffer)| {
            Arc::ptr_eq(spec, operand.spec()) || spec.dtype == operand.dtype() && *spec.dims == *operand.dims()
        };
        self.operation == request.operation
            && self.operands.len() == request.operands.len()
            && self.operands.iter().zip(request.operands).all(fits)
            && *self.parameters == *request.parameters
            && self.float == request.float
            && request.operands.first().is_some_and(|first| {
                first.device_index() == self.device && first.client().same(self.executable.client())
            })
    }
}
