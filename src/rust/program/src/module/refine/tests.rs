use super::*;

fn module(name: &str) -> Module {
    let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    Module::decode(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn sizes_that_the_program_refuses_are_an_error() {
    let error = refine(&module("symbolic/multiples.artifact"), &[vec![2, 5], vec![2, 3]], &[]).unwrap_err();
    assert_eq!(error.kind(), Kind::ShapeMismatch);
    eprintln!("{error}");
}

#[test]
fn print() {
    if let Ok(name) = std::env::var("PJRT_SHOW") {
        let dims = std::env::var("PJRT_DIMS").unwrap();
        let dims: Vec<Vec<i64>> =
            dims.split(';').map(|dims| dims.split(',').filter(|dim| !dim.is_empty()).map(|dim| dim.parse().unwrap()).collect()).collect();
        let refined = refine(&module(&name), &dims, &[]).unwrap();
        println!("{}", refined.text().unwrap());
    }
}
