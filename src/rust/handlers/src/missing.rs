//! Errors for custom calls without a handler.

use crate::print;
use crate::registry::{self, known, platform_name, Known};
use pjrt_base::error::{Error, Kind, Result, NOT_FOUND};
use pjrt_base::reason::Reason;
use pjrt_ffi::api::Api;

/// Checks that no handler of these targets was removed: a plugin keeps the function of a name for good.
///
/// # Errors
/// The code of `NOT_FOUND`.
pub fn check(targets: &[String], platform: &str) -> Result<()> {
    match targets.iter().find(|target| registry::is_removed(target, platform)) {
        Some(target) => Err(missing(target, platform).on_platform(platform)),
        None => Ok(()),
    }
}

/// Checks that these functions, which a program calls with arrays that are not row-major, are neither the host's nor
/// `print_tensor`: handlers are not told the layout.
///
/// # Errors
/// `LayoutMismatch`.
pub fn check_layouts(targets: &[String], platform: &str) -> Result<()> {
    let is_row_major = |target: &&String| match known(target, platform) {
        Some(Known::Host) => true,
        Some(Known::BuiltIn) => *target == print::TARGET,
        _ => false,
    };
    let Some(target) = targets.iter().find(is_row_major) else { return Ok(()) };
    let message = format!("The program calls '{target}' with arrays that are not row-major.");
    Err(Error::new(Kind::LayoutMismatch, message)
        .hint("Leave out `operand_layouts` and `result_layouts` of its `custom_call`.")
        .on_platform(platform))
}

/// Says what to do about a custom call that a plugin does not know; other errors stay as they are.
#[cold]
pub fn explain(error: Error, api: &Api, platform: &str) -> Error {
    let Some((target, is_typed)) = unknown_target(error.message()).filter(|_| error.code() == Some(NOT_FOUND)) else {
        return error;
    };
    let refused = |message: String, advice: &str| {
        let reason = Reason::CustomCallRefused { target: target.to_owned() };
        Error::new(Kind::Pjrt(NOT_FOUND), message).hint(advice).hint(reason)
    };
    let explained = if !registry::is_supported(api) {
        refused(no_handler(target, platform), "The plugin does not support handlers of custom calls.")
    } else if !is_typed && known(target, platform).is_some() {
        let message = format!("The program calls '{target}' by an old interface, which its handler does not support.");
        refused(message, "Set `api_version = 4 : i32` in the program's `custom_call`.")
    } else if let Some(why) = registry::refusal(target, platform) {
        missing(target, platform).hint(format!("The plugin refused the handler that is built in: {why}"))
    } else {
        missing(target, platform)
    };
    let explained = explained.hint(format!("The compiler said: {}", error.message().trim_end()));
    match error.call_name() {
        Some(name) => explained.in_call(name),
        None => explained,
    }
}

fn missing(target: &str, platform: &str) -> Error {
    let mut others = registry::platforms(target);
    others.retain(|other| *other != platform_name(platform));
    let platform = platform_name(platform);
    // Targets of linear algebra have other names for other platforms.
    let is_algebra = target.starts_with("lapack_") || target.starts_with("cu");
    let related = if is_algebra { registry::targets(&platform) } else { Vec::new() };
    let error = Error::new(Kind::Pjrt(NOT_FOUND), no_handler(target, &platform));
    error.hint(Reason::CustomCallMissing { target: target.to_owned(), platform, others, related })
}

fn no_handler(target: &str, platform: &str) -> String {
    format!("The program calls '{target}', but no handler of that name is registered for {}.", platform_name(platform))
}

/// The name in XLA's message about a custom call that it does not know, and whether the call has typed arguments.
fn unknown_target(message: &str) -> Option<(&str, bool)> {
    const MESSAGES: [(&str, &str, bool); 3] = [
        ("No FFI handler registered for ", " on a platform ", true),
        ("No registered implementation for untyped custom call to ", " for ", false),
        ("No registered implementation for custom call to ", " for ", false),
    ];
    MESSAGES.iter().find_map(|(start, end, is_typed)| {
        let (_, rest) = message.split_once(start)?;
        let (target, _) = rest.rsplit_once(end)?;
        Some((target, *is_typed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_in_the_messages_of_xla() {
        let typed = "No FFI handler registered for a on a platform b on a platform Host (canonical host)";
        assert_eq!(unknown_target(typed), Some(("a on a platform b", true)));
        let untyped = "No registered implementation for untyped custom call to my fn for Host";
        assert_eq!(unknown_target(untyped), Some(("my fn", false)));
        assert_eq!(unknown_target("No such thing"), None);
    }
}
