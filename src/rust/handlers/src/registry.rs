//! The handlers of this process, and the plugins that know them.

use crate::slots;
use crate::{cuda, lapack, mpi, print};
use pjrt_base::error::{Error, Kind, Result, INVALID_ARGUMENT, RESOURCE_EXHAUSTED};
use pjrt_base::sync::Unpoisoned;
use pjrt_ffi::api::{Api, Args};
use pjrt_ffi::exception::guarded;
use pjrt_sys::*;
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::{LazyLock, Mutex, MutexGuard};

pub use crate::slots::{ForeignHandler, Handler, RustHandler};

/// The platform of handlers that run on the host, as plugins name it.
pub const HOST: &str = "host";

/// A handler for one platform.
#[derive(Debug, Default)]
struct Registration {
    target: String,
    platform: String,
    built_in: Option<RustHandler>,
    /// The user's.
    users: Option<Handler>,
    /// The plugins that know it, by number.
    plugins: Vec<usize>,
    /// Why a plugin refused it last, where that is not a problem.
    refusal: Option<String>,
}

#[derive(Debug, Default)]
struct HandlerRegistry {
    /// One for each slot in use.
    entries: Vec<Registration>,
    /// Those that have custom calls.
    plugins: Vec<&'static Api>,
    /// The handlers that plugins have refused, one sentence each.
    problems: Vec<String>,
}

/// The handlers of this crate, with their platforms.
fn built_in() -> impl Iterator<Item = (&'static str, &'static str, RustHandler)> {
    let of_hosts = std::iter::once((print::TARGET, print::print_tensor as RustHandler));
    let of_hosts = of_hosts.chain(lapack::targets()).chain(mpi::TARGETS);
    let of_cuda = cuda::TARGETS.into_iter().map(|(target, handler)| (target, cuda::PLATFORM, handler));
    of_hosts.map(|(target, handler)| (target, HOST, handler)).chain(of_cuda)
}

static REGISTRY: LazyLock<Mutex<HandlerRegistry>> = LazyLock::new(|| {
    let mut registry = HandlerRegistry::default();
    for (target, platform, handler) in built_in() {
        let entry = Registration { built_in: Some(handler), ..Registration::new(target, platform.into()) };
        entry.apply(registry.entries.len());
        registry.entries.push(entry);
    }
    Mutex::new(registry)
});

fn registry() -> MutexGuard<'static, HandlerRegistry> {
    REGISTRY.lock().unpoisoned()
}

/// The name of a platform in the FFI: lower case, and "host" for CPUs.
pub fn platform_name(platform: &str) -> String {
    let name = platform.to_ascii_lowercase();
    if name == "cpu" {
        HOST.into()
    } else {
        name
    }
}

/// Registers a handler for programs on a platform, with the plugins loaded so far, and with others as they are loaded.
/// A handler of the same name and kind is replaced, also for programs that are compiled already. Plugins' refusals are
/// [problems](take_problems).
///
/// # Errors
/// `InvalidInput` for a name that is empty or has a NUL, and the code of `RESOURCE_EXHAUSTED` if there are too many.
pub fn register(target: &str, platform: &str, handler: Handler) -> Result<()> {
    for (what, name) in [("name of a custom call", target), ("platform", platform)] {
        if name.is_empty() || name.contains('\0') {
            bail!(InvalidInput, "The {what} must be a non-empty string without NUL characters.");
        }
    }
    let platform = platform_name(platform);
    let mut registry = registry();
    let slot = match registry.find(target, &platform) {
        Some(slot) => slot,
        None if registry.entries.len() < slots::COUNT => {
            registry.entries.push(Registration::new(target, platform));
            registry.entries.len() - 1
        }
        None => {
            return Err(Error::new(
                Kind::Pjrt(RESOURCE_EXHAUSTED),
                format!("Cannot register '{target}': a process can have at most {} custom calls.", slots::COUNT),
            ))
        }
    };
    let entry = &mut registry.entries[slot];
    match handler {
        Handler::BuiltIn(handler) => entry.built_in = Some(handler),
        users => entry.users = Some(users),
    }
    entry.apply(slot);
    registry.tell_all(slot);
    Ok(())
}

/// Removes the user's handlers of this name. Programs that call them fail from now on, unless a handler of that name is
/// built in. Returns whether there were any.
pub fn unregister(target: &str) -> bool {
    remove(|entry| entry.target == target)
}

/// Removes the user's handlers of this name for all but these platforms.
pub fn unregister_except(target: &str, platforms: &[&str]) {
    let kept: Vec<_> = platforms.iter().map(|platform| platform_name(platform)).collect();
    remove(|entry| entry.target == target && !kept.contains(&entry.platform));
}

