use super::damage::damaged_places;
use super::*;

/// A file that JAX wrote; see `make.py` there.
fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/fixtures/exported/{name}.jaxexport", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[rustfmt::skip]
const ALL: [&str; 17] = [
    "simple", "tree", "unused", "donated", "platforms", "tpu", "symbolic", "ordered", "unordered", "vjp", "key",
    "devices", "mlp", "expressions", "everywhere", "keys", "shared",
];

fn read(name: &str) -> Exported {
    Exported::read(&fixture(name), 0).unwrap()
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
fn inputs_have_the_names_of_the_python_function() {
    let names = |name: &str| read(name).input_names;
    assert_eq!(
        names("tree"),
        ["params['layers'][0]['b']", "params['layers'][0]['w']", "params['layers'][1]['w']", "x", "scale"]
    );
    assert_eq!(names("unused"), ["x", "args[1]", "y"]);
    assert_eq!(names("expressions"), ["x", "y", "z"]);
    assert_eq!(names("everywhere"), ["a"]);
    assert_eq!(read("everywhere").custom_calls, ["cusolver_potrf_ffi", "lapack_spotrf_ffi"]);
    assert_eq!(read("tree").output_names, ["result['hidden'][0]", "result['scores']", "result['sum'][0]"]);
}

#[test]
fn derivatives_have_the_names_of_their_function() {
    let content = fixture("mlp");
    let of_order = |order| Exported::read(&content, order).unwrap();
    let primal = of_order(0);
    let arguments = ["params['b1']", "params['w1']", "params['w2']", "x", "labels", "scale"];
    assert_eq!((primal.input_names.as_slice(), primal.has_vjp), (&arguments.map(str::to_owned)[..], true));
    let first = of_order(1);
    assert_eq!((first.function.as_str(), first.order, first.has_vjp), ("mlp", 1, true));
    assert_eq!(first.input_names, [&arguments[..], &["cotangents['hits']", "cotangents['loss']"]].concat());
    assert_eq!(first.output_names, arguments);
    assert_eq!(
        first.in_tree.argument_paths()[5..],
        ["kwargs['scale']", "kwargs['cotangents']['hits']", "kwargs['cotangents']['loss']"]
    );
    assert_eq!(first.output_paths(), primal.in_tree.argument_paths());
    assert_eq!(first.kept, [0, 1, 2, 3, 4, 5, 7]);
    assert_eq!(described(&first.inputs)[6..], ["float0[]", "f32[]"]);
    assert_eq!(described(&first.outputs)[4..], ["float0[5]", "f32[]"]);
    let second = of_order(2);
    assert_eq!(second.inputs.len(), 14);
    assert_eq!(second.input_names[8], "cotangents2[params['b1']]");
    assert_eq!(second.output_names, first.input_names);
    assert_eq!(second.in_tree.argument_paths()[8], "kwargs['cotangents2'][0][0]['b1']");
    assert!(!second.has_vjp);
    let error = Exported::read(&content, 3).unwrap_err();
    assert_eq!(error.message(), "The file contains derivatives of `mlp` up to order 2.");
    let error = Exported::read(&fixture("simple"), 1).unwrap_err();
    assert!(error.to_string().contains("does not contain the derivative of `square`"), "{error}");
    assert!(error.to_string().contains("serialize(vjp_order=1)"), "{error}");
}

#[test]
fn damage_never_panics() {
    for name in ALL {
        let content = fixture(name);
        let order = usize::from(matches!(name, "vjp" | "mlp"));
        for place in damaged_places(content.len(), 20) {
            for value in [0, 1, 3, 0x40, 0x7f, 0x80, 0xfe, 0xff, content[place] ^ 1, content[place].wrapping_add(4)] {
                let mut changed = content.clone();
                changed[place] = value;
                let _ = module_of(&changed);
                if let Err(error) = Exported::read(&changed, order) {
                    assert!(matches!(error.kind(), Kind::InvalidFile | Kind::InvalidInput));
                }
            }
        }
        for len in damaged_places(content.len(), 20) {
            let error = Exported::read(&content[..len], 0).map(|exported| exported.program.len());
            // What is missing at the end may be padding.
            assert!(error.is_err() || len + 8 > content.len(), "{name} {len}");
        }
    }
}

/// Sets a field of the root table to missing.
fn without(mut content: Vec<u8>, field: usize) -> Vec<u8> {
    let number = |at: usize| i32::from_le_bytes(content[at..at + 4].try_into().unwrap());
    let root = number(0);
    let place = (root - number(root as usize)) as usize + 4 + 2 * field;
    content[place..place + 2].fill(0);
    content
}

#[test]
fn older_files_repeat_each_value() {
    for name in ALL {
        let new = read(name);
        let old = [field::INPUT_INDICES, field::OUTPUT_INDICES, field::UNIQUE_VALUES];
        let old = Exported::read(&old.into_iter().fold(fixture(name), without), 0).unwrap();
        assert_eq!((&old.inputs, &old.outputs), (&new.inputs, &new.outputs), "{name}");
    }
}

#[test]
fn parts_that_the_program_needs_may_not_be_missing() {
    for part in [field::IN_TREE, field::OUT_TREE, field::PLATFORMS, field::PROGRAM, field::DEVICES] {
        let error = Exported::read(&without(fixture("simple"), part), 0).unwrap_err();
        assert!(error.message().starts_with("The exported program is damaged"), "{error}");
    }
}

#[test]
fn other_formats_are_refused() {
    let message = |content: &[u8]| {
        let error = Exported::read(content, 0).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidFile);
        error.to_string()
    };
    assert!(message(&fixture("simple")[read("simple").program]).contains("MLIR bytecode"));
    let pickle = message(b"\x80\x04\x95\x12\0\0\0\0\0\0\0C\nserialized\x94NN\x87\x94.");
    assert!(pickle.contains("pickle") && pickle.contains("jax.export.export(jax.jit(f))(*args).serialize()"));
    assert!(message(b"\n module {}").contains("is the text of a program"));
    for other in [&b""[..], &[0xff; 64], &[0; 64]] {
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

#[test]
fn what_no_platform_can_compile_is_refused() {
    let message = |exported: &Exported| exported.check().unwrap_err().to_string();
    assert!(message(&read("ordered")).contains(" has ordered effects, which are not supported: <class"));
    let newer = Exported { calling_convention: 11, ..read("simple") };
    assert!(message(&newer).contains("`square` has calling convention 11, but only 9 and 10 are supported."));
    assert!(read("simple").check().is_ok());
    assert_eq!(read("platforms").platform_number("tpu").unwrap(), Some(1));
    assert_eq!(read("simple").platform_number("cpu").unwrap(), None);
    assert!(read("tpu").platform_number("cpu").unwrap_err().to_string().contains("is for the platform \"tpu\", not"));
}

#[test]
fn errors_about_sizes_say_what_to_give_or_to_export() {
    let sizes = read("symbolic").kept_shapes(&[]).unwrap_err().to_string();
    assert!(sizes.contains("has symbolic dimensions, whose sizes are not known: b."), "{sizes}");
    assert!(sizes.contains("shapes = list(x = c(32, 64, 4))") && sizes.contains("shapes = list(b = 32)"), "{sizes}");
    assert_eq!(read("key").kept_shapes(&[]).unwrap(), [[2]]);
    let problem = Error::new(Kind::UnsupportedProgram, "`stablehlo.other` has no static form.");
    let of_sizes = read("symbolic").unresolved(&problem).to_string();
    assert!(
        of_sizes.contains("its symbolic dimensions cannot be resolved. `stablehlo.other` has no static form."),
        "{of_sizes}"
    );
    assert!(of_sizes.contains("Export it with fixed shapes, once for each shape: jax.export"), "{of_sizes}");
    let of_platforms = read("platforms").unresolved(&problem).to_string();
    assert!(of_platforms.contains("its platforms cannot be resolved") && of_platforms.contains("platforms=["));
}
