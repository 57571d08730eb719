//! Programs that are compiled for a topology, without a client: for devices that this process need not have. They are kept in
//! serialized form, to be loaded where the devices are.

use crate::client::flags;
use crate::client::settings::Settings;
use crate::client::target::Target;
use crate::client::topology::System;
use crate::client::CPU;
use crate::executable::description::Description;
use crate::executable::options::{self, CompileOptions};
use crate::executable::refused;
use crate::executable::serialized::ExecutableHeader;
use crate::executable::source::{AdaptedProgram, Code};
use crate::executable::{Provenance, Signature};
use pjrt_base::error::{Error, Kind, Result, NOT_FOUND, UNIMPLEMENTED};
use pjrt_base::process;
use pjrt_base::trace::{self, Activity, Details};
use pjrt_ffi::api::call;
use pjrt_ir::hlo::sharding::Shardings;
use pjrt_program::collectives;
use pjrt_program::program::Program;
use std::path::Path;
use std::time::{Duration, Instant};

/// A compiled program that is not loaded.
#[derive(Debug)]
pub struct Unloaded {
    pub signature: Signature,
    pub shardings: Shardings,
    /// The numbers of replicas and partitions.
    pub counts: (i64, i64),
    pub target: Target,
    pub compile_time: Duration,
    /// Its bytes, which `Serialized::read` takes.
    pub container: Vec<u8>,
}

impl Unloaded {
    /// Compiles a program for devices of a system: the devices of the options' assignment, or the system's first ones. `kept`
    /// is the folder that keeps the hashes of plugins' files.
    ///
    /// # Errors
    /// As [`Executable::compile`](crate::executable::Executable::compile), without the errors about clients; `InvalidInput`
    /// if the system lacks the devices;
    /// `UnsupportedCall` or code 12 (unimplemented) if the plugin compiles nothing without a client, or saves nothing.
    pub fn compile(
        system: &System,
        program: &Program,
        options: &CompileOptions,
        kept: Option<&Path>,
    ) -> Result<Unloaded> {
        let options = options.for_program(program.annotations())?;
        let plugin = system.plugin();
        let api = plugin.api();
        let topology = system.describe()?;
        let ids = options.ids_in(&topology)?;
        let platform = &*topology.platform;
        let is_host = platform == CPU;
        let source = AdaptedProgram::new(program, is_host, false)?;
        let program = source.program();
        collectives::check(program, options.replicas(), options.partitions())?;
        let settings = Settings::read(plugin);
        plugin.first_executable.call_once(|| process::watch_exit(crate::client::close_all));
        let start = Instant::now();
        let phase = trace::span(Activity::Phase, || Details::named("compiler"));
        let prefers_older_code = || source.prefers_older_code();
        let (compiled, serialized) = flags::with_flags(plugin, system.known_flags(), prefers_older_code, |flags| {
            let defaults = options::defaults(flags, &settings);
            let serialized = options.encode(&ids, -1, program.is_for_shardy(), defaults);
            let handle = system.handle()?;
            let compiled = source.compile_with(plugin, |program| {
                Code::of(program)?.pass(api, |program| {
                    call!(
                        api,
                        PJRT_Compile {
                            topology: handle,
                            program: program,
                            compile_options: serialized.as_ptr().cast(),
                            compile_options_size: serialized.len(),
                        }
                    )
                })
            })?;
            Ok((compiled, serialized))
        })
        .map_err(|error| match has_compiler(&error) {
            true => source.explain(error, plugin, platform),
            false => Error::new(Kind::Pjrt(UNIMPLEMENTED), error.message())
                .unsupported(platform, "Compiling for a topology is")
                .hint("Compile the program where the devices are, for a device of a client."),
        })?;
        let compile_time = start.elapsed();
        drop(phase);
        let description = Description { api, is_host, handle: compiled.executable };
        let module = description.module_of(program, options.partitions() > 1)?;
        refused::check(&module)?;
        let signature = description.signature_of(&module, program)?;
        pjrt_handlers::mpi::check(&module, options.num_devices())?;
        let provenance = Provenance::of_compiled(program, &module, options.partitions() > 1, serialized, compile_time);
        provenance.check_layouts(platform)?;
        let first = topology.devices.iter().find(|device| Some(i64::from(device.id)) == ids.first().copied());
        let target = Target::new(plugin, platform, first.map_or("", |device| &device.kind), kept)?;
        let header = ExecutableHeader::new(target.clone(), &signature, description.hint(&module), &provenance, &[]);
        let container = description
            .with_payload(|payload| header.contain(payload))
            .map_err(|error| error.unsupported(platform, "Saving an executable is"))??;
        let shardings = provenance.shardings(&signature);
        let counts = (options.replicas(), options.partitions());
        Ok(Unloaded { signature, shardings, counts, target, compile_time, container })
    }
}

/// Whether a plugin that returned this error can compile without a client.
fn has_compiler(error: &Error) -> bool {
    match error.code() {
        Some(UNIMPLEMENTED) => false,
        // XLA's words, of older and newer builds.
        Some(NOT_FOUND) => {
            !["No compiler registered", "No compiler factory"].iter().any(|start| error.message().starts_with(start))
        }
        _ => true,
    }
}
