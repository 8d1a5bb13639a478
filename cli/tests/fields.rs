// SPDX-License-Identifier: GPL-2.0-only
//! Beside each schema a page lists its fields. `TAKT_BLESS=1` writes the pages.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use takt::schema::SCHEMAS;

const WIDTH: usize = 100;

/// Words of `text` in lines, those after the first one by `indent`.
fn wrap(text: &str, indent: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split_whitespace() {
        let wide = word.chars().count();
        if column > 0 && column + 1 + wide > WIDTH {
            out += &format!("\n{indent}");
            column = indent.len();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += wide;
    }
    out + "\n"
}

/// What a value may be, in words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return name.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if let Some(all) = schema["enum"].as_array().or(schema["type"].as_array()) {
        return all
            .iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(all) = schema[key].as_array() {
            return all.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    match (schema["type"].as_str(), &schema["items"], &schema["additionalProperties"]) {
        _ if !schema["const"].is_null() => {
            schema["const"].as_str().map_or_else(|| schema["const"].to_string(), str::to_owned)
        }
        (Some("array"), Value::Null, _) => {
            let parts = schema["prefixItems"].as_array().map(|all| all.iter().map(kind).collect::<Vec<_>>().join(", "));
            format!("list of {}", parts.unwrap_or_default())
        }
        (Some("array"), item, _) => format!("list of {}", kind(item)),
        (Some("object"), _, of @ Value::Object(_)) => format!("{} by name", kind(of)),
        (Some("object"), ..) if schema["patternProperties"].is_object() => {
            let of = schema["patternProperties"].as_object().and_then(|all| all.values().next());
            format!("{} by number", of.map_or_else(String::new, kind))
        }
        (Some(one), ..) => one.to_owned(),
        (None, ..) => "any".to_owned(),
    }
}

/// A line for each field but those that every document has.
fn fields(object: &Value) -> String {
    let required: Vec<_> = object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let none = Map::new();
    let of = object["properties"].as_object().unwrap_or(&none).iter();
    let mut out: String = of
        .filter(|(name, field)| !(*name == "takt" || *name == "version" && !field["const"].is_null()))
        .map(|(name, field)| {
            let optional = if required.contains(&name.as_str()) { "" } else { ", if any" };
            let about = field["description"].as_str().map_or_else(String::new, |text| format!(": {text}"));
            wrap(&format!("* `{name}` ({}{optional}){about}", kind(field)), "  ")
        })
        .collect();
    if let (false, Value::Object(_)) = (out.is_empty(), &object["additionalProperties"]) {
        out += &wrap(&format!("* any other name ({})", kind(&object["additionalProperties"])), "  ");
    }
    out
}

/// An object, or each kind of it.
fn section(schema: &Value) -> String {
    let about = schema["description"].as_str().map_or_else(String::new, |text| wrap(text, "") + "\n");
    let kinds = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let kinds = kinds.iter().map(|one| {
        let about = one["description"].as_str().map_or_else(String::new, |text| wrap(text, ""));
        format!("{about}{}\n", fields(one))
    });
    let kinds: String = kinds.collect();
    format!("{about}{}{}", fields(schema), kinds.trim_end())
}

/// The page of each document; a type that an earlier one has is named with its page.
fn pages() -> Vec<(&'static str, String)> {
    let mut seen: BTreeMap<(String, String), &str> = BTreeMap::new();
    let mut all: Vec<_> = SCHEMAS.iter().collect();
    // Its types are those of other documents, too.
    all.sort_by_key(|(name, ..)| *name != "sim");
    let page = |(name, what, schema): &&(&'static str, &str, &str)| {
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        let from = format!(
            "Fields of [{name}.json]({name}.json), {what}; written by a test. [json.md](../json.md) says more."
        );
        let mut page = format!("# {name}\n\n{}\n{}\n", wrap(&from, ""), section(&schema).trim_end());
        let mut elsewhere = Vec::new();
        for (kind, schema) in schema["$defs"].as_object().into_iter().flatten() {
            let text = section(schema);
            match seen.get(&(kind.clone(), text.clone())) {
                _ if fields(schema).is_empty() => {}
                Some(there) => elsewhere.push(format!("{kind} in [{there}]({there}.md)")),
                None => {
                    page += &format!("\n## {kind}\n\n{}\n", text.trim_end());
                    seen.insert((kind.clone(), text), *name);
                }
            }
        }
        if !elsewhere.is_empty() {
            page += &format!("\n## Types of other documents\n\n{}", wrap(&format!("{}.", elsewhere.join(", ")), ""));
        }
        (*name, page)
    };
    all.iter().map(page).collect()
}

#[test]
fn a_page_lists_every_field() {
    let bless = std::env::var_os("TAKT_BLESS").is_some();
    for (name, page) in pages() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/schema/{name}.md"));
        if bless {
            std::fs::write(&file, &page).expect(name);
        }
        let there = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(there == page, "docs/schema/{name}.md is another page; TAKT_BLESS=1 writes it");
        assert!(name != "sim" || page.contains("\n## RunResult\n") && page.contains("* `p99_ns` (integer)"), "{page}");
    }
}