fn remove(is_meant: impl Fn(&Registration) -> bool) -> bool {
    let mut found = false;
    for (slot, entry) in registry().entries.iter_mut().enumerate() {
        if is_meant(entry) && entry.users.take().is_some() {
            found = true;
            entry.apply(slot);
        }
    }
    found
}

/// Registers all handlers with a plugin that has just been loaded.
pub fn add_plugin(api: &'static Api) {
    if !is_supported(api) {
        return;
    }
    let mut registry = registry();
    registry.plugins.push(api);
    let plugin = registry.plugins.len() - 1;
    for slot in 0..registry.entries.len() {
        registry.tell(plugin, slot);
    }
}

/// Which of a platform's custom calls have a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    BuiltIn,
    /// The user's.
    Foreign,
    /// The user's, in the host language.
    Host,
}

/// The handler of this name, if there is one.
pub fn known(target: &str, platform: &str) -> Option<Known> {
    let registry = registry();
    let entry = &registry.entries[registry.find(target, &platform_name(platform))?];
    match entry.handler()? {
        Handler::BuiltIn(_) => Some(Known::BuiltIn),
        Handler::Foreign(_) => Some(Known::Foreign),
        Handler::Host(_) => Some(Known::Host),
    }
}

/// Whether the handlers of this name were removed, and plugins still know it.
pub(crate) fn is_removed(target: &str, platform: &str) -> bool {
    let registry = registry();
    registry.find(target, &platform_name(platform)).is_some_and(|slot| registry.entries[slot].handler().is_none())
}

/// Why a plugin refused a handler of this crate, for a program that it then refuses, too.
pub(crate) fn refusal(target: &str, platform: &str) -> Option<String> {
    let registry = registry();
    registry.entries[registry.find(target, &platform_name(platform))?].refusal.clone()
}

/// Whether a plugin has custom calls.
pub(crate) fn is_supported(api: &Api) -> bool {
    extension(api).is_some()
}

/// The platforms for which a target has handlers.
pub fn platforms(target: &str) -> Vec<String> {
    let has_handler = |entry: &&Registration| entry.target == target && entry.handler().is_some();
    registry().entries.iter().filter(has_handler).map(|entry| entry.platform.clone()).collect()
}

/// The targets that have handlers for a platform.
pub(crate) fn targets(platform: &str) -> Vec<String> {
    let has_handler = |entry: &&Registration| entry.platform == platform && entry.handler().is_some();
    registry().entries.iter().filter(has_handler).map(|entry| entry.target.clone()).collect()
}

/// The user's handlers, as names and platforms.
pub fn users() -> Vec<(String, String)> {
    let registry = registry();
    let users = registry.entries.iter().filter(|entry| entry.users.is_some());
    users.map(|entry| (entry.target.clone(), entry.platform.clone())).collect()
}

/// The handlers that plugins have refused since the last call, one sentence each.
pub fn take_problems() -> Vec<String> {
    std::mem::take(&mut registry().problems)
}

impl Registration {
    fn new(target: &str, platform: String) -> Registration {
        Registration { target: target.into(), platform, ..Default::default() }
    }

    /// The handler that comes first.
    fn handler(&self) -> Option<Handler> {
        self.users.or(self.built_in.map(Handler::BuiltIn))
    }

    /// Makes the slot call that.
    fn apply(&self, slot: usize) {
        slots::set(slot, &self.target, self.handler());
    }
}

impl HandlerRegistry {
    fn find(&self, target: &str, platform: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.target == target && entry.platform == platform)
    }

    fn tell_all(&mut self, slot: usize) {
        for plugin in 0..self.plugins.len() {
            self.tell(plugin, slot);
        }
    }

    /// Registers the function of a slot with a plugin, once.
    fn tell(&mut self, plugin: usize, slot: usize) {
        let (api, entry) = (self.plugins[plugin], &mut self.entries[slot]);
        if entry.plugins.contains(&plugin) {
            return;
        }
        let (target, platform) = (&entry.target, &entry.platform);
        let Err(error) = tell(api, target, platform, slots::entry(slot)) else { return entry.plugins.push(plugin) };
        let message = error.message().trim_end();
        // The plugin of another device may have its own. It matters only to programs that call it.
        if entry.users.is_none() && platform != HOST {
            entry.refusal = Some(message.to_owned());
        } else {
            self.problems.push(format!("A plugin refuses the handler of '{target}' for {platform}: {message}"));
        }
    }
}

