//! Execution on several devices at once: replicas or partitions of a program, each with separate inputs.

use crate::buffer::backing::Backing;
use crate::buffer::Buffer;
use crate::client::retry::with_retry;
use crate::executable::execute::{wait_for_all, ExecuteOptions, Handles, Outputs};
use crate::executable::Executable;
use crate::runtime::dispatch::Running;
use crate::runtime::event::Event;
use pjrt_base::counted::counted;
use pjrt_base::error::{Error, Kind, Result};
use pjrt_base::reason::Reason;
use pjrt_base::sync::Unpoisoned;
use pjrt_handlers::launch::Carrier;
use smallvec::SmallVec;
use std::ptr::null_mut;
use std::sync::mpsc::channel;
use std::sync::Arc;

impl Executable {
    /// Launches the program on all of its devices of this process, with one list of inputs for each in the order of its
    /// placement. Other processes launch it on theirs.
    /// Returns the outputs of each, whose content comes later. Inputs that the program takes over are dead afterwards.
    ///
    /// Several devices always use their dispatch threads: a launch may have to wait for another.
    ///
    /// # Errors
    /// As [`Executable::execute`]; messages about inputs name the device.
    pub fn execute_sharded(&self, inputs: &[&[&Buffer]], options: &ExecuteOptions) -> Result<Vec<Outputs>> {
        self.client().handle()?;
        let devices = self.placement().fixed();
        if devices.len() < 2 {
            self.check_lists(1, inputs.len())?;
            return Ok(vec![self.execute(inputs[0], options)?]);
        }
        if options.device.is_some() {
            bail!(InvalidInput, "The program was compiled for fixed devices: an execution cannot choose others.");
        }
        self.check_lists(devices.len(), inputs.len())?;
        for (number, (&device, inputs)) in devices.iter().zip(inputs).enumerate() {
            self.check(device, inputs, options).map_err(|error| self.for_device(number, error))?;
        }
        let outputs = self.launch_on_threads(devices, inputs, options)?;
        inputs.iter().try_for_each(|inputs| self.mark_donated(inputs, options))?;
        Ok(outputs)
    }

    fn check_lists(&self, devices: usize, lists: usize) -> Result<()> {
        if devices == lists {
            return Ok(());
        }
        let where_it_runs = match self.assigned().len() {
            all if all > devices => format!("{devices} of its {all} devices in this process"),
            _ => counted(devices, "device"),
        };
        let message = format!("The program runs on {where_it_runs}, but got inputs for {lists}.");
        Err(Error::new(Kind::ArgumentCount, message).hint(Reason::InputsPerDevice))
    }

    /// The error for an input, with its device: the index of its list of inputs, from 0.
    #[cold]
    pub fn for_device(&self, number: usize, error: Error) -> Error {
        let device = self.placement().fixed().get(number).map(|&device| self.client().device_facts(device));
        let label = device.map_or("any", |facts| &facts.description.label);
        error.within(&format!("Device {} ({label})", number + 1))
    }

