use super::super::examples::{array, instruction};
use super::super::{CollectiveDeviceList, HloInstructionProto, IotaReplicaGroupList, ReplicaGroup, SourceTarget};
use super::*;
use pjrt_base::error::Kind;
use prost::Message;

const SECOND: Process = Process { rank: 1, size: 4, are_partitions: true };

fn reducer(opcode: &str) -> HloComputationProto {
    let instructions = vec![
        instruction(90, "parameter", &[], &[]),
        instruction(91, "parameter", &[], &[]),
        instruction(92, opcode, &[], &[90, 91]),
    ];
    HloComputationProto { id: 9, root_id: 92, instructions, ..Default::default() }
}

/// A module with one parameter of 8 x 4 and an operation on it, as the compiler writes it.
fn written(operation: HloInstructionProto, reduction: &str) -> Vec<u8> {
    let root_id = operation.id;
    let entry = HloComputationProto {
        id: 1,
        root_id,
        instructions: vec![instruction(5, "parameter", &[8, 4], &[]), operation],
        ..Default::default()
    };
    let module = HloModuleProto {
        name: "m".into(),
        computations: vec![reducer(reduction), entry],
        entry_computation_id: 1,
        spmd_parameters_shardings: vec![Default::default()],
        ..Default::default()
    };
    let mut proto = Vec::new();
    wire::put(&mut proto, MODULE, &module.encode_to_vec());
    proto
}

fn operation(opcode: &str, dims: &[i64]) -> HloInstructionProto {
    HloInstructionProto {
        channel_id: 1,
        use_global_device_ids: true,
        called_computation_ids: vec![9],
        dimensions: vec![1],
        ..instruction(7, opcode, dims, &[5])
    }
}

/// The instructions that replace an operation, without the parameter.
fn replaced(process: Process, operation: HloInstructionProto) -> Vec<HloInstructionProto> {
    let code = process.program(&written(operation, "add")).unwrap();
    let module = HloModuleProto::decode(code.as_slice()).unwrap();
    assert!(module.spmd_parameters_shardings.is_empty());
    let entry = module.entry().unwrap();
    assert_eq!(entry.instructions.last().unwrap().id, entry.root_id);
    let plain = |i: &&HloInstructionProto| i.opcode != "parameter" && i.id != first_ticket(entry);
    entry.instructions.iter().filter(plain).cloned().collect()
}

/// The number of the constant that is the first ticket, or -1.
fn first_ticket(entry: &HloComputationProto) -> i64 {
    let is_ticket = |i: &&HloInstructionProto| i.opcode == "constant" && i.id != entry.root_id;
    entry.instructions.iter().find(is_ticket).map_or(-1, |i| i.id)
}

/// The operations with the dimensions of their results, without the ticket's.
fn steps(made: &[HloInstructionProto]) -> Vec<String> {
    let dims = |i: &HloInstructionProto| {
        let shape = i.shape.clone().unwrap_or_default();
        shape.tuple_shapes.first().unwrap_or(&shape).dimensions.clone()
    };
    let steps = made.iter().filter(|i| i.opcode != "get-tuple-element");
    steps.map(|i| format!("{} {:?}", i.opcode, dims(i))).collect()
}

fn attributes(made: &[HloInstructionProto]) -> (&str, &str) {
    let call = made.iter().find(|i| i.opcode == "custom-call").unwrap();
    assert!(call.custom_call_has_side_effect && call.custom_call_api_version == 4);
    (call.custom_call_target.as_str(), std::str::from_utf8(&call.backend_config).unwrap())
}

