//! Checks of an execution's inputs against the executable's signature, before the plugin sees them.

use crate::buffer::Buffer;
use crate::client::device::Device;
use crate::executable::execute::{ExecuteOptions, Handles};
use crate::executable::{Executable, Placement, ProgramInput};
use crate::runtime::plugin::Plugin;
use pjrt_base::callbacks;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result, FAILED_PRECONDITION};
use pjrt_base::reason::Reason;
use pjrt_program::names;
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::sync::Arc;

/// How deep programs and functions of the host may nest. Each program waits for its function, and a plugin runs only some programs
/// at a time: XLA's for CPUs 32. Then the next one would wait for ever.
const MOST_NESTED: usize = 16;

#[cold]
fn nested_too_deep(depth: usize) -> Error {
    let message = format!("Programs and the functions that they call nest {depth} levels deep, which is the limit.");
    Error::new(Kind::Pjrt(FAILED_PRECONDITION), message)
        .hint("Let the function return, and execute the next program then.")
}

impl Executable {
    /// Checks the inputs of one device, given by its index.
    pub(crate) fn check(&self, device: usize, inputs: &[&Buffer], options: &ExecuteOptions) -> Result<()> {
        let depth = callbacks::depth();
        if depth >= MOST_NESTED {
            return Err(nested_too_deep(depth));
        }
        let expected = &self.signature().inputs;
        if inputs.len() != expected.len() {
            return Err(self.count_error(inputs.len()));
        }
        self.check_non_donatable(options)?;
        let mut donated = 0;
        for (index, (input, want)) in inputs.iter().zip(expected).enumerate() {
            if input.is_dead() {
                return Err(self.dead_input_error(index, input));
            }
            let placed = input.device_index() == device && input.client().same(self.client());
            let fits = Arc::ptr_eq(input.spec(), &want.spec) || **input.spec() == *want.spec;
            if !(placed && fits) {
                // The order of a buffer that is not made yet is a guess.
                let is_surprise = placed && input.made().is_ok() && **input.spec() == *want.spec;
                if !is_surprise {
                    return Err(self.input_error(device, index, input));
                }
            }
            donated += usize::from(want.donated && self.donates(index, options));
        }
        if donated > 0 {
            self.check_sole_use(inputs, options)?;
        }
        Ok(())
    }

    /// The handles of inputs that were checked before their launches had run. Only now their memory orders are certain.
    pub(crate) fn made(&self, device: usize, inputs: &[impl Borrow<Buffer>]) -> Result<Handles> {
        let made = |(index, (input, want)): (usize, (&Buffer, &ProgramInput))| {
            let handle = input.made()?;
            if Arc::ptr_eq(input.spec(), &want.spec) || **input.spec() == *want.spec {
                return Ok(handle);
            }
            Err(self.input_error(device, index, input))
        };
        inputs.iter().map(Borrow::borrow).zip(&self.signature().inputs).enumerate().map(made).collect()
    }

    /// Checks that no buffer that is taken over is used for a second input.
    fn check_sole_use(&self, inputs: &[&Buffer], options: &ExecuteOptions) -> Result<()> {
        // Equal ones are then neighbours.
        let mut by_place: SmallVec<[(usize, usize); 16]> =
            inputs.iter().enumerate().map(|(index, input)| (input.place(), index)).collect();
        by_place.sort_unstable();
        let is_shared = |pair: &&[(usize, usize)]| {
            pair[0].0 == pair[1].0 && pair.iter().any(|&(_, index)| self.donates(index, options))
        };
        match by_place.windows(2).find(is_shared) {
            Some(pair) if self.donates(pair[0].1, options) => Err(self.shared_donation_error(pair[0].1, pair[1].1)),
            Some(pair) => Err(self.shared_donation_error(pair[1].1, pair[0].1)),
            None => Ok(()),
        }
    }

    #[cold]
    fn shared_donation_error(&self, donated: usize, other: usize) -> Error {
        let [first, second] =
            [donated.min(other), donated.max(other)].map(|index| lower(self.signature().argument(index)));
        let message = format!(
            "Attempt to donate the same buffer twice, or to use it again: {first} and {second} are the same buffer."
        );
        Error::new(Kind::InvalidInput, message)
            .hint("The program takes over the memory of that input: use another buffer with the same elements.")
            .hint(Reason::DonationShared { index: donated + 1 })
    }

    fn check_non_donatable(&self, options: &ExecuteOptions) -> Result<()> {
        let count = self.signature().inputs.len();
        match options.non_donatable.iter().find(|&&index| !(0..count as i64).contains(&index)) {
            Some(index) => {
                bail!(
                    InvalidInput,
                    "`non_donatable_input_indices` has {index}, but the program takes {}, counted from 0.",
                    counted(count, "argument")
                )
            }
            None => Ok(()),
        }
    }

    #[cold]
    fn count_error(&self, got: usize) -> Error {
        let input = |input: &ProgramInput| match input.name.as_str() {
            "" => input.spec.to_string(),
            name => format!("`{name}`: {}", input.spec),
        };
        let inputs: Vec<_> = self.signature().inputs.iter().map(input).collect();
        let message = match inputs.len() {
            0 => format!("The program takes no arguments, but got {got}."),
            1 => format!("The program takes 1 argument ({}), but got {got}.", inputs[0]),
            n => format!("The program takes {n} arguments ({}), but got {got}.", names::listed(inputs)),
        };
        Error::new(Kind::ArgumentCount, message)
    }

    #[cold]
    fn dead_input_error(&self, index: usize, input: &Buffer) -> Error {
        let argument = self.signature().argument(index);
        input.explain_death(&format!("{argument}: the program was called on"))
    }

    #[cold]
    fn input_error(&self, device: usize, index: usize, input: &Buffer) -> Error {
        let argument = self.signature().argument(index);
        let want = &self.signature().inputs[index].spec;
        let got = input.spec();
        let (here, there) = (input.device(), Device::new(self.client().clone(), device));
        if here != there {
            let reason = match self.placement() {
                Placement::Fixed(_) => "executable was compiled for",
                Placement::Portable => "execution is on",
            };
            let (own, other) = (input.client().plugin(), self.client().plugin());
            let of = |plugin: &Plugin| match std::ptr::eq(own, other) {
                true => String::new(),
                false => format!(" of plugin '{}'", plugin.path().display()),
            };
            let message = format!(
                "{argument} is on device '{}'{}, but the {reason} device '{}'{}.",
                here.label(),
                of(own),
                there.label(),
                of(other)
            );
            let error = Error::new(Kind::DeviceMismatch, message).hint(Reason::BufferElsewhere);
            return if input.client().same(self.client()) {
                error
            } else {
                error.hint("The two belong to different clients.")
            };
        }
        let wrong = |what: &str| format!("Wrong {what} of {}: expected {want}, got {got}.", lower(argument.clone()));
        if want.dtype != got.dtype {
            Error::new(Kind::DtypeMismatch, wrong("dtype"))
                .hint(format!("Create the buffer with dtype \"{}\".", want.dtype))
        } else if want.dims != got.dims {
            Error::new(Kind::ShapeMismatch, wrong("shape"))
        } else {
            let message = format!("{argument}, {got}, has another layout in device memory than the program expects.");
            Error::new(Kind::LayoutMismatch, message).hint(Reason::BufferLayout)
        }
    }
}

/// The same words without a capital, for the middle of a sentence.
fn lower(words: String) -> String {
    words.replacen("Argument", "argument", 1)
}
