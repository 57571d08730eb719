//! Timed runs of a program on one device, without the host language between them.

use crate::buffer::Buffer;
use crate::executable::execute::{ExecuteOptions, Outputs};
use crate::executable::Executable;
use pjrt_base::error::Result;
use pjrt_base::process;
use std::collections::VecDeque;
use std::time::Instant;

/// Where a run's donated inputs come from, since each run deletes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Donated {
    /// From copies, which are made before the time is taken.
    Copied,
    /// From the output of the run before that lives in their memory.
    FedBack,
}

/// Makes a complete copy of a donated input, in the layout that the program expects.
pub type CopyInput<'a> = &'a dyn Fn(usize, &Buffer) -> Result<Buffer>;

/// The inputs of one run. Those that are donated are its own.
type Set = Vec<Buffer>;

impl Executable {
    /// Runs the program and waits for its outputs, `times` times. Returns the seconds of each run. The inputs stay as they are.
    ///
    /// # Errors
    /// As [`Executable::execute`] and [`Buffer::wait`]; `Interrupted`.
    pub fn time_runs(
        &self,
        inputs: &[&Buffer],
        options: &ExecuteOptions,
        copy: CopyInput<'_>,
        donated: Donated,
        times: usize,
    ) -> Result<Vec<f64>> {
        let mut seconds = Vec::with_capacity(times);
        let mut set = self.input_set(inputs, options, copy)?;
        for run in 0..times {
            process::check_interrupt_sometimes()?;
            if run > 0 && donated == Donated::Copied {
                set = self.input_set(inputs, options, copy)?;
            }
            let start = Instant::now();
            let outputs = self.run(&set, options)?;
            wait(&outputs)?;
            seconds.push(start.elapsed().as_secs_f64());
            if donated == Donated::FedBack {
                self.feed_back(&mut set, outputs, options);
            }
        }
        Ok(seconds)
    }

    /// Starts `times` runs, each without waiting for those before, except that at most `depth` are in flight. Returns the
    /// seconds from the first start to the last end. The inputs stay as they are; there are copies of donated ones for all runs.
    ///
    /// # Errors
    /// As [`Executable::time_runs`].
    pub fn time_in_flight(
        &self,
        inputs: &[&Buffer],
        options: &ExecuteOptions,
        copy: CopyInput<'_>,
        times: usize,
        depth: usize,
    ) -> Result<f64> {
        let takes_over = (0..inputs.len()).any(|index| self.donates(index, options));
        let sets = (0..if takes_over { times } else { 1 }).map(|_| self.input_set(inputs, options, copy));
        let sets = sets.collect::<Result<Vec<Set>>>()?;
        let mut in_flight: VecDeque<Outputs> = VecDeque::with_capacity(depth + 1);
        let start = Instant::now();
        for run in 0..times {
            in_flight.push_back(self.run(&sets[run % sets.len()], options)?);
            if in_flight.len() >= depth.max(1) {
                in_flight.pop_front().map_or(Ok(()), |outputs| wait(&outputs))?;
                process::check_interrupt_sometimes()?;
            }
        }
        in_flight.iter().try_for_each(wait)?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn run(&self, set: &Set, options: &ExecuteOptions) -> Result<Outputs> {
        let inputs: Vec<&Buffer> = set.iter().collect();
        self.execute(&inputs, options)
    }

    /// The inputs of a run, all complete, with copies of those that it takes over.
    fn input_set(&self, inputs: &[&Buffer], options: &ExecuteOptions, copy: CopyInput<'_>) -> Result<Set> {
        let own = |(index, input): (usize, &&Buffer)| {
            // Execution explains what is wrong with a dead one.
            if input.is_dead() {
                return Ok((*input).clone());
            }
            if self.donates(index, options) {
                return copy(index, input);
            }
            input.wait().map(|_| (*input).clone())
        };
        inputs.iter().enumerate().map(own).collect()
    }

    /// Puts the outputs of a run in the place of the inputs whose memory they live in.
    fn feed_back(&self, set: &mut Set, outputs: Outputs, options: &ExecuteOptions) {
        for (output, alias) in outputs.into_iter().zip(&self.signature().aliases) {
            if let Some(input) = alias.filter(|&input| self.donates(input, options)) {
                set[input] = output;
            }
        }
    }
}

fn wait(outputs: &Outputs) -> Result<()> {
    outputs.iter().try_for_each(|output| output.wait().map(drop))
}
