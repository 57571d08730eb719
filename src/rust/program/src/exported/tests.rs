use super::*;
use crate::program::{Format, Program};

/// A file that JAX wrote; see `make.py` there.
fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/fixtures/exported/{name}.jaxexport", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

const ALL: [&str; 12] = [
    "simple",
    "tree",
    "unused",
    "donated",
    "platforms",
    "tpu",
    "symbolic",
    "ordered",
    "unordered",
    "vjp",
    "key",
    "devices",
];

fn read(name: &str) -> Exported {
    Exported::read(&fixture(name)).unwrap()
}

fn described(values: &[Arc<Value>]) -> Vec<String> {
    values.iter().map(|value| format!("{}[{}]", value.dtype, value.shape.join(","))).collect()
}

#[test]
fn a_simple_function_is_read() {
    let exported = read("simple");
    assert_eq!((exported.function.as_str(), exported.num_devices), ("square", 1));
    assert_eq!(exported.in_tree, Tree::Tuple(vec![Tree::Tuple(vec![Tree::Leaf(0)]), Tree::Dict(vec![])]));
    assert_eq!(exported.out_tree, Tree::Leaf(0));
    assert_eq!(
        (described(&exported.inputs), described(&exported.outputs)),
        (vec!["f32[2,3]".to_owned()], vec!["f32[2,3]".to_owned()])
    );
    assert_eq!((exported.platforms, exported.kept), (vec!["cpu".to_owned()], vec![0]));
    assert!((9..=10).contains(&exported.calling_convention));
    assert!(!exported.has_vjp && exported.ordered_effects.is_empty() && exported.unordered_effects.is_empty());
}

#[test]
fn trees_name_their_leaves_as_python_does() {
    let exported = read("tree");
    assert_eq!(
        exported.in_tree.argument_paths(),
        [
            "args[0]['layers'][0]['b']",
            "args[0]['layers'][0]['w']",
            "args[0]['layers'][1]['w']",
            "args[1]",
            "kwargs['scale']"
        ]
    );
    assert_eq!(described(&exported.inputs), ["f32[3]", "f32[4,3]", "f32[3,2]", "f32[5,4]", "f32[]"]);
    assert_eq!(exported.out_tree.paths("result"), ["result['hidden'][0]", "result['scores']", "result['sum'][0]"]);
    let Tree::Dict(outputs) = exported.out_tree else { panic!("not a dictionary") };
    assert_eq!(outputs[0].1, Tree::Tuple(vec![Tree::Leaf(0), Tree::None]));
    assert_eq!(outputs[2].1, Tree::List(vec![Tree::Leaf(2)]));
}

#[test]
fn what_a_program_needs_is_read() {
    assert_eq!(read("unused").kept, [0, 2]);
    assert_eq!(read("platforms").platforms, ["cpu", "tpu"]);
    assert_eq!(described(&read("symbolic").inputs), ["f32[b,2*b,4]"]);
    assert_eq!(read("ordered").ordered_effects, ["<class '__main__.Ordered'>"]);
    assert_eq!(read("unordered").unordered_effects, ["<class '__main__.Unordered'>"]);
    assert_eq!(read("devices").num_devices, 2);
    assert!(read("vjp").has_vjp);
    assert_eq!(described(&read("key").inputs), ["key<fry>[]"]);
}

#[test]
fn the_program_is_a_portable_artifact() {
    for name in ALL {
        let content = fixture(name);
        let exported = Exported::read(&content).unwrap();
        assert_eq!(module(&content).unwrap(), exported.program, "{name}");
        let program = Program::new(exported.program, Format::Mlir).unwrap();
        assert_eq!(Program::new(content, Format::Mlir).unwrap().code(), program.code(), "{name}");
    }
}