/// The struct of older plugins, with the version of the FFI. The extension's size is the same for both structs.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct OldRegisterArgs {
    struct_size: usize,
    target_name: *const c_char,
    target_name_size: usize,
    api_version: c_int,
    handler: *mut c_void,
    platform_name: *const c_char,
    platform_name_size: usize,
    traits: u32,
}

/// The FFI with typed arguments, in the old struct.
const TYPED: c_int = 1;

/// The plugin's function that registers handlers.
fn extension(api: &Api) -> PJRT_FFI_Register_Handler {
    let extension: *const PJRT_FFI_Extension = api.extension(PJRT_Extension_Type::PJRT_Extension_Type_FFI)?;
    const END: usize = offset_of!(PJRT_FFI_Extension, register_handler) + size_of::<usize>();
    // SAFETY: the chain has extensions of these types, and the size is checked.
    unsafe { ((*extension).base.struct_size >= END).then(|| (*extension).register_handler)? }
}

/// Registers a function with a plugin.
fn tell(api: &'static Api, target: &str, platform: &str, handler: ForeignHandler) -> Result<()> {
    const CALL: &str = "PJRT_FFI_Register_Handler";
    let Some(function) = extension(api) else {
        return Err(Error::new(Kind::UnsupportedCall, "The plugin has no custom calls.").in_call(CALL));
    };
    let mut args = Args::<PJRT_FFI_Register_Handler_Args>::new(api);
    args.fields.struct_size = api.size_of(&args);
    args.fields.target_name = target.as_ptr().cast();
    args.fields.target_name_size = target.len();
    args.fields.handler = handler as *mut c_void;
    args.fields.platform_name = platform.as_ptr().cast();
    args.fields.platform_name_size = platform.len();
    args.fields.traits = PJRT_FFI_Handler_TraitsBits(0);
    let refused = |error: *mut PJRT_Error| match error.is_null() {
        true => Ok(()),
        // SAFETY: the plugin has just returned this error to us.
        false => Err(unsafe { api.take_error(error, CALL) }),
    };
    // The smaller struct first: an old plugin refuses it by its size. A new plugin would take the old one's version for
    // the handler.
    // SAFETY: the arguments are what the header asks for.
    let outcome = refused(unsafe { guarded(api.poison(), function, (&raw mut args).cast(), CALL) }?);
    let Err(error) = outcome else { return Ok(()) };
    ensure!(is_about_size(&error), error);
    let mut args = OldRegisterArgs {
        struct_size: size_of::<OldRegisterArgs>(),
        target_name: target.as_ptr().cast(),
        target_name_size: target.len(),
        api_version: TYPED,
        handler: handler as *mut c_void,
        platform_name: platform.as_ptr().cast(),
        platform_name_size: platform.len(),
        traits: 0,
    };
    // SAFETY: as above, in the older header.
    refused(unsafe { guarded(api.poison(), function, (&raw mut args).cast(), CALL) }?)
}

