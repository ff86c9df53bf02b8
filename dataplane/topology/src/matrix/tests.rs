//! Facts about the matrix and its text.

use super::*;
use proptest::prelude::*;

fn rails(preferred: &[&str], others: &[&str]) -> Rails {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Rails { preferred: owned(preferred), others: owned(others) }
}

fn sample() -> Matrix {
    Matrix::of([
        ("cpu:0".to_owned(), rails(&["mlx5_0", "mlx5_1"], &["mlx5_2"])),
        ("cuda:0".to_owned(), rails(&["mlx5_10"], &[])),
    ])
}

#[test]
fn the_text_is_what_mooncake_writes() {
    let empty = Matrix::of([("cpu:0".to_owned(), Rails::default())]);
    let recorded = "{\n\t\"cpu:0\" : \n\t[\n\t\t[],\n\t\t[]\n\t]\n}\n";
    assert_eq!(empty.to_json(), recorded);
    let expected = "{\n\t\"cpu:0\" : \n\t[\n\t\t[\n\t\t\t\"mlx5_0\",\n\t\t\t\"mlx5_1\"\n\t\t],\n\
        \t\t[\n\t\t\t\"mlx5_2\"\n\t\t]\n\t],\n\
        \t\"cuda:0\" : \n\t[\n\t\t[\n\t\t\t\"mlx5_10\"\n\t\t],\n\t\t[]\n\t]\n}\n";
    assert_eq!(sample().to_json(), expected);
    assert_eq!(
        sample().to_compact_json(),
        r#"{"cpu:0":[["mlx5_0","mlx5_1"],["mlx5_2"]],"cuda:0":[["mlx5_10"],[]]}"#
    );
    assert_eq!(Matrix::default().to_json(), "{}\n");
}

#[test]
fn a_matrix_is_read_alone_or_inside_a_document() {
    let inner = sample().to_json();
    for text in [
        inner.clone(),
        format!("{{\"nic_priority_matrix\": {inner}, \"other\": 1}}"),
        format!("{{\"priority_matrix\": {inner}}}"),
    ] {
        assert_eq!(Matrix::from_json(&text), Ok(sample()), "{text}");
    }
    let short = Matrix::from_json(r#"{"cpu:0": [["a"]]}"#).unwrap();
    assert_eq!(short.rails("cpu:0"), rails(&["a"], &[]));
    let twice = Matrix::from_json(r#"{"cpu:0": [["a"], ["b", "a"]]}"#).unwrap();
    assert_eq!(twice.rails("cpu:0"), rails(&["a"], &["b"]));
}

#[test]
fn other_shapes_are_refused_and_the_location_is_named() {
    for text in [
        r#"{"cpu:0": 1}"#,
        r#"{"cpu:0": []}"#,
        r#"{"cpu:0": ["mlx5_0"]}"#,
        r#"{"cpu:0": [["a"], ["b"], ["c"]]}"#,
        r#"{"cpu:0": [[1], []]}"#,
        r#"{"cpu:0": [[""], []]}"#,
    ] {
        let message = Matrix::from_json(text).unwrap_err().to_string();
        assert!(message.contains("cpu:0") && message.contains("preferred"), "{message}");
    }
    for text in ["", "[]", "null", "{", "{\"a\":[[]]", r#"{"priority_matrix": 3}"#] {
        let message = Matrix::from_json(text).unwrap_err().to_string();
        assert!(message.contains("matrix"), "{message}");
    }
    let deep = format!("{{\"a\":{}", "[".repeat(100_000));
    assert!(Matrix::from_json(&deep).is_err());
    let large = format!("{{\"{}\": [[],[]]}}", "x".repeat(2 << 20));
    assert!(Matrix::from_json(&large).unwrap_err().to_string().contains("larger"));
}

#[test]
fn rails_of_unknown_locations_are_all_devices() {
    let matrix = sample();
    let all = ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10"];
    assert_eq!(matrix.devices(), all);
    for location in ["*", "cpu:7", "cuda:3", ""] {
        assert_eq!(matrix.preferred(location), all, "{location}");
    }
    assert_eq!(matrix.preferred("cuda:0"), ["mlx5_10"]);
}

#[test]
fn without_a_preferred_device_the_others_are_used() {
    let matrix = Matrix::of([("cpu:1".to_owned(), rails(&[], &["a", "b"]))]);
    assert_eq!(matrix.preferred("cpu:1"), ["a", "b"]);
    assert_eq!(matrix.rails("cpu:1"), rails(&[], &["a", "b"]));
}

#[test]
fn cuda_names_find_amd_gpus() {
    let matrix = Matrix::of([
        ("hip:0".to_owned(), rails(&["a"], &["b"])),
        ("cpu:0".to_owned(), rails(&["a", "b"], &[])),
    ]);
    assert_eq!(matrix.preferred("cuda:0"), ["a"]);
}

#[test]
fn a_restricted_matrix_keeps_its_rows() {
    let selection = Selection::new("mlx5_2", None, &|_| None).unwrap();
    let matrix = sample().restricted_to(&selection);
    assert_eq!(matrix.rails("cpu:0"), rails(&[], &["mlx5_2"]));
    assert_eq!(matrix.rails("cuda:0"), rails(&[], &[]));
}

fn any_rails() -> impl Strategy<Value = Rails> {
    let names = || proptest::collection::vec("[a-zA-Z0-9_\\-.\"\u{e4}]{1,12}", 0..5);
    (names(), names()).prop_map(|(preferred, mut others)| {
        others.retain(|name| !preferred.contains(name));
        Rails { preferred, others }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        rows in proptest::collection::btree_map("[a-z*]{1,6}:[0-9]{1,3}", any_rails(), 0..8),
    ) {
        let matrix = Matrix::of(rows);
        prop_assert_eq!(&Matrix::from_json(&matrix.to_json()).unwrap(), &matrix);
        prop_assert_eq!(&Matrix::from_json(&matrix.to_compact_json()).unwrap(), &matrix);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[\\[\\]{}:,\" a-c0-9\\\\]{0,200}") {
        if let Ok(matrix) = Matrix::from_json(&text) {
            prop_assert_eq!(&Matrix::from_json(&matrix.to_json()).unwrap(), &matrix);
        }
    }

    #[test]
    fn a_damaged_document_is_read_or_refused(at in 0_usize..120, with in any::<u8>()) {
        let mut bytes = sample().to_json().into_bytes();
        let at = at % bytes.len();
        bytes[at] = with;
        if let Ok(matrix) = Matrix::from_json(&String::from_utf8_lossy(&bytes)) {
            prop_assert!(matrix.devices().len() <= 4);
        }
    }
}
