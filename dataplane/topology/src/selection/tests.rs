//! Facts about device lists, maps per rank and filters.

use super::*;
use proptest::prelude::*;

type Pairs<'a> = &'a [(&'a str, &'a str)];

fn with(device_name: &str, pairs: Pairs<'_>) -> Result<Selection, TopologyError> {
    let environment = |name: &str| {
        let found = pairs.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Selection::new(device_name, None, &environment)
}

#[test]
fn lists_are_split_at_commas_and_empty_means_all() {
    let selection = with(" mlx5_0 ,mlx5_1,", &[]).unwrap();
    assert_eq!(selection.asked(), ["mlx5_0", "mlx5_1"]);
    assert!(selection.allows("mlx5_1") && !selection.allows("mlx5_2"));
    for text in ["", "  ", ",", " , "] {
        assert_eq!(with(text, &[]).unwrap(), Selection::all(), "{text}");
    }
}

#[test]
fn filters_of_the_environment_narrow_the_list() {
    let pairs = [("MC_TE_FILTERS", "a,b,c"), ("MC_TE_FILTERS_EXCLUDE", "b")];
    let selection = with("", &pairs).unwrap();
    let allowed = |name| selection.allows(name);
    assert!(allowed("a") && !allowed("b") && allowed("c") && !allowed("d"));
    assert_eq!(selection.objection("b"), Some("in MC_TE_FILTERS_EXCLUDE".to_owned()));
    assert_eq!(selection.objection("d"), Some("not in MC_TE_FILTERS".to_owned()));
    assert_eq!(selection.objection("a"), None);
    let narrower = with("c,d", &pairs).unwrap();
    assert!(narrower.allows("c") && !narrower.allows("d") && !narrower.allows("a"));
    assert_eq!(narrower.objection("a"), Some("not in the list of devices".to_owned()));
}

#[test]
fn the_rank_is_given_or_found_in_the_environment() {
    let map = r#"{"0": "mlx5_0,mlx5_1", "1": ["mlx5_2"], "10": "mlx5_3"}"#;
    let given = Selection::new(map, Some(10), &|_| None).unwrap();
    assert_eq!(given.asked(), ["mlx5_3"]);
    assert_eq!(with(map, &[("LOCAL_RANK", "1")]).unwrap().asked(), ["mlx5_2"]);
    let one_gpu = with(map, &[("CUDA_VISIBLE_DEVICES", "0")]).unwrap();
    assert_eq!(one_gpu.asked(), ["mlx5_0", "mlx5_1"]);
    assert_eq!(with(r#"{"7": "only"}"#, &[]).unwrap().asked(), ["only"]);
}

#[test]
fn a_map_without_this_rank_says_which_ranks_it_has() {
    let map = r#"{"0": "a", "10": "b", "2": "c"}"#;
    let message = with(map, &[("LOCAL_RANK", "5")]).unwrap_err().to_string();
    assert_eq!(message, "No devices for rank 5; the map has ranks 0, 2, 10");
    let message = with(map, &[("CUDA_VISIBLE_DEVICES", "0,1")]).unwrap_err().to_string();
    assert!(message.contains("set LOCAL_RANK"), "{message}");
}

#[test]
fn malformed_maps_are_refused() {
    for map in [
        "{}",
        "{0: \"a\"}",
        r#"{"x": "a"}"#,
        r#"{"-1": "a"}"#,
        r#"{"0": 5}"#,
        r#"{"0": [5]}"#,
        "{",
        "/no/such/file.json",
    ] {
        assert!(with(map, &[]).is_err(), "{map}");
    }
}

#[test]
fn a_map_may_lie_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("devices.json");
    std::fs::write(&path, r#"{"3": "mlx5_3"}"#).unwrap();
    let selection = Selection::new(path.to_str().unwrap(), Some(3), &|_| None).unwrap();
    assert_eq!(selection.asked(), ["mlx5_3"]);
    let folder_as_file = folder.path().join("folder.json");
    std::fs::create_dir(&folder_as_file).unwrap();
    let error = Selection::new(folder_as_file.to_str().unwrap(), Some(3), &|_| None);
    assert!(error.unwrap_err().to_string().contains("regular file"));
}

fn gpus(uuids: &[&str]) -> Vec<Gpu> {
    let numbered = uuids.iter().enumerate();
    let gpu = |(index, uuid): (usize, &&str)| Gpu {
        index,
        vendor: GpuVendor::Nvidia,
        place: crate::DevicePlace::default(),
        uuid: Some((*uuid).to_owned()),
    };
    numbered.map(gpu).collect()
}

#[test]
fn visible_gpus_are_renumbered_as_the_driver_does() {
    let gpus = gpus(&["GPU-aa", "GPU-bb", "GPU-cc"]);
    let seen = |text: &str| -> Vec<(usize, usize)> {
        let selection = with("", &[("CUDA_VISIBLE_DEVICES", text)]).unwrap();
        let visible = selection.visible(&gpus);
        visible.into_iter().map(|(number, gpu)| (number, gpu.index)).collect()
    };
    assert_eq!(seen("2,0"), [(0, 2), (1, 0)]);
    assert_eq!(seen("GPU-b"), [(0, 1)]);
    assert_eq!(seen("1,-1,0"), [(0, 1)]);
    assert_eq!(seen("1,9,0"), [(0, 1)]);
    assert_eq!(seen(""), []);
    assert_eq!(Selection::all().visible(&gpus).len(), 3);
}

proptest! {
    #[test]
    fn no_argument_makes_the_reader_panic(
        text in "[{}\\[\\]\":, a-c0-9]{0,80}",
        rank in proptest::option::of(any::<u32>()),
    ) {
        if let Ok(selection) = Selection::new(&text, rank, &|_| None) {
            prop_assert!(selection.asked().iter().all(|name| selection.allows(name)));
        }
    }
}
