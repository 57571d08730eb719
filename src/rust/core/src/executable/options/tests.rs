//! Tests of compile options.

use super::*;

/// The serialized options for devices of these ids.
pub(crate) fn encoded(options: &CompileOptions, ids: &[i64]) -> Vec<u8> {
    options.encode(ids, 7, false, BTreeMap::new())
}

fn decoded(options: &CompileOptions, ids: &[i64], for_shardy: bool) -> CompileOptionsProto {
    CompileOptionsProto::decode(options.encode(ids, 7, for_shardy, BTreeMap::new()).as_slice()).unwrap()
}

fn build(options: &CompileOptions, ids: &[i64], for_shardy: bool) -> ExecutableBuildOptionsProto {
    decoded(options, ids, for_shardy).executable_build_options.unwrap()
}

fn counts(num_replicas: i64, num_partitions: i64) -> CompileOptions {
    CompileOptions { num_replicas: Some(num_replicas), num_partitions: Some(num_partitions), ..Default::default() }
}

#[test]
fn counts_below_one_are_refused() {
    for bad in [0, -1, i64::MAX] {
        assert!(counts(bad, 1).check().is_err());
        assert!(counts(1, bad).check().is_err());
    }
    assert!(CompileOptions::default().check().is_ok());
}

#[test]
fn devices_are_assigned_by_partition_and_replica() {
    let assignment = build(&counts(2, 2), &[10, 11, 20, 21], false).device_assignment.unwrap();
    assert_eq!((assignment.replica_count, assignment.computation_count), (2, 2));
    let ids: Vec<_> = assignment.computation_devices.iter().map(|c| c.replica_device_ids.clone()).collect();
    assert_eq!(ids, [[10, 20], [11, 21]]);
}

#[test]
fn an_assignment_must_fit() {
    let with = |ids: &[i32]| CompileOptions { device_assignment: Some(ids.into()), ..counts(1, 2) };
    assert!(with(&[0, 1]).check().is_ok());
    for bad in [&[0, 0][..], &[0], &[], &[0, 1, 2]] {
        assert_eq!(with(bad).check().unwrap_err().kind(), Kind::InvalidInput, "{bad:?}");
    }
}

#[test]
fn partitioners_are_chosen_unless_told() {
    let partitioners = |options: &CompileOptions, for_shardy| {
        let build = build(options, &[0, 1], for_shardy);
        (build.use_spmd_partitioning, build.use_shardy_partitioner)
    };
    assert_eq!(partitioners(&counts(2, 1), false), (false, false));
    assert_eq!(partitioners(&counts(1, 2), false), (true, false));
    assert_eq!(partitioners(&counts(1, 2), true), (true, true));
    let chosen =
        CompileOptions { use_spmd_partitioning: Some(true), use_shardy_partitioner: Some(false), ..Default::default() };
    assert_eq!(partitioners(&chosen, true), (true, false));
    let refused = CompileOptions { use_spmd_partitioning: Some(false), ..counts(1, 2) };
    assert!(refused.check().is_err());
}

#[test]
fn used_options_list_their_devices_in_order() {
    let used = |options: &CompileOptions, ids: &[i64]| UsedOptions::decode(&encoded(options, ids)).unwrap();
    let parts = used(&counts(2, 3), &[10, 11, 12, 20, 21, 22]);
    assert_eq!((parts.counts(), parts.is_portable()), ((2, 3), false));
    assert_eq!(parts.device_ids(), [10, 11, 12, 20, 21, 22]);
    let portable = CompileOptions { compile_portable_executable: true, ..Default::default() };
    assert!(used(&portable, &[0]).is_portable());
    assert!(used(&portable, &[0]).device_ids().is_empty());
    assert_eq!(UsedOptions::decode(b"\xff"), None);
    assert_eq!(UsedOptions::decode(&encoded(&counts(2, 1), &[0])), None, "a device is missing");
}

#[test]
fn portable_executables_have_no_devices() {
    let portable = CompileOptions { compile_portable_executable: true, ..Default::default() };
    assert!(portable.check().is_ok());
    let proto = decoded(&portable, &[0], false);
    assert!(proto.compile_portable_executable);
    assert_eq!(proto.executable_build_options.unwrap().device_assignment, None);
    assert!(CompileOptions { num_replicas: Some(2), ..portable.clone() }.check().is_err());
    assert!(CompileOptions { device_assignment: Some(vec![0]), ..portable }.check().is_err());
}

#[test]
fn debug_options_go_by_name_with_their_type() {
    let values = [
        ("xla_b", OptionValue::Bool(true)),
        ("xla_d", OptionValue::Float(0.5)),
        ("xla_i", OptionValue::Int(-3)),
        ("xla_s", OptionValue::String("x".into())),
    ];
    let options = CompileOptions {
        debug_options: values.clone().map(|(name, value)| (name.to_owned(), value)).into(),
        optimization_level: Some(1),
        ..Default::default()
    };
    assert!(options.check().is_ok());
    let overrides = decoded(&options, &[0], false).env_option_overrides;
    assert_eq!(overrides.len(), 5);
    for (name, value) in values {
        assert_eq!(overrides[name].value, Some(value));
    }
    assert_eq!(overrides[LEVEL].value, Some(OptionValue::Int(1)));
}

