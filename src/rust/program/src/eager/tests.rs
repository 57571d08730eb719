use super::*;

#[test]
fn every_operation_has_one_name() {
    for &operation in Operation::ALL {
        assert_eq!(Operation::from_name(operation.name()), Some(operation));
    }
    assert_eq!(Operation::from_name("system"), None);
}
