use super::*;
use crate::exported::dims::Given;

/// A description that torch_xla 2.9 wrote; see `make.py` there.
fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/fixtures/pytorch/{name}.meta", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn read(name: &str) -> Exported {
    Exported::of_pytorch(&fixture(name)).unwrap()
}

fn described(names: &[String], arrays: &[Arc<Value>]) -> Vec<String> {
    let arrays = names.iter().zip(arrays);
    arrays.map(|(name, array)| format!("{name}: {}[{}]", array.dtype, array.shape.join(","))).collect()
}

fn inputs(function: &Exported) -> Vec<String> {
    described(&function.input_names, &function.inputs)
}

#[test]
fn weights_and_arguments_are_told_apart() {
    let linear = read("linear");
    assert_eq!(linear.function, "forward");
    assert_eq!(inputs(&linear), ["bias: f32[3]", "weight: f32[3,4]", "args[0]: f32[2,4]"]);
    assert_eq!(linear.weights, [(0, "data/bias".into()), (1, "data/weight".into())]);
    assert_eq!(described(&linear.output_names, &linear.outputs), ["result: f32[2,3]"]);
    assert_eq!((&linear.out_tree, linear.kept.len()), (&Tree::Leaf(0), 3));
    let args = Tree::Tuple(vec![Tree::Leaf(2)]);
    assert_eq!(linear.in_tree, Tree::Tuple(vec![args, Tree::Dict(vec![])]));
}

#[test]
fn arguments_keep_their_places() {
    let lookup = read("lookup");
    assert_eq!(
        lookup.input_names,
        ["factor", "args[1]", "table", "fc2.bias", "fc2.weight", "fc1.bias", "fc1.weight", "args[0]", "args[2]"]
    );
    assert!(lookup.kept.iter().copied().eq(0..8));
    assert_eq!(inputs(&lookup)[8], "args[2]: f32[2]");
    let args = Tree::Tuple(vec![Tree::Leaf(7), Tree::Leaf(1), Tree::Leaf(8)]);
    assert_eq!(lookup.in_tree, Tree::Tuple(vec![args, Tree::Dict(vec![])]));
    assert_eq!(lookup.output_names, ["result['rows']", "result['next'][0]", "result['next'][1]"]);
    let constants = read("constants");
    let found = constants.weights.iter().filter(|(row, path)| constants.input_names[*row] == *path);
    assert!(found.map(|(_, path)| path.as_str()).eq(["constants/0", "constants/1"]));
}

#[test]
fn nested_arguments_are_counted_in_order() {
    // The exporter takes `b` for the unused argument 1, which is `a['y'][0]`.
    let nested = read("nested");
    let described = inputs(&nested);
    assert_eq!(
        described,
        [
            "args[0]['y'][0]: f32[2]",
            "args[0]['x']: f32[2]",
            "args[1][1]: f32[2]",
            "args[0]['y'][1]: []",
            "args[1][0]: []"
        ]
    );
}

#[test]
fn dimensions_that_are_not_fixed_have_no_number() {
    let exported = read("dynamic");
    assert_eq!(exported.inputs[2].shape, ["d1", "4"]);
    assert_eq!(exported.outputs[0].shape, ["?", "?"]);
}

#[test]
fn an_argument_that_the_program_does_not_take_needs_no_size() {
    let json = br#"{"name": "f", "output_signature": [{"shape": [2], "dtype": "float32"}],
        "input_signature": [{"shape": [2, 3], "dtype": "float32", "dynamic_dims": [0]}],
        "input_locations": [{"type_": "input_arg", "position": 0}],
        "unused_inputs": [[{"type_": "input_arg", "position": 1}, {"shape": [2], "dtype": "float32", "dynamic_dims": [0]}]],
        "input_pytree_spec":
        "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[]\", \"children_spec\": []}]}]"}"#;
    let exported = Exported::of_pytorch(json).unwrap();
    assert_eq!(exported.inputs[1].shape, ["d2"]);
    let given = |name, dims| exported.kept_shapes(&[Given { name, dims }]);
    assert_eq!(given("d1", &[5]).unwrap(), [[5, 3]]);
    assert_eq!(given("args[0]", &[4, 3]).unwrap(), [[4, 3]]);
    assert!(given("d2", &[5]).unwrap_err().message().contains("`d1` is not known"));
}

#[test]
fn older_descriptions_lack_some_entries() {
    let json = br#"{"name": "f", "input_signature": [{"shape": [], "dtype": "int64"}],
        "output_signature": [{"shape": [1], "dtype": "bool"}, {"shape": [], "dtype": "bool"}],
        "input_locations": [{"type_": "input_arg", "position": 1}]}"#;
    let function = Exported::of_pytorch(json).unwrap();
    assert_eq!(inputs(&function), ["args[1]: i64[]", "args[0]: []"]);
    assert_eq!(described(&function.output_names, &function.outputs), ["result[0]: pred[1]", "result[1]: pred[]"]);
}

#[test]
fn damage_is_refused() {
    let refused = |from: &str, to: &str, reason: &str| {
        let text = String::from_utf8(fixture("linear")).unwrap();
        assert!(text.contains(from), "{from}");
        let error = Exported::of_pytorch(text.replace(from, to).as_bytes()).expect_err(to);
        assert_eq!(error.kind(), Kind::InvalidInput);
        assert!(error.message().contains(reason), "{error}");
    };
    for name in ["", "..", "../data/x", "/etc/passwd", "a\\\\b", "C:x", "a\\u0000"] {
        refused("\"name\": \"bias\"", &format!("\"name\": \"{name}\""), "is not the name of a weight");
    }
    refused("\"name\": \"bias\"", "\"name\": \"weight\"", "takes \"weight\" twice");
    refused("{\"name\": \"", "{\"name\": \"\\u0000", "a text has a NUL character");
    refused("\"position\": 0", "\"position\": 1", "do not match");
    refused("\"position\": 0", "\"position\": -5", "negative");
    refused("\"input_arg\"", "\"other\"", "which is unknown");
    refused("\"shape\": [3]", "\"shape\": [-3]", "negative");
    refused("\"shape\": [3]", &format!("\"shape\": [{}1]", "1,".repeat(100)), "too many dimensions");
    refused("[1, {\\\"type\\\"", "[2, {\\\"type\\\"", "version 2");
    refused("\\\"context\\\": \\\"[]\\\"", "\\\"context\\\": \\\"[3]\\\"", "keys do not match");
    refused("\"input_signature\": [", "\"input_signature\": [{\"shape\": [], \"dtype\": \"x\"}, ", "do not match");
    refused("{\"name\"", "[\"name\"", "damaged");
}

#[test]
fn no_change_of_a_byte_does_more_than_an_error() {
    for name in ["constants", "nested"] {
        let sound = fixture(name);
        for i in 0..sound.len() {
            for byte in [b'0', b'"', 0xff] {
                let mut bytes = sound.clone();
                bytes[i] = byte;
                let _ = Exported::of_pytorch(&bytes);
            }
            let _ = Exported::of_pytorch(&sound[..i]);
        }
    }
    let deep = format!("\"[1, {}", "{\\\"type\\\": \\\"builtins.tuple\\\", \\\"children_spec\\\": [".repeat(100_000));
    let json = format!(
        "{{\"name\": \"f\", \"input_signature\": [], \"output_signature\": [], \"input_locations\": [], \
         \"input_pytree_spec\": {deep}\"}}"
    );
    assert!(Exported::of_pytorch(json.as_bytes()).is_err());
}
