// SPDX-License-Identifier: GPL-2.0-only
//! Sets of ports: what is joined, what is not, and how they are written.

use takt_control::{HostConfig, Ports};

#[test]
fn ranges_are_sorted_and_joined_where_they_touch() {
    for (given, want) in [
        (&[][..], &[][..]),
        (&[(7, 7)], &[(7, 7)]),
        (&[(9, 9), (1, 3)], &[(1, 3), (9, 9)]),
        (&[(1, 3), (4, 5)], &[(1, 5)]),
        (&[(4, 5), (1, 3)], &[(1, 5)]),
        (&[(1, 3), (5, 6)], &[(1, 3), (5, 6)]),
        (&[(1, 9), (2, 3)], &[(1, 9)]),
        (&[(1, 5), (5, 9)], &[(1, 9)]),
        (&[(1, 9), (2, 3), (10, 10)], &[(1, 10)]),
        (&[(0, 65_535), (7, 7)], &[(0, 65_535)]),
        (&[(65_535, 65_535), (65_534, 65_534), (0, 0)], &[(0, 0), (65_534, 65_535)]),
    ] {
        assert_eq!(Ports::new(given.to_vec()).unwrap().ranges(), want, "{given:?}");
    }
    assert_eq!(Ports::new(vec![(1, 1), (9, 8)]).unwrap_err().to_string(), "ports `9-8` end before they begin");
}

#[test]
fn a_range_contains_both_its_ends() {
    let ports: Ports = "5-7,10".parse().unwrap();
    let inside: Vec<u16> = (0..20).filter(|p| ports.contains(*p)).collect();
    assert_eq!(inside, [5, 6, 7, 10]);
    assert!(!ports.is_empty() && Ports::default().is_empty() && !Ports::default().contains(0));
}

#[test]
fn lists_are_read_as_people_write_them() {
    let read = |text: &str| text.parse::<Ports>().map(|p| p.ranges().to_vec()).map_err(|e| e.to_string());
    assert_eq!(read("554"), Ok(vec![(554, 554)]));
    assert_eq!(read(" 1 - 3 , 9"), Ok(vec![(1, 3), (9, 9)]));
    for (text, culprit) in [("", ""), ("1,", ""), ("1-2-3", "1-2-3"), ("a", "a"), ("1-x", "1-x"), ("x-1", "x-1")] {
        let error = format!("`{culprit}` is not a port or a range of ports between 0 and 65535");
        assert_eq!(read(text).unwrap_err(), error, "{text}");
    }
}

#[test]
fn a_file_mixes_numbers_and_ranges() {
    let read = |list: &str| {
        HostConfig::from_toml(&format!("[vm.a]\nports = {list}")).map(|c| c.vm["a"].ports.clone().unwrap())
    };
    assert_eq!(read("[\"16384-16390\", 554, \"16391,7\"]").unwrap().ranges(), [(7, 7), (554, 554), (16_384, 16_391)]);
    let text = toml::to_string(&HostConfig::from_toml("[vm.a]\nports = [\"1-2\", 5]").unwrap()).unwrap();
    assert!(text.contains("ports = [\"1-2\", 5]"), "{text}");
    assert!(read("[true]").is_err() && read("\"554\"").is_err());
}