#[test]
fn damage_never_panics() {
    for name in ALL {
        let content = fixture(name);
        for place in 0..content.len() {
            for value in [0, 1, 3, 0x40, 0x7f, 0x80, 0xfe, 0xff, content[place] ^ 1, content[place].wrapping_add(4)] {
                let mut changed = content.clone();
                changed[place] = value;
                let _ = module(&changed);
                if let Err(error) = Exported::read(&changed) {
                    assert_eq!(error.kind(), Kind::InvalidFile);
                }
            }
        }
        for len in 0..content.len() {
            let error = Exported::read(&content[..len]).map(|exported| exported.program.len());
            // What is missing at the end may be padding.
            assert!(error.is_err() || len + 8 > content.len(), "{name} {len}");
        }
    }
}

/// Sets a field of the root table to missing.
fn without(mut content: Vec<u8>, field: usize) -> Vec<u8> {
    let number = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().unwrap()) as usize;
    let root = number(0);
    let place = root - number(root) + 4 + 2 * field;
    content[place..place + 2].fill(0);
    content
}

#[test]
fn older_files_repeat_each_value() {
    for name in ALL {
        let new = read(name);
        let old = [field::INPUT_INDICES, field::OUTPUT_INDICES, field::UNIQUE_VALUES];
        let old = Exported::read(&old.into_iter().fold(fixture(name), without)).unwrap();
        assert_eq!((&old.inputs, &old.outputs), (&new.inputs, &new.outputs), "{name}");
    }
}

#[test]
fn parts_that_the_program_needs_may_not_be_missing() {
    for part in [field::IN_TREE, field::OUT_TREE, field::PLATFORMS, field::PROGRAM, field::DEVICES] {
        let error = Exported::read(&without(fixture("simple"), part)).unwrap_err();
        assert!(error.message().starts_with("The exported program is damaged"), "{error}");
    }
}

#[test]
fn other_formats_are_refused() {
    let message = |content: &[u8]| {
        let error = Exported::read(content).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidFile);
        error.to_string()
    };
    assert!(message(&read("simple").program).contains("MLIR bytecode"));
    let pickle = message(b"\x80\x04\x95\x12\0\0\0\0\0\0\0C\nserialized\x94NN\x87\x94.");
    assert!(pickle.contains("pickle") && pickle.contains("jax.export.export(jax.jit(f))(*args).serialize()"));
    for other in [&b""[..], b"module {}", &[0xff; 64], &[0; 64]] {
        assert!(message(other).starts_with("The exported program is damaged: "));
    }
}

/// A table whose fields are offsets or bytes, and the trees of one node that is its own child twice.
#[test]
fn endless_trees_are_refused() {
    // The vtable: 8 bytes, the table has 12, the kind is at 8 and the children at 4.
    let mut bytes = vec![12, 0, 0, 0, 8, 0, 12, 0, 8, 0, 4, 0];
    // The table at 12: its vtable is 8 bytes before; the children are 8 bytes after its second field.
    bytes.extend([8, 0, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0]);
    // The children at 24: two, both the table itself, at offsets that would have to be negative.
    bytes.extend([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let buffer = Buffer::new(&bytes);
    assert!(Tree::read(buffer.root().unwrap()).is_err());

    // Offsets only lead forward, so each level has a node that both children of the level above refer to.
    let mut levels = vec![12, 0, 0, 0, 8, 0, 12, 0, 8, 0, 4, 0];
    const LEVELS: usize = 100;
    for level in 0..LEVELS {
        let at = levels.len() as i32;
        levels.extend((at - 4).to_le_bytes());
        levels.extend(8u32.to_le_bytes());
        levels.extend([2, 0, 0, 0]);
        // The children: both are the next table, which follows.
        let children = if level + 1 < LEVELS { 2u32 } else { 0 };
        levels.extend(children.to_le_bytes());
        if children > 0 {
            levels.extend(8u32.to_le_bytes());
            levels.extend(4u32.to_le_bytes());
        }
    }
    let buffer = Buffer::new(&levels);
    let error = Tree::read(buffer.root().unwrap()).unwrap_err();
    assert!(error.message().contains("overlap"), "{error}");
}