#[test]
fn operations_become_calls_between_reshapes() {
    let all = "groups = array<i64: 0, 1, 2, 3>, group_size = 4 : i64";
    let made = replaced(SECOND, operation("all-reduce", &[8, 4]));
    assert_eq!(steps(&made), ["custom-call [8, 4]"]);
    assert_eq!(attributes(&made), ("pjrt_mpi_all_reduce", format!("{{op = \"sum\", {all}, ticket = true}}").as_str()));
    let places = |made: &[HloInstructionProto]| {
        let aliases = made.iter().flat_map(|i| &i.output_operand_aliasing);
        aliases.map(|alias| (alias.output_shape_index.clone(), alias.operand_index)).collect::<Vec<_>>()
    };
    assert_eq!(places(&made), [(vec![0], 0)]);
    let made = replaced(SECOND, operation("all-gather", &[8, 16]));
    assert!(places(&made).is_empty());
    assert_eq!(steps(&made), ["custom-call [4, 8, 4]", "transpose [8, 4, 4]", "reshape [8, 16]"]);
    assert_eq!(attributes(&made).0, "pjrt_mpi_all_gather");
    let order: Vec<_> = made.iter().filter(|i| i.opcode == "transpose").map(|i| i.dimensions.clone()).collect();
    assert_eq!(order, [[1, 0, 2]]);
    let made = replaced(SECOND, operation("reduce-scatter", &[8, 1]));
    assert_eq!(steps(&made), ["reshape [8, 4, 1]", "transpose [4, 8, 1]", "custom-call [8, 1]"]);
    let made = replaced(SECOND, operation("all-to-all", &[8, 4]));
    let expected =
        ["reshape [8, 4, 1]", "transpose [4, 8, 1]", "custom-call [4, 8, 1]", "transpose [8, 4, 1]", "reshape [8, 4]"];
    assert_eq!(steps(&made), expected);
    let pairs = vec![SourceTarget { source: 0, target: 1 }, SourceTarget { source: 1, target: 0 }];
    let permute = HloInstructionProto { source_target_pairs: pairs, ..operation("collective-permute", &[8, 4]) };
    assert_eq!(
        attributes(&replaced(SECOND, permute)),
        ("pjrt_mpi_permute", "{pairs = array<i64: 0, 1, 1, 0>, ticket = true}")
    );
    for (opcode, number) in [("partition-id", 1), ("replica-id", 0)] {
        let made = replaced(SECOND, HloInstructionProto { operand_ids: Vec::new(), ..operation(opcode, &[]) });
        assert_eq!(made[0].literal.as_ref().unwrap().u32s, [number]);
    }
    // Other instructions stay to the letter.
    let other = HloInstructionProto { shape: Some(array(&[4])), ..instruction(7, "slice", &[4], &[5]) };
    assert_eq!(replaced(SECOND, other.clone()), [other]);
}

#[test]
fn several_operands_give_a_tuple() {
    let parts: Vec<_> = (0..4).map(|_| array(&[8, 4])).collect();
    let tuple =
        super::super::ShapeProto { element_type: super::super::TUPLE, tuple_shapes: parts, ..Default::default() };
    let four = HloInstructionProto {
        operand_ids: vec![5; 4],
        shape: Some(tuple),
        dimensions: Vec::new(),
        ..operation("all-to-all", &[])
    };
    let made = replaced(SECOND, four.clone());
    assert_eq!(made.iter().filter(|i| i.opcode == "slice").count(), 4);
    assert_eq!((made.last().unwrap().opcode.as_str(), made.last().unwrap().operand_ids.len()), ("tuple", 4));
    let reduced = replaced(SECOND, HloInstructionProto { opcode: "all-reduce".into(), ..four });
    assert_eq!(reduced.iter().filter(|i| i.opcode == "custom-call").count(), 4);
    let names: std::collections::BTreeSet<_> = reduced.iter().map(|i| &i.name).collect();
    assert_eq!(names.len(), reduced.len());
    // Each call takes the ticket of the one before.
    let calls: Vec<_> = reduced.iter().filter(|i| i.opcode == "custom-call").collect();
    for pair in calls.windows(2) {
        let ticket = reduced.iter().find(|i| i.id == pair[1].operand_ids[1]).unwrap();
        assert_eq!((ticket.operand_ids[0], ticket.tuple_index), (pair[0].id, 1));
    }
}

