//! Execution: one call from R, one call of the plugin.

use crate::conditions::{entry, flag, refuse, Outcome};
use crate::handle::{self, Empty};
use crate::memory;
use crate::sexp::{self, Protected, Symbol};
use extendr_api::prelude::*;
use extendr_ffi::{SET_VECTOR_ELT, SEXP, SEXPTYPE, VECTOR_ELT};
use pjrt_core::execute::{Dispatch, ExecuteOptions, Outputs};
use pjrt_core::{Buffer, Executable};

/// Options of an execution.
#[extendr]
fn execute_options_new(non_donatable: Vec<i32>, launch_id: i32) -> Outcome<Robj> {
    if let Some(bad) = non_donatable.iter().find(|&&i| i < 0) {
        refuse!(InvalidInput, "`non_donatable_input_indices` are counted from 0; {bad} is none.");
    }
    let non_donatable = non_donatable.into_iter().map(i64::from).collect();
    Ok(handle::object(ExecuteOptions { non_donatable, launch_id }))
}

/// `.External2(executable_execute)` in `pjrt_execute()`: launches the program and gives its outputs at once. The
/// function's arguments are read where R keeps them, which costs less than to hand them over.
pub extern "C" fn executable_execute(_call: SEXP, _op: SEXP, _args: SEXP, frame: SEXP) -> SEXP {
    static EXECUTABLE: Symbol = Symbol::new(c"executable");
    static OPTIONS: Symbol = Symbol::new(c"execution_options");
    static SIMPLIFY: Symbol = Symbol::new(c"simplify");
    static CHECK: Symbol = Symbol::new(c"check");
    entry(|| {
        // All that R may leave by a jump comes first: nothing is owned yet.
        let executable: &Executable = handle::get(sexp::argument(frame, &EXECUTABLE), "executable")?;
        let given = sexp::dots(frame);
        given.evaluate();
        let options = sexp::argument(frame, &OPTIONS);
        let simplify = flag(sexp::argument(frame, &SIMPLIFY), "simplify")?;
        let check = flag(sexp::argument(frame, &CHECK), "check")?;
        memory::relieve_pressure(executable.client());
        let outputs = NewOutputs::new(executable, simplify);

        if check && given.clone().any(|argument| argument.is_named()) {
            refuse!(InvalidInput, "Expected unnamed arguments: a program's inputs go by position.");
        }
        let default = ExecuteOptions::default();
        let options = if sexp::is_nil(options) { &default } else { handle::get(options, "execution_options")? };
        let inputs: Values = given.map(|argument| argument.value()).collect();
        let buffers = inputs.iter().enumerate().map(|(i, &x)| input(x, i)).collect::<Outcome<Inputs>>()?;
        let dispatch = dispatch_option()?;
        let made = memory::with_retry(|| executable.execute(&buffers, options, dispatch))?;
        outputs.fill(made);
        move_weights(executable, &inputs, options, &outputs);
        Ok(outputs.value())
    })
}

type Values = smallvec::SmallVec<[SEXP; 16]>;
type Inputs<'a> = smallvec::SmallVec<[&'a Buffer; 16]>;

fn input<'a>(x: SEXP, index: usize) -> Outcome<&'a Buffer> {
    match handle::get(x, "input") {
        Ok(buffer) => Ok(buffer),
        Err(_) if sexp::kind(x) == SEXPTYPE::EXTPTRSXP && sexp::inherits(x, c"PJRTBuffer") => {
            refuse!(
                InvalidPointer,
                "Argument {} is a null pointer: a buffer does not survive saving and loading.",
                index + 1
            )
        }
        Err(_) => refuse!(InvalidInput, "Argument {} must be a `PJRTBuffer`; create it with pjrt_buffer().", index + 1),
    }
}

/// The R objects of an execution's outputs, made before there is anything to put into them.
struct NewOutputs<'a> {
    /// The handle itself, or a list of handles.
    value: Protected<'a>,
    is_list: bool,
}

impl NewOutputs<'_> {
    fn new(executable: &Executable, simplify: bool) -> Self {
        let specs = &executable.signature().outputs;
        let count = specs.len();
        if executable.client().shares_host_memory() {
            specs.iter().for_each(|spec| memory::count_result(spec.bytes()));
        }
        if simplify && count == 1 {
            return NewOutputs { value: Protected::new(Empty::<Buffer>::new().sexp()), is_list: false };
        }
        let list = Protected::new(sexp::vector(SEXPTYPE::VECSXP, count));
        for i in 0..count {
            unsafe { SET_VECTOR_ELT(list.sexp(), i as _, Empty::<Buffer>::new().sexp()) };
        }
        NewOutputs { value: list, is_list: true }
    }

    fn value(&self) -> SEXP {
        self.value.sexp()
    }

    fn handle(&self, index: usize) -> SEXP {
        if self.is_list {
            unsafe { VECTOR_ELT(self.value(), index as _) }
        } else {
            self.value()
        }
    }

    fn fill(&self, outputs: Outputs) {
        outputs.into_iter().enumerate().for_each(|(i, output)| {
            Empty::again(self.handle(i)).fill(output);
        });
    }
}

/// An output that lives in a donated input's memory takes over what weighs that memory in R.
fn move_weights(executable: &Executable, inputs: &[SEXP], options: &ExecuteOptions, outputs: &NewOutputs) {
    for (output, alias) in executable.signature().aliases.iter().enumerate() {
        if let Some(input) = alias.filter(|&input| executable.donates(input, options)) {
            handle::move_weight(inputs[input], outputs.handle(output));
        }
    }
}

/// Where to call the plugin from: `options(pjrt.dispatch = )`.
fn dispatch_option() -> Outcome<Dispatch> {
    static DISPATCH: Symbol = Symbol::new(c"pjrt.dispatch");
    let option = unsafe { sexp::Rf_GetOption1(DISPATCH.get()) };
    match sexp::string(option) {
        None if sexp::is_nil(option) => Ok(Dispatch::Auto),
        Some("auto") => Ok(Dispatch::Auto),
        Some("inline") => Ok(Dispatch::Inline),
        Some("thread") => Ok(Dispatch::Thread),
        _ => refuse!(InvalidInput, "`options(pjrt.dispatch = )` must be \"auto\", \"inline\" or \"thread\"."),
    }
}

extendr_module! {
    mod execute;
    fn execute_options_new;
}