/// Whether a plugin refuses a struct because it expects a larger one.
fn is_about_size(error: &Error) -> bool {
    error.code() == Some(INVALID_ARGUMENT)
        && error.message().starts_with("Unexpected ")
        && error.message().contains(" size")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_ffi::api::blank_struct;
    use std::cell::RefCell;

    /// What a plugin was told: the size of the struct, the name, and the handler at the place of each struct.
    #[derive(Debug, Clone, PartialEq)]
    struct Reported {
        size: usize,
        name: String,
        new: usize,
        old: usize,
    }

    thread_local! {
        static REPORTED: RefCell<Vec<Reported>> = const { RefCell::new(Vec::new()) };
    }

    unsafe fn note(args: *mut PJRT_FFI_Register_Handler_Args) -> usize {
        let name = pjrt_ffi::api::text((*args).target_name, (*args).target_name_size);
        let size = (*args).struct_size;
        let old =
            if size >= size_of::<OldRegisterArgs>() { (*args.cast::<OldRegisterArgs>()).handler as usize } else { 0 };
        REPORTED.with_borrow_mut(|reported| reported.push(Reported { size, name, new: (*args).handler as usize, old }));
        size
    }

    unsafe extern "C" fn accepts(args: *mut PJRT_FFI_Register_Handler_Args) -> *mut PJRT_Error {
        note(args);
        std::ptr::null_mut()
    }

    unsafe extern "C" fn expects_the_old(args: *mut PJRT_FFI_Register_Handler_Args) -> *mut PJRT_Error {
        error(if note(args) < 60 {
            "Unexpected PJRT_FFI_Register_Handler_Args size: expected 60, got 56. Check installed software versions."
        } else {
            ""
        })
    }

    unsafe extern "C" fn refuses(args: *mut PJRT_FFI_Register_Handler_Args) -> *mut PJRT_Error {
        note(args);
        error("A handler of this name is registered.")
    }

    /// An error is its message.
    fn error(message: &'static str) -> *mut PJRT_Error {
        if message.is_empty() {
            std::ptr::null_mut()
        } else {
            Box::into_raw(Box::new(message)).cast()
        }
    }

    unsafe extern "C" fn message(args: *mut PJRT_Error_Message_Args) {
        let text: &&str = &*(*args).error.cast();
        (*args).message = text.as_ptr().cast();
        (*args).message_size = text.len();
    }

    unsafe extern "C" fn code(args: *mut PJRT_Error_GetCode_Args) -> *mut PJRT_Error {
        (*args).code = PJRT_Error_Code(INVALID_ARGUMENT);
        std::ptr::null_mut()
    }

    unsafe extern "C" fn destroy(args: *mut PJRT_Error_Destroy_Args) {
        drop(Box::from_raw((*args).error.cast::<&str>()));
    }

    fn plugin(register: PJRT_FFI_Register_Handler) -> &'static Api {
        let mut raw: PJRT_Api = blank_struct();
        raw.struct_size = size_of::<PJRT_Api>();
        raw.pjrt_api_version.major_version = PJRT_API_MAJOR as i32;
        raw.PJRT_Error_Message = Some(message);
        raw.PJRT_Error_GetCode = Some(code);
        raw.PJRT_Error_Destroy = Some(destroy);
        if register.is_some() {
            let mut extension: PJRT_FFI_Extension = blank_struct();
            extension.base.struct_size = size_of::<PJRT_FFI_Extension>();
            extension.base.type_ = PJRT_Extension_Type::PJRT_Extension_Type_FFI;
            extension.register_handler = register;
            raw.extension_start = (&raw mut Box::leak(Box::new(extension)).base).cast();
        }
        // SAFETY: the table is leaked.
        Box::leak(Box::new(unsafe { Api::new(Box::leak(Box::new(raw))) }.unwrap()))
    }

    /// The outcome with a plugin, and what it was told.
    fn outcome(register: PJRT_FFI_Register_Handler) -> (Result<()>, Vec<Reported>) {
        (tell(plugin(register), "name", HOST, slots::entry(3)), REPORTED.take())
    }

    #[test]
    fn a_plugin_gets_the_new_struct_and_an_old_one_then_the_old() {
        let handler = slots::entry(3) as usize;
        let (done, reported) = outcome(Some(accepts));
        assert!(done.is_ok());
        assert_eq!(reported, [Reported { size: 56, name: "name".into(), new: handler, old: 0 }]);
        let (done, reported) = outcome(Some(expects_the_old));
        assert!(done.is_ok());
        assert_eq!((reported.len(), reported[0].size, reported[1].size, reported[1].old), (2, 56, 64, handler));
    }

    #[test]
    fn a_refusal_for_another_reason_is_final() {
        let (done, reported) = outcome(Some(refuses));
        assert_eq!((done.unwrap_err().message(), reported.len()), ("A handler of this name is registered.", 1));
        assert_eq!(outcome(None).0.unwrap_err().kind(), Kind::UnsupportedCall);
    }

    #[test]
    fn a_refused_handler_is_a_problem_if_it_is_the_users_or_for_hosts() {
        let entries = vec![Registration::new("name", HOST.into()), Registration::new("name", cuda::PLATFORM.into())];
        let plugins = vec![plugin(Some(refuses))];
        let mut registry = HandlerRegistry { entries, plugins, problems: Vec::new() };
        registry.tell_all(0);
        registry.tell_all(1);
        let problem = |platform: &str| {
            format!("A plugin refuses the handler of 'name' for {platform}: A handler of this name is registered.")
        };
        assert_eq!(registry.problems, [problem(HOST)]);
        let refusal = registry.entries[1].refusal.take().unwrap();
        assert_eq!(refusal, "A handler of this name is registered.");
        unsafe extern "C" fn foreign(_: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
            std::ptr::null_mut()
        }
        registry.entries[1].users = Some(Handler::Foreign(foreign));
        registry.tell_all(1);
        assert_eq!(registry.problems[1], problem(cuda::PLATFORM));
        REPORTED.take();
    }

    #[test]
    fn each_slot_has_its_own_function() {
        let functions: std::collections::HashSet<_> =
            (0..slots::COUNT).map(|slot| slots::entry(slot) as usize).collect();
        assert_eq!(functions.len(), slots::COUNT);
    }
}
