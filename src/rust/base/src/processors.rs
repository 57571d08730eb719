//! The number of processors that this process may use. The system limits it by affinity and control groups, a job scheduler
//! or the user by a variable.

use std::sync::OnceLock;
use std::{env, thread};

/// Variables with a number of processors, of schedulers and of OpenMP.
const VARIABLES: [&str; 7] = [
    "SLURM_CPUS_PER_TASK",
    "SLURM_CPUS_ON_NODE",
    "PBS_NUM_PPN",
    "LSB_DJOB_NUMPROC",
    "NSLOTS",
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
];

/// How many processors this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    pub count: usize,
    /// The variable that says so; `None` if the system does.
    pub variable: Option<&'static str>,
}

/// The smallest of the system's number and the variables' numbers. Reads variables: must run on the main thread.
pub fn allowed() -> Allowed {
    smallest(thread::available_parallelism().map_or(1, usize::from), &|name| env::var(name).ok())
}

fn smallest(system: usize, value: &dyn Fn(&str) -> Option<String>) -> Allowed {
    // A common name, which counts in PBS's jobs only.
    let in_jobs = value("PBS_JOBID").map(|_| "NCPUS");
    let numbers = VARIABLES.into_iter().chain(in_jobs).filter_map(|name| Some((first_number(&value(name)?)?, name)));
    let lowest = numbers.min_by_key(|(count, _)| *count).filter(|(count, _)| *count < system);
    lowest.map_or(Allowed { count: system, variable: None }, |(count, name)| Allowed { count, variable: Some(name) })
}

/// The first number of a value such as `8`, `8,2` (OpenMP's levels) or `8(x2)` (Slurm's nodes), if it is positive.
fn first_number(value: &str) -> Option<usize> {
    let digits = value.trim().split([',', '(']).next()?.trim();
    digits.parse().ok().filter(|count| *count > 0)
}

/// The number when this was first asked, because the system takes long to answer.
#[inline]
pub fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| allowed().count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> (usize, Option<&'static str>) {
        let value = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string());
        let found = smallest(16, &value);
        (found.count, found.variable)
    }

    #[test]
    fn the_smallest_number_counts() {
        assert_eq!(with(&[]), (16, None));
        assert_eq!(
            with(&[("SLURM_CPUS_PER_TASK", "4"), ("SLURM_CPUS_ON_NODE", "8")]),
            (4, Some("SLURM_CPUS_PER_TASK"))
        );
        assert_eq!(with(&[("NSLOTS", "8"), ("OMP_NUM_THREADS", "2,4")]), (2, Some("OMP_NUM_THREADS")));
        assert_eq!(with(&[("LSB_DJOB_NUMPROC", "64")]), (16, None));
        assert_eq!(with(&[("SLURM_CPUS_ON_NODE", "8(x2)")]), (8, Some("SLURM_CPUS_ON_NODE")));
    }

    #[test]
    fn common_names_count_in_jobs_only() {
        assert_eq!(with(&[("NCPUS", "3")]), (16, None));
        assert_eq!(with(&[("NCPUS", "3"), ("PBS_JOBID", "1.server")]), (3, Some("NCPUS")));
    }

    #[test]
    fn other_values_do_not_count() {
        for value in ["", "0", "-1", "many", "1.5", "TRUE"] {
            assert_eq!(with(&[("OMP_NUM_THREADS", value)]), (16, None), "{value}");
        }
    }
}
