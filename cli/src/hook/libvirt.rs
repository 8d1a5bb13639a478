// SPDX-License-Identifier: GPL-2.0-only
//! `takt hook libvirt DOMAIN OPERATION …`: libvirt's hook for QEMU, with the domain's XML on stdin. The settings are
//! attributes of an element of our namespace in `<metadata>`. libvirt takes what a hook prints for XML in some
//! operations: nothing is printed.

use super::found::renew;
use crate::args;
use anyhow::{Context, Result, anyhow, bail, ensure};
use quick_xml::NsReader;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use std::io::Read;
use std::path::Path;
use takt_control::{Entry, metadata, printable};

/// The namespace of `<takt:settings>`.
pub const NAMESPACE: &str = "urn:takt:settings:1";
/// No domain is described by more bytes.
const LONGEST: u64 = 4 * 1024 * 1024;

/// The operations after which the VM runs, or ran before libvirt was started, or before this file was there.
const BEGINS: [&str; 4] = ["prepare", "restore", "migrate", "reconnect"];
/// The operation after which nothing of it is left.
const ENDS: &str = "release";

/// Runs the command.
///
/// # Errors
/// One line that begins with the domain.
pub fn run(args: &args::LibvirtHook, xml: &mut dyn Read, dir: &Path) -> Result<()> {
    let begins = BEGINS.contains(&args.operation.as_str());
    if !begins && args.operation != ENDS {
        return Ok(());
    }
    let domain = || format!("domain {}", printable(&args.domain));
    let mut text = String::new();
    xml.take(LONGEST + 1).read_to_string(&mut text).with_context(domain)?;
    ensure!(text.len() as u64 <= LONGEST, "{}: more than {LONGEST} bytes of XML", domain());
    let done = read(&text).and_then(|read| renew(dir, &read.vm()?, || if begins { read.entry() } else { Ok(None) }));
    done.with_context(domain)
}

/// What of a domain's XML is of use.
#[derive(Debug, Default)]
struct Domain {
    name: String,
    uuid: String,
    /// Of each element of our namespace in its metadata: its name, and its attributes as `key=value`.
    ours: Vec<(String, Vec<String>)>,
}

impl Domain {
    /// Its UUID, or else its name.
    fn vm(&self) -> Result<String> {
        let uuid = self.uuid.trim().to_ascii_lowercase();
        let vm = if uuid.is_empty() { self.name.trim().to_owned() } else { uuid };
        ensure!(!vm.is_empty(), "XML: the domain has neither UUID nor name");
        Ok(vm)
    }

    /// What it says for Takt, if it does.
    fn entry(&self) -> Result<Option<Entry>> {
        let Some((name, pairs)) = self.ours.first() else { return Ok(None) };
        ensure!(name == "settings", "metadata: `{name}` is unknown");
        ensure!(self.ours.len() == 1, "metadata: there are two elements of Takt");
        metadata::of_pairs(pairs).map(Some).context("metadata")
    }
}

/// Goes through the XML from its begin to its end, however deep its elements are.
fn read(text: &str) -> Result<Domain> {
    let mut reader = NsReader::from_str(text);
    let mut domain = Domain::default();
    // The elements that are open: of those within others only how many there are.
    let (mut path, mut deeper, mut done) = (Vec::<String>::new(), 0u64, false);
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|e| anyhow!("XML: {e}"))?;
        let own = matches!(namespace, ResolveResult::Bound(Namespace(uri)) if uri == NAMESPACE.as_bytes());
        match event {
            Event::Eof => break,
            Event::DocType(_) => bail!("XML: it has a document type"),
            Event::Start(element) | Event::Empty(element) if done => {
                bail!("XML: `{}` follows the domain", name(&element));
            }
            Event::Start(ref element) | Event::Empty(ref element) => {
                ensure!(!path.is_empty() || name(element) == "domain", "XML: `{}` instead of a domain", name(element));
                if own && path == ["domain", "metadata"] && deeper == 0 {
                    domain.ours.push((name(element), attributes(element)?));
                }
                match event {
                    Event::Empty(_) => done |= path.is_empty(),
                    _ if path.len() < 2 => path.push(name(element)),
                    _ => deeper += 1,
                }
            }
            Event::End(_) if deeper > 0 => deeper -= 1,
            Event::End(_) => {
                path.pop();
                done = path.is_empty();
            }
            Event::Text(text) if deeper == 0 && path.len() == 2 => {
                let text = text.unescape().map_err(|e| anyhow!("XML: {e}"))?;
                match path[1].as_str() {
                    "name" => domain.name += &text,
                    "uuid" => domain.uuid += &text,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    ensure!(done, "XML: it ends within the domain, or has none");
    Ok(domain)
}

/// Its name without a prefix.
fn name(element: &BytesStart<'_>) -> String {
    printable(&String::from_utf8_lossy(element.local_name().as_ref()))
}

/// `key=value` of each attribute, but for those that declare a namespace.
fn attributes(element: &BytesStart<'_>) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|e| anyhow!("XML: {e}"))?;
        if attribute.key.as_namespace_binding().is_some() {
            continue;
        }
        let value = attribute.unescape_value().map_err(|e| anyhow!("XML: {e}"))?;
        all.push(format!("{}={value}", String::from_utf8_lossy(attribute.key.as_ref())));
    }
    Ok(all)
}