#[test]
fn groups_are_of_replicas_or_partitions_as_xla_defines() {
    let replicas = Process { are_partitions: false, ..SECOND };
    let list = |groups: &[&[i64]]| CollectiveDeviceList {
        replica_groups: groups.iter().map(|ids| ReplicaGroup { replica_ids: ids.to_vec() }).collect(),
        iota: None,
    };
    let pairs = Some(list(&[&[0, 2], &[1, 3]]));
    let over = |channel_id, use_global_device_ids, list: Option<CollectiveDeviceList>, process: Process| {
        let reduce = HloInstructionProto {
            channel_id,
            use_global_device_ids,
            collective_device_list: list,
            ..operation("all-reduce", &[8, 4])
        };
        process.groups(&reduce).map(|groups| (groups.size, groups.ranks))
    };
    let (all, paired, alone) = ((4, vec![0, 1, 2, 3]), (2, vec![0, 2, 1, 3]), (1, vec![0, 1, 2, 3]));
    // Groups of replicas, and there is only one.
    assert_eq!(over(0, false, Some(list(&[&[0]])), SECOND).unwrap(), alone);
    assert_eq!(over(1, false, Some(list(&[&[0]])), SECOND).unwrap(), all);
    assert_eq!(over(1, true, pairs.clone(), SECOND).unwrap(), paired);
    assert_eq!(over(0, false, pairs.clone(), replicas).unwrap(), paired);
    assert_eq!(over(1, false, None, replicas).unwrap(), all);
    let iota = IotaReplicaGroupList {
        num_replica_groups: 2,
        num_devices_per_group: 2,
        iota_reshape_dims: vec![2, 2],
        iota_transpose_perm: vec![1, 0],
    };
    let range = CollectiveDeviceList { replica_groups: Vec::new(), iota: Some(iota) };
    assert_eq!(over(1, true, Some(range), SECOND).unwrap(), paired);
    for wrong in [&[&[0, 1, 2][..], &[3]][..], &[&[0, 1]], &[&[0, 1], &[1, 2]]] {
        assert_eq!(over(1, true, Some(list(wrong)), SECOND).unwrap_err().kind(), Kind::UnsupportedProgram);
    }
    let alone = replaced(
        SECOND,
        HloInstructionProto { channel_id: 0, use_global_device_ids: false, ..operation("all-gather", &[8, 4]) },
    );
    assert_eq!(steps(&alone), ["reshape [8, 4]"]);
}

#[test]
fn what_processes_lack_is_refused_and_damage_is_an_error() {
    let refused = |operation, reduction| SECOND.program(&written(operation, reduction)).unwrap_err().kind();
    assert_eq!(refused(operation("all-reduce", &[8, 4]), "subtract"), Kind::UnsupportedProgram);
    assert_eq!(refused(operation("all-reduce-start", &[8, 4]), "add"), Kind::UnsupportedProgram);
    let beyond = HloInstructionProto { dimensions: vec![2], ..operation("all-gather", &[8, 4]) };
    assert_eq!(refused(beyond, "add"), Kind::InvalidFile);
    let nowhere = HloInstructionProto { operand_ids: vec![77], ..operation("all-gather", &[8, 4]) };
    assert_eq!(refused(nowhere, "add"), Kind::InvalidFile);
    let whole = written(operation("reduce-scatter", &[8, 1]), "add");
    for end in 0..whole.len() {
        assert!(SECOND.program(&whole[..end]).is_err());
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x5a;
        let _ = SECOND.program(&changed);
    }
}

#[test]
fn fields_that_are_unknown_here_are_kept() {
    let mut instruction = instruction(7, "slice", &[4], &[5]).encode_to_vec();
    wire::put(&mut instruction, 4242, b"new");
    let mut computation = Vec::new();
    wire::put(&mut computation, INSTRUCTION, &instruction);
    let (mut module, mut proto) = (Vec::new(), Vec::new());
    wire::put(&mut module, COMPUTATION, &computation);
    wire::put(&mut module, 999, b"newer");
    wire::put(&mut proto, MODULE, &module);
    assert_eq!(SECOND.program(&proto).unwrap(), module);
}

