//! Which processes take part in a collective operation together.

use super::super::wire::damage;
use super::super::HloInstructionProto;
use super::Process;
use pjrt_base::error::Result;

/// Groups of processes of equal size. Every process is in one of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Groups {
    pub size: usize,
    /// The ranks of all groups, one after another.
    pub ranks: Vec<i64>,
}

impl Process {
    /// The groups of an operation. In a program with one replica, operations between replicas have groups of one; so have
    /// operations between partitions in a program with one partition.
    pub(super) fn groups(&self, operation: &HloInstructionProto) -> Result<Groups> {
        let is_permutation_like =
            matches!(operation.opcode.as_str(), "all-to-all" | "collective-permute" | "collective-broadcast");
        let has_channel = operation.channel_id > 0;
        let across_partitions = has_channel && (operation.use_global_device_ids || is_permutation_like);
        let across_replicas = !has_channel || operation.use_global_device_ids || !is_permutation_like;
        let crosses = if self.are_partitions { has_channel } else { across_replicas };
        if !crosses {
            return Ok(Groups { size: 1, ranks: (0..self.size as i64).collect() });
        }
        let listed = operation.groups().ok_or_else(|| damage("it has invalid groups"))?;
        // Groups of replicas in a program of partitions: each is of all partitions.
        let all = listed.is_empty() || (self.are_partitions && !across_partitions);
        let groups = if all { vec![(0..self.size as i64).collect()] } else { listed };
        let size = groups.first().map_or(0, Vec::len);
        let ranks: Vec<i64> = groups.concat();
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        let is_of_all = sorted.iter().copied().eq(0..self.size as i64);
        if size == 0 || groups.iter().any(|group| group.len() != size) || !is_of_all {
            bail!(
                UnsupportedProgram,
                "The operation `{}` has groups of unequal size or not of all devices, which processes do not support.",
                operation.opcode
            );
        }
        Ok(Groups { size, ranks })
    }
}