    /// Launches from the first device's dispatch thread while the others pause: earlier launches on any of the devices
    /// run before this one, later ones after it.
    fn launch_on_threads(
        &self,
        devices: &[usize],
        inputs: &[&[&Buffer]],
        options: &ExecuteOptions,
    ) -> Result<Vec<Outputs>> {
        let client = self.client();
        let dispatched = client.new_dispatched();
        let backing = Backing::of(&inputs.concat())?;
        let pending = |&device: &usize| -> Outputs {
            let specs = self.outputs().iter();
            let make = |spec: &Arc<_>| {
                let backing = backing.as_ref().map(Backing::derive);
                Buffer::pending(client.clone(), device, Arc::clone(spec), dispatched.clone(), backing)
            };
            specs.map(make).collect()
        };
        let outputs: Vec<Outputs> = devices.iter().map(pending).collect();
        let (executable, options, promised) = (self.clone(), self.told_options(options).into_owned(), outputs.clone());
        let number = dispatched.number();
        let made_by = inputs.iter().flat_map(|list| list.iter()).filter_map(|input| input.unfinished_launch());
        made_by.for_each(|launch| dispatched.note_after(launch));
        let inputs: Vec<Vec<Buffer>> =
            inputs.iter().map(|list| list.iter().map(|&input| input.clone()).collect()).collect();
        let running = devices.to_vec();
        let (arrived, arrivals) = channel::<()>();

        let _order = client.work().launch_order.lock().unpoisoned();
        client.work().dispatcher(devices[0]).submit(dispatched.clone(), move || {
            for _ in 1..running.len() {
                ensure!(arrivals.recv().is_ok(), Internal, "A device's dispatch thread cannot be reached.");
            }
            running.iter().filter_map(|&device| executable.client().work().running(device)).for_each(Running::wait);
            let launched = with_retry(|| executable.needs(), || executable.launch_all(&inputs, number, &options));
            let (made, complete, carrier) =
                launched.inspect_err(|_| promised.iter().flatten().for_each(Buffer::mark_failed))?;
            // The outputs carry the errors.
            if carrier.is_some() {
                if let Err(error) = wait_for_all(&complete, carrier) {
                    promised.iter().flatten().for_each(Buffer::mark_failed);
                    made.iter().flatten().for_each(|&handle| executable.client().free_buffer(handle));
                    return Err(error);
                }
            }
            for (promised, made) in promised.iter().zip(made) {
                let specs = executable.note_outputs(&made);
                let made = made.iter().zip(specs);
                promised.iter().zip(made).for_each(|(output, (&handle, spec))| output.fulfil(handle, spec));
            }
            complete.iter().for_each(|event| drop(event.wait_through()));
            Ok(())
        })?;
        for &device in &devices[1..] {
            let other = client.new_dispatched();
            other.note_after(&dispatched);
            let (arrived, dispatched) = (arrived.clone(), dispatched.clone());
            client.work().dispatcher(device).submit(other, move || {
                // The launch has ended already if another device could not be reached.
                let _ = arrived.send(());
                dispatched.wait()
            })?;
        }
        Ok(outputs)
    }

    /// Calls the plugin. Returns the handles of the outputs of each device, and events to wait for before the next
    /// launch. Runs on a dispatch thread, which may wait.
    ///
    /// XLA's CPU client needs these waits. It runs all devices on one thread pool, where parts of a second launch can
    /// take the place of parts of the first, for which the others then wait at a collective operation. The same happens
    /// if a device's input is late or has failed. After a minute, it ends the process.
    fn launch_all(
        &self,
        inputs: &[Vec<Buffer>],
        number: u64,
        options: &ExecuteOptions,
    ) -> Result<(Vec<Handles>, Vec<Event>, Option<Carrier>)> {
        self.check_layouts()?;
        let client = self.client();
        let calls_host = self.calls_host();
        let one_by_one = client.shares_host_memory() || calls_host;
        if one_by_one {
            inputs.iter().flatten().try_for_each(Buffer::wait_complete)?;
        }
        let places = self.placement().fixed();
        let inputs: Vec<Handles> =
            places.iter().zip(inputs).map(|(&device, list)| self.made(device, list)).collect::<Result<_>>()?;
        let none = SmallVec::from_elem(null_mut(), self.signature().outputs.len());
        let mut outputs: Vec<Handles> = vec![none; inputs.len()];
        let input_lists: Vec<_> = inputs.iter().map(|list| list.as_ptr()).collect();
        let output_lists: Vec<_> = outputs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let runs: Vec<_> = places.iter().filter_map(|&device| self.run_span(device)).collect();
        let mut complete = vec![null_mut(); if one_by_one { inputs.len() } else { 0 }];
        let events = if one_by_one { complete.as_mut_ptr() } else { null_mut() };
        let carrier = if calls_host { self.carrier(number, places) } else { None };
        let context = carrier.as_ref().map_or(null_mut(), Carrier::handle);
        self.call(&input_lists, &output_lists, null_mut(), events, context, options)?;
        let complete = complete.into_iter().filter(|event| !event.is_null());
        let complete = complete.map(|event| Event::new(client.plugin(), event)).collect();
        runs.into_iter().zip(&outputs).for_each(|(run, outputs)| self.end_run(run, outputs));
        Ok((outputs, complete, carrier))
    }
}