/// A module whose entry runs computation 2, which has an operation, and perhaps others without.
fn nested(opcode: &str, called: &[i64]) -> Vec<u8> {
    let inner = |id: i64, operation: Option<HloInstructionProto>| {
        let parameter = instruction(10 * id, "parameter", &[8, 4], &[]);
        let result = operation.unwrap_or_else(|| instruction(7, "negate", &[8, 4], &[10 * id]));
        HloComputationProto { id, root_id: 7, instructions: vec![parameter, result], ..Default::default() }
    };
    let reduce = HloInstructionProto { operand_ids: vec![20], ..operation("all-reduce", &[8, 4]) };
    let outer = HloInstructionProto {
        called_computation_ids: called.into(),
        // A conditional's first operand is the choice.
        operand_ids: if opcode == "conditional" { vec![5, 5, 5] } else { vec![5] },
        ..instruction(6, opcode, &[8, 4], &[])
    };
    let gather = HloInstructionProto { operand_ids: vec![6], ..operation("all-gather", &[8, 16]) };
    let instructions = vec![instruction(5, "parameter", &[8, 4], &[]), outer, gather];
    let entry = HloComputationProto { id: 1, root_id: 7, instructions, ..Default::default() };
    let module = HloModuleProto {
        computations: vec![reducer("add"), inner(3, None), inner(2, Some(reduce)), entry],
        entry_computation_id: 1,
        ..Default::default()
    };
    let mut proto = Vec::new();
    wire::put(&mut proto, MODULE, &module.encode_to_vec());
    proto
}

#[test]
fn loops_branches_and_functions_pass_the_ticket_on() {
    for (opcode, called) in [("while", &[2, 3][..]), ("conditional", &[3, 2]), ("call", &[2])] {
        let code = SECOND.program(&nested(opcode, called)).unwrap();
        let module = HloModuleProto::decode(code.as_slice()).unwrap();
        let entry = module.entry().unwrap();
        let find = |id: i64| entry.instructions.iter().find(|i| i.id == id).unwrap();
        let outer = entry.instructions.iter().find(|i| i.opcode == opcode).unwrap();
        assert_eq!(outer.shape.as_ref().unwrap().tuple_shapes.len(), 2);
        let result = find(6);
        assert_eq!(
            (result.opcode.as_str(), result.tuple_index, result.operand_ids[0]),
            ("get-tuple-element", 0, outer.id)
        );
        let gather = entry.instructions.iter().find(|i| i.opcode == "custom-call").unwrap();
        let ticket = find(gather.operand_ids[1]);
        assert_eq!((ticket.tuple_index, ticket.operand_ids[0]), (1, outer.id));
        for &id in called {
            let inner = module.computations.iter().find(|c| c.id == id).unwrap();
            let parameters: Vec<_> = inner.instructions.iter().filter(|i| i.opcode == "parameter").collect();
            let parts: usize = parameters.iter().map(|p| p.shape.as_ref().unwrap().tuple_shapes.len().max(1)).sum();
            let root = inner.instructions.iter().find(|i| i.id == inner.root_id).unwrap();
            let returns = if opcode == "while" && id == 3 { ("negate", 1) } else { ("tuple", 2) };
            assert_eq!((parts, (root.opcode.as_str(), root.operand_ids.len())), (2, returns), "{opcode}");
        }
    }
    // The function of another operation cannot communicate, and all who call a function must pass a ticket.
    for (opcode, called) in [("map", &[2][..]), ("while", &[3, 2]), ("while", &[2, 2])] {
        assert_eq!(SECOND.program(&nested(opcode, called)).unwrap_err().kind(), Kind::UnsupportedProgram);
    }
}
