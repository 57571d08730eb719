//! What a compiled program depends on besides its source and options: the plugin, the processor, the kind of device.

use crate::client::cpu_features;
use crate::client::device::Device;
use crate::client::plugin_hash;
use crate::client::CPU;
use crate::runtime::plugin::Plugin;
use pjrt_base::error::Result;
use pjrt_ffi::api::PluginValue;
use prost::Message;
use std::path::Path;

/// The environment that an executable belongs to.
#[derive(Clone, PartialEq, Message)]
pub struct Target {
    #[prost(string, tag = "1")]
    pub platform: String,
    #[prost(string, tag = "2")]
    pub platform_version: String,
    /// SHA-256 of the plugin's library.
    #[prost(string, tag = "3")]
    pub plugin: String,
    /// The plugin's attributes, as `name=value`.
    #[prost(string, repeated, tag = "4")]
    pub attributes: Vec<String>,
    /// Version of the PJRT API that the plugin implements.
    #[prost(string, tag = "5")]
    pub api_version: String,
    #[prost(string, tag = "6")]
    pub device_kind: String,
    /// The processor's features, if it runs the programs.
    #[prost(string, tag = "7")]
    pub processor: String,
}

impl Target {
    /// The target of a device in this process. `kept` is the folder that keeps the hashes of plugins' files between
    /// processes.
    ///
    /// # Errors
    /// `Io` if the plugin's file cannot be read, or is no longer the loaded one.
    pub fn of(device: &Device, kept: Option<&Path>) -> Result<Target> {
        let client = device.client();
        let target = Target::new(client.plugin(), client.platform(), device.kind(), kept)?;
        Ok(Target { platform_version: client.platform_version().into(), ..target })
    }

    /// The target of devices of this kind that the process need not have, whose drivers are not known: without the version of
    /// the platform.
    ///
    /// # Errors
    /// As [`Target::of`].
    pub fn new(plugin: &Plugin, platform: &str, kind: &str, kept: Option<&Path>) -> Result<Target> {
        let (major, minor) = plugin.api().version();
        Ok(Target {
            platform: platform.into(),
            platform_version: String::new(),
            plugin: plugin_hash::of_plugin(plugin, kept)?.to_owned(),
            attributes: plugin.attributes().iter().map(|(name, value)| format!("{name}={}", text(value))).collect(),
            api_version: format!("{major}.{minor}"),
            device_kind: kind.into(),
            processor: if platform == CPU { cpu_features::features().into() } else { String::new() },
        })
    }

    /// The differences that keep an executable made for `self` from another environment, each in a few words. One made without
    /// its devices fits every version of the platform.
    pub fn differences(&self, here: &Target) -> Vec<String> {
        let named = [
            ("platform", &self.platform, &here.platform),
            ("platform version", &self.platform_version, &here.platform_version),
            ("PJRT API", &self.api_version, &here.api_version),
            ("kind of device", &self.device_kind, &here.device_kind),
        ];
        let mut found: Vec<String> = named
            .into_iter()
            .filter(|&(what, then, now)| then != now && !(what == "platform version" && then.is_empty()))
            .map(|(what, then, now)| format!("{what}: made for '{then}', this is '{now}'"))
            .collect();
        if self.attributes != here.attributes {
            let only = |a: &[String], b: &[String]| a.iter().filter(|x| !b.contains(x)).cloned().collect::<Vec<_>>();
            let (then, now) = (only(&self.attributes, &here.attributes), only(&here.attributes, &self.attributes));
            found.push(format!("plugin: made by one of {}, this is one of {}", listed(&then), listed(&now)));
        } else if self.plugin != here.plugin {
            let short = |hash: &str| hash.chars().take(12).collect::<String>();
            let (then, now) = (short(&self.plugin), short(&here.plugin));
            found.push(format!("plugin: made by another build, of SHA-256 {then}..., this is {now}..."));
        }
        if let Some(difference) = cpu_features::difference(&self.processor, &here.processor) {
            found.push(difference);
        }
        found
    }
}

fn listed(items: &[String]) -> String {
    if items.is_empty() {
        "fewer attributes".into()
    } else {
        items.join(", ")
    }
}

fn text(value: &PluginValue) -> String {
    match value {
        PluginValue::String(text) => text.clone(),
        PluginValue::Int(i) => i.to_string(),
        PluginValue::IntList(list) => list.iter().map(i64::to_string).collect::<Vec<_>>().join("."),
        PluginValue::Float(f) => f.to_string(),
        PluginValue::Bool(b) => b.to_string(),
        PluginValue::Unknown => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            platform: "cpu".into(),
            platform_version: "cpu".into(),
            plugin: "0123456789abcdef".into(),
            attributes: vec!["xla_version=2".into()],
            api_version: "0.81".into(),
            device_kind: "cpu".into(),
            processor: "x86_64 avx avx2".into(),
        }
    }

    #[test]
    fn differences_are_reported() {
        let saved = target();
        assert!(saved.differences(&target()).is_empty());
        let said = |change: &dyn Fn(&mut Target)| {
            let mut here = target();
            change(&mut here);
            saved.differences(&here).join("; ")
        };
        assert_eq!(said(&|e| e.platform = "cuda".into()), "platform: made for 'cpu', this is 'cuda'");
        assert!(said(&|e| e.platform_version = "9".into()).starts_with("platform version: "));
        let absent = Target { platform_version: String::new(), ..target() };
        assert!(absent.differences(&target()).is_empty());
        assert!(said(&|e| e.api_version = "0.90".into()).contains("'0.81', this is '0.90'"));
        assert!(said(&|e| e.device_kind = "H200".into()).contains("'H200'"));
        assert!(said(&|e| e.plugin = "ff".repeat(32)).contains("SHA-256 0123456789ab..., this is ffffffffffff..."));
        assert!(
            said(&|e| e.attributes[0] = "xla_version=3".into()).contains("xla_version=2, this is one of xla_version=3")
        );
        assert!(said(&|e| e.processor = "x86_64 avx".into()).contains("lacks avx2"));
    }
}
