// SPDX-License-Identifier: GPL-2.0-only
//! What Takt prints for other programs: documents of JSON, each with a name, a version and a schema
//! (docs/json.md).

use anyhow::{Context, Result, ensure};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, Serializer, de::DeserializeOwned, ser::Error as _};
use serde_json::{Value, json};

/// The program's version.
pub const TAKT: &str = env!("CARGO_PKG_VERSION");

/// A kind of document.
pub trait Document: Serialize + JsonSchema {
    /// As `takt schema` calls it.
    const NAME: &'static str;
    /// A field may be added within a version; the version rises when a field goes or changes.
    const VERSION: u32;
}

/// A document as it is printed: its version and that of the program come first.
#[derive(Serialize)]
pub struct Versioned<'a, T> {
    version: u32,
    takt: &'static str,
    #[serde(flatten)]
    document: &'a T,
}

impl<'a, T: Document> From<&'a T> for Versioned<'a, T> {
    fn from(document: &'a T) -> Self {
        Self { version: T::VERSION, takt: TAKT, document }
    }
}

/// A document as a value, for an answer of the control socket.
///
/// # Errors
/// It is no object with names for keys.
pub fn value<T: Document>(document: &T) -> Result<Value> {
    Ok(serde_json::to_value(Versioned::from(document))?)
}

/// Reads what another process has written.
///
/// # Errors
/// It is of another version, which one line names together with this one; or it is no such
/// document.
pub fn read<T: Document + DeserializeOwned>(value: Value) -> Result<T> {
    let (version, takt) = (&value["version"], value["takt"].as_str().unwrap_or("of unknown version"));
    ensure!(
        *version == T::VERSION,
        "the running Takt ({takt}) writes `{}` in version {version}, this Takt ({TAKT}) reads version {}",
        T::NAME,
        T::VERSION
    );
    serde_json::from_value(value)
        .with_context(|| format!("the answer of the running Takt is not a `{}` document", T::NAME))
}

/// For a field with objects that have their keys in alphabetical order.
///
/// # Errors
/// An object has keys that are no names.
pub fn sorted<T: Serialize, S: Serializer>(value: &T, to: S) -> std::result::Result<S::Ok, S::Error> {
    serde_json::to_value(value).map_err(S::Error::custom)?.serialize(to)
}

/// The schema of a kind of document (JSON Schema, draft 2020-12), with its version as the only one
/// that it allows. It does not forbid further fields: later programs may add some.
pub fn schema<T: Document>() -> Value {
    let mut all = root::<T>(&format!("takt: {}, version {}", T::NAME, T::VERSION));
    match all.get_mut("oneOf").and_then(Value::as_array_mut) {
        Some(kinds) => kinds.iter_mut().for_each(head::<T>),
        None => head::<T>(&mut all),
    }
    all
}

/// The schema of a type that has no version of its own.
pub(crate) fn root<T: JsonSchema>(title: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut all = generator.into_root_schema_for::<T>().to_value();
    unwrap_lines(&mut all);
    all["title"] = title.into();
    all
}

/// A description is the type's comment: where that is wrapped says nothing. Paragraphs stay.
fn unwrap_lines(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                let paragraphs = text.split("\n\n").map(|p| p.replace('\n', " "));
                *text = paragraphs.collect::<Vec<_>>().join("\n\n");
            }
            map.values_mut().for_each(unwrap_lines);
        }
        Value::Array(list) => list.iter_mut().for_each(unwrap_lines),
        _ => {}
    }
}

/// Adds to the schema of an object what every document begins with.
fn head<T: Document>(object: &mut Value) {
    let version = json!({"description": "Version of the format of this document", "const": T::VERSION});
    object["properties"]["version"] = version;
    object["properties"]["takt"] = json!({"description": "Version of the program that wrote it", "type": "string"});
    match object["required"].as_array_mut() {
        Some(required) => required.push("version".into()),
        None => object["required"] = json!(["version"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// A thing
    /// of two lines.
    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    struct Thing {
        /// How much, us.
        b: f64,
        a: Option<u32>,
    }

    impl Document for Thing {
        const NAME: &'static str = "thing";
        const VERSION: u32 = 3;
    }

    const THING: Thing = Thing { b: 1.5, a: None };

    #[test]
    fn versions_come_first() {
        let text = serde_json::to_string(&Versioned::from(&THING)).unwrap();
        assert_eq!(text, format!("{{\"version\":3,\"takt\":\"{TAKT}\",\"b\":1.5,\"a\":null}}"));
        assert_eq!(read::<Thing>(value(&THING).unwrap()).unwrap(), THING);
    }

    #[test]
    fn another_version_is_refused_in_one_line_that_names_both() {
        let error = |text: &str| format!("{:#}", read::<Thing>(serde_json::from_str(text).unwrap()).unwrap_err());
        let want = format!("the running Takt (9.1) writes `thing` in version 4, this Takt ({TAKT}) reads version 3");
        assert_eq!(error(r#"{"version":4,"takt":"9.1","b":1}"#), want);
        assert!(error(r#"{"b":1}"#).contains("(of unknown version) writes `thing` in version null"));
        assert!(error("[]").contains("in version null"));
        assert!(error(r#"{"version":3}"#).contains("is not a `thing` document: missing field `b`"));
        let later = read::<Thing>(json!({"version": 3, "b": 1, "new": 7})).unwrap();
        assert_eq!(later, Thing { b: 1.0, a: None }, "a field that a later program adds");
    }

    #[test]
    fn a_schema_allows_one_version() {
        let all = schema::<Thing>();
        assert_eq!(all["title"], "takt: thing, version 3");
        assert_eq!(all["description"], "A thing of two lines.");
        assert_eq!(all["properties"]["version"]["const"], 3);
        assert_eq!(all["properties"]["b"]["description"], "How much, us.");
        assert_eq!(all["required"], json!(["b", "a", "version"]), "null is written, not left out");
    }
}