#[test]
fn the_callers_options_override_defaults() {
    let text = |folder: &str| OptionValue::String(folder.to_owned());
    let named = |options: &CompileOptions| {
        let bytes = options.encode(&[0], 7, false, [(TOOLKIT.to_owned(), text("/toolkit"))].into());
        CompileOptionsProto::decode(bytes.as_slice()).unwrap().env_option_overrides[TOOLKIT].value.clone()
    };
    assert_eq!(named(&CompileOptions::default()), Some(text("/toolkit")));
    let own = [(TOOLKIT.to_owned(), text("/own"))].into();
    assert_eq!(named(&CompileOptions { debug_options: own, ..Default::default() }), Some(text("/own")));
}

#[test]
fn debug_options_are_checked() {
    let with = |name: &str| CompileOptions {
        debug_options: [(name.to_owned(), OptionValue::Int(1))].into(),
        ..Default::default()
    };
    assert!(with("dump_to").check().is_err());
    assert!(with("").check().is_err());
    assert!(with(LEVEL).check().is_ok());
    assert!(CompileOptions { optimization_level: Some(1), ..with(LEVEL) }.check().is_err());
    assert!(with("xla_cpu_parallel_codegen_split_count").check().is_ok());
    assert!(with("xla_unsupported_crash_on_hlo_pass_noop_change").check().is_err());
    for level in [-1, 4] {
        assert!(CompileOptions { optimization_level: Some(level), ..Default::default() }.check().is_err());
    }
}

fn arrays(has_sharding: &[bool]) -> Option<Vec<Array>> {
    Some(has_sharding.iter().map(|&has_sharding| Array { has_sharding, ..Default::default() }).collect())
}

#[test]
fn a_program_fills_in_unset_options() {
    let program = |num_replicas, num_partitions| Annotations { num_replicas, num_partitions, ..Default::default() };
    let resolved = |options: &CompileOptions, program: &Annotations| -> std::result::Result<(i64, i64), String> {
        let options = options.for_program(program).map_err(|error| error.message().to_owned())?;
        // Resolved options do not change.
        assert_eq!(options.for_program(program).unwrap(), options);
        Ok((options.replicas(), options.partitions()))
    };
    let open = CompileOptions::default();
    assert_eq!(resolved(&open, &program(None, None)), Ok((1, 1)));
    assert_eq!(resolved(&open, &program(Some(2), Some(4))), Ok((2, 4)));
    assert_eq!(resolved(&counts(2, 4), &program(None, None)), Ok((2, 4)));
    assert_eq!(resolved(&counts(2, 4), &program(Some(2), Some(4))), Ok((2, 4)));
    let error = resolved(&counts(1, 2), &program(Some(1), Some(4))).unwrap_err();
    assert!(error.contains("`num_partitions` is 2, but the program is for 4"), "{error}");
    let error = resolved(&counts(2, 4), &program(Some(1), Some(4))).unwrap_err();
    assert!(error.contains("`num_replicas` is 2, but the program is for 1"), "{error}");
    assert!(resolved(&open, &program(Some(0), None)).is_err());
    let portable = CompileOptions { compile_portable_executable: true, ..open };
    assert!(resolved(&portable, &program(None, Some(2))).is_err());
}

#[test]
fn compilers_divide_what_the_program_leaves_open() {
    let program = Annotations {
        num_partitions: Some(2),
        inputs: arrays(&[true, false, false]),
        outputs: arrays(&[false, true]),
        ..Default::default()
    };
    let flags = |options: &CompileOptions, program: &Annotations| {
        let build = build(&options.for_program(program)?, &[0, 1], false);
        Result::Ok((
            build.allow_spmd_sharding_propagation_to_parameters,
            build.allow_spmd_sharding_propagation_to_output,
        ))
    };
    let with = |parameters, output| CompileOptions {
        propagation_to_parameters: parameters,
        propagation_to_output: output,
        ..Default::default()
    };
    let default = CompileOptions::default();
    assert_eq!(flags(&default, &program).unwrap(), (vec![false, true, true], vec![true, false]));
    let chosen = with(Propagation::All(false), Propagation::All(true));
    assert_eq!(flags(&chosen, &program).unwrap(), (vec![false; 3], vec![true; 2]));
    let each = with(Propagation::Each(vec![true, false, true]), Propagation::Unsaid);
    assert_eq!(flags(&each, &program).unwrap().0, [true, false, true]);
    for bad in [vec![true; 2], vec![true; 4], vec![]] {
        assert!(flags(&with(Propagation::Each(bad), Propagation::Unsaid), &program).is_err());
    }
    // The number of arrays of a program that cannot be read is not known.
    let unknown = Annotations { num_partitions: Some(2), ..Default::default() };
    assert_eq!(flags(&default, &unknown).unwrap(), (vec![], vec![]));
    assert_eq!(flags(&chosen, &unknown).unwrap(), (vec![false], vec![true]));
    assert!(flags(&each, &unknown).is_err());
    // One partition has nothing to divide.
    let single = Annotations { num_partitions: None, ..program };
    assert_eq!(flags(&chosen, &single).unwrap(), (vec![], vec![]));
}

#[test]
fn an_assignment_fits_what_is_known() {
    let two = CompileOptions { num_replicas: Some(2), ..Default::default() };
    let with = |ids: &[i32]| CompileOptions { device_assignment: Some(ids.into()), ..two.clone() };
    assert!(with(&[0, 1]).check().is_ok() && with(&[0, 1, 2, 3]).check().is_ok());
    assert!(with(&[0]).check().is_err() && with(&[0, 1, 2]).check().is_err() && with(&[]).check().is_err());
    assert!(with(&[0, 1, 2, 3]).for_program(&Annotations::default()).is_err());
}
