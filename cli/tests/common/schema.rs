// SPDX-License-Identifier: GPL-2.0-only
//! Documents against docs/schema, for the tests of every crate that has some. `TAKT_BLESS=1` writes
//! the files instead of comparing.

use boon::{Compiler, Schemas};
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use takt_control::document::{self, Document};

/// Checks that docs/schema has the schema of `T`, and that `document` is what it says; and that it
/// is the example there.
#[track_caller]
pub fn example<T: Document>(document: &Value) {
    published::<T>();
    valid::<T>(document);
    same(&file(&format!("examples/{}", T::NAME)), document);
}

/// Checks that docs/schema has the schema of `T`.
#[track_caller]
pub fn published<T: Document>() {
    same(&file(T::NAME), &document::schema::<T>());
}

/// Panics unless `document` is what the schema of `T` says, and has no field that the schema does
/// not name.
#[track_caller]
pub fn valid<T: Document>(document: &Value) {
    if let Err(e) = check(document::schema::<T>(), document) {
        panic!("{}: {e}", T::NAME);
    }
}

/// What is wrong with a document by a schema that allows no other fields than those that it names.
pub fn check(mut schema: Value, document: &Value) -> Result<(), String> {
    const AT: &str = "http://takt/schema.json";
    close(&mut schema);
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(AT, schema).map_err(|e| e.to_string())?;
    let schema = compiler.compile(AT, &mut schemas).map_err(|e| format!("{e:#}"))?;
    schemas.validate(document, schema).map_err(|e| format!("{e:#}"))
}

/// Forbids what an object's schema does not name.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object) && !fields.contains_key("oneOf") {
                fields.entry("additionalProperties").or_insert(false.into());
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

/// `docs/schema/NAME.json`.
pub fn file(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|dir| dir.join("docs/schema").is_dir());
    root.expect("docs/schema above this crate").join(format!("docs/schema/{name}.json"))
}

/// Checks that `file` holds `value`.
#[track_caller]
pub fn same(file: &Path, value: &Value) {
    if std::env::var_os("TAKT_BLESS").is_some() {
        let text = serde_json::to_string_pretty(&first(value)).expect("JSON") + "\n";
        std::fs::write(file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        return;
    }
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let there: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(&there, value, "{} is another; TAKT_BLESS=1 writes it", file.display());
}

/// A document as it is printed.
#[derive(Serialize)]
struct Printed {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    takt: Option<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

fn first(value: &Value) -> Printed {
    let mut rest = value.as_object().expect("an object").clone();
    Printed { version: rest.remove("version"), takt: rest.remove("takt"), rest }
}
