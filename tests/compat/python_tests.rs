//! How far Mooncake's own Python tests pass on our wheel, file by file.
//! Invariant: each file of the list says why not all of its tests pass.

use crate::list::entries;

#[test]
fn every_file_that_does_not_pass_says_how_many_tests_and_why() {
    let mut files = Vec::new();
    for [file, passed, all, why] in entries::<4>(include_str!("lists/python_tests.txt")) {
        let (passed, all): (u32, u32) = (passed.parse().unwrap(), all.parse().unwrap());
        assert!(passed <= all, "{file}: {passed} of {all}");
        assert_eq!(passed == all, why == "-", "{file}: a reason where tests fail, and only there");
        assert!(!files.contains(&file), "{file} comes twice");
        files.push(file);
    }
}
