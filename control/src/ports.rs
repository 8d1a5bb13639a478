// SPDX-License-Identifier: GPL-2.0-only
//! Sets of source ports.

use anyhow::{Result, bail};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A set of UDP or TCP ports as ascending disjoint ranges; written `[554, "16384-32767"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(Vec<(u16, u16)>);

impl Ports {
    /// Sorts and joins `ranges` (first and last port of each).
    ///
    /// # Errors
    /// A range that ends before it begins.
    pub fn new(mut ranges: Vec<(u16, u16)>) -> Result<Self> {
        if let Some((a, b)) = ranges.iter().find(|(a, b)| a > b) {
            bail!("ports `{a}-{b}` end before they begin");
        }
        ranges.sort_unstable();
        let mut joined: Vec<(u16, u16)> = Vec::new();
        for (a, b) in ranges {
            match joined.last_mut() {
                Some(last) if u32::from(a) <= u32::from(last.1) + 1 => last.1 = last.1.max(b),
                _ => joined.push((a, b)),
            }
        }
        Ok(Self(joined))
    }

    /// First and last port of each range, ascending.
    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|&(a, b)| (a..=b).contains(&port))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// As `takt set` takes it.
impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |&(a, b): &(u16, u16)| if a == b { a.to_string() } else { format!("{a}-{b}") };
        f.write_str(&self.0.iter().map(range).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Ports {
    type Err = anyhow::Error;

    /// Reads `554`, `16384-32767` or a list of them with commas.
    fn from_str(text: &str) -> Result<Self> {
        let range = |part: &str| {
            let (a, b) = part.split_once('-').unwrap_or((part, part));
            match (a.trim().parse(), b.trim().parse()) {
                (Ok(a), Ok(b)) => Ok((a, b)),
                _ => bail!("`{part}` is not a port or a range of ports between 0 and 65535"),
            }
        };
        Self::new(text.split(',').map(range).collect::<Result<_>>()?)
    }
}

impl Serialize for Ports {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_seq(
            self.0.iter().map(|&(a, b)| if a == b { Item::Port(a.into()) } else { Item::Range(format!("{a}-{b}")) }),
        )
    }
}

impl JsonSchema for Ports {
    fn schema_name() -> Cow<'static, str> {
        "Ports".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<Item>::json_schema(generator)
    }
}

impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        let mut ranges = Vec::new();
        for item in Vec::<Item>::deserialize(d)? {
            match item {
                Item::Port(n) => match u16::try_from(n) {
                    Ok(n) => ranges.push((n, n)),
                    Err(_) => return Err(D::Error::custom(format!("a port must be between 0 and 65535 (got `{n}`)"))),
                },
                Item::Range(text) => ranges.extend(text.parse::<Ports>().map_err(D::Error::custom)?.0),
            }
        }
        Self::new(ranges).map_err(D::Error::custom)
    }
}

/// A port, or the first and the last of several: `"16384-32767"`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PortItem")]
enum Item {
    Port(i64),
    Range(String),
}
