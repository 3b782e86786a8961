//! Generates the requests of host software and of published traces, from stated parameters and a seed.
//!
//! The case studies of Remap-SSD (FAST 2021, section 5) run modified applications, and the traces of the other papers
//! are private or no longer offered. A model here sends the requests that such software sends. The head of each module
//! lists everything that its model covers, and a result obtained from a model is a result about the model. The price of
//! that honesty is that absolute figures of the papers cannot be reproduced; directions and ratios between designs can.
//!
//! Models that copy pages can do so by remap requests or by reads and writes ([`HostModelSpec`] key `remap`). Both ways
//! leave the same contents, because the script of requests records what every page of the volume holds.
//!
//! Invariants: equal specifications give equal requests; every write carries its content; requests are whole pages of 4
//! KiB inside a dense volume that starts at page 0.

mod delta_ftl;
mod delta_load;
mod f2fs_clean;
mod file_copy;
mod files;
mod fileserver;
mod fiu;
mod lifetime;
mod oltp;
mod read_dependent;
mod recurring;
mod script;
mod snapshot;
mod spec_values;
mod sqlite_wal;
mod substitute;
mod ycsb;

use std::fmt;
use std::str::FromStr;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use script::RequestScript;
use spec_values::SpecValues;
use wearwell::data::mix_bits;
use wearwell_trace::Request;

use crate::content_model::{self, ContentModel};
use crate::workload::spec_grammar::{SpecError, SpecGrammar, SpecKey, SpecKind, SpecOptions};

/// Grammar of host-model specifications (models of databases, file systems and traces): their kinds and keys, for
/// parsing and help.
pub const HOST_MODEL_GRAMMAR: SpecGrammar = SpecGrammar {
    generator_noun: "host model",
    kinds: &[
        sqlite_wal::SPEC_KIND,
        f2fs_clean::SPEC_KIND,
        file_copy::SPEC_KIND,
        snapshot::SPEC_KIND,
        fileserver::SPEC_KIND,
        oltp::SPEC_KIND,
        ycsb::SPEC_KIND,
        read_dependent::SPEC_KIND,
        fiu::FIU_HOMES_SPEC_KIND,
        fiu::FIU_MAIL_SPEC_KIND,
        fiu::FIU_WEB_SPEC_KIND,
        delta_ftl::FINANCIAL_1_SPEC_KIND,
        delta_ftl::FINANCIAL_2_SPEC_KIND,
        delta_ftl::CELLO99_DISK_3_SPEC_KIND,
        delta_ftl::CELLO99_DISK_8_SPEC_KIND,
        delta_ftl::DAP_PS_SPEC_KIND,
        delta_ftl::MSN_CFS_SPEC_KIND,
        delta_load::SPEC_KIND,
        lifetime::WKSN_SPEC_KIND,
        lifetime::MEDIA_SPEC_KIND,
        lifetime::DVMT_SPEC_KIND,
    ],
    common_keys: &[SpecKey { name: "seed", default: "1", meaning: "equal seeds give equal requests" }],
};

/// The specification key `remap` of the host models that can copy pages by remaps or by writes.
const REMAP_KEY: SpecKey = SpecKey {
    name: "remap",
    default: "on",
    meaning: "on: pages are copied by remap requests; off: they are written",
};

/// Specification of a host model, such as `sqlite-wal:entries=1000,remap=off+dup:share=0.2`. When it is printed, all
/// keys are included; when it is parsed, missing keys get their defaults. The text after `+` specifies the content
/// model of newly written pages.
#[derive(Clone, PartialEq, Debug)]
pub struct HostModelSpec {
    /// Specification text of the host model: kind and all keys, with defaults filled in.
    spec_text: String,
    /// Content model of newly written pages; `None` if the specification has no `+` part.
    content_model: Option<content_model::ContentModelSpec>,
}

impl FromStr for HostModelSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (model, content_model) = match text.split_once('+') {
            Some((model, content)) => (model, Some(content.parse()?)),
            None => (text, None),
        };
        let spec = Self {
            spec_text: completed_spec_text(&SpecOptions::parse(model, &HOST_MODEL_GRAMMAR)?),
            content_model,
        };
        spec.build_generator()?;
        Ok(spec)
    }
}

/// Returns the specification text of a host model with the kind and all of its keys.
fn completed_spec_text(options: &SpecOptions) -> String {
    let kind = host_model_spec_kind(options.kind_name);
    let value =
        |key: &SpecKey| format!("{}={}", key.name, options.text_value(key.name).unwrap_or(key.default));
    let values: Vec<String> = kind.keys.iter().chain(HOST_MODEL_GRAMMAR.common_keys).map(value).collect();
    format!("{}:{}", kind.name, values.join(","))
}

/// Returns the specification kind (name, description and keys) of the host model `name`.
fn host_model_spec_kind(name: &str) -> &'static SpecKind {
    HOST_MODEL_GRAMMAR
        .kinds
        .iter()
        .find(|kind| kind.name == name)
        .expect("options have a kind of their grammar")
}

impl fmt::Display for HostModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spec_text)?;
        self.content_model.as_ref().map_or(Ok(()), |content| write!(f, "+{content}"))
    }
}

impl HostModelSpec {
    /// Whether the specification `text` names a host model.
    pub fn is_host_model_text(text: &str) -> bool {
        let name = text.split([':', '+']).next().unwrap_or_default().trim();
        HOST_MODEL_GRAMMAR.kinds.iter().any(|kind| kind.name == name)
    }

    /// Creates the generator of this specification's requests.
    ///
    /// # Errors
    /// [`SpecError`] if a value of a key is invalid.
    fn build_generator(&self) -> Result<HostRequestGenerator, SpecError> {
        let options = SpecOptions::parse(&self.spec_text, &HOST_MODEL_GRAMMAR)?;
        let keys = SpecValues::new(&options);
        let seed = keys.integer_of_key("seed", 0..=u64::MAX)?;
        let model = build_host_model(options.kind_name, &keys, Xoshiro256PlusPlus::seed_from_u64(seed))?;
        self.content_model
            .as_ref()
            .map_or(Ok(()), content_model::ContentModelSpec::require_source_of_generator)?;
        let content = match (self.content_model, options.kind_name) {
            (Some(content), _) => content,
            (None, "wksn" | "media" | "dvmt") => lifetime::content_model_of(options.kind_name),
            (None, _) => content_model::ContentModelSpec::new(content_model::ContentSource::Unique),
        };
        if self.content_model.is_some() && chooses_contents(options.kind_name) {
            let message = format!(
                "{} chooses the contents of its pages itself: leave out the content model after +",
                options.kind_name
            );
            return Err(SpecError::ConflictingKeys(message));
        }
        let script = RequestScript::new(ContentModel::new(&content, mix_bits(seed ^ HOST_CONTENT_SEED_SALT)));
        Ok(HostRequestGenerator { script, model, chooses_contents: chooses_contents(options.kind_name) })
    }
}

/// Whether a host model of this `kind` chooses the contents of its pages itself, so that no content model is allowed.
fn chooses_contents(kind: &str) -> bool {
    kind == "predicted" || fiu::is_fiu_substitute(kind)
}

/// Number that makes the seed of the content model differ from the seed of the requests.
const HOST_CONTENT_SEED_SALT: u64 = 0x686f_7374_7061_6765;

/// Creates the host model of this `kind` (file system, database, ...) from the values of its specification's keys.
fn build_host_model(
    kind: &str,
    keys: &SpecValues,
    random: Xoshiro256PlusPlus,
) -> Result<Box<dyn HostModel>, SpecError> {
    Ok(match kind {
        "sqlite-wal" => Box::new(sqlite_wal::SqliteWal::new(keys, random)?),
        "f2fs-clean" => Box::new(f2fs_clean::F2fsClean::new(keys, random)?),
        "file-copy" => Box::new(file_copy::FileCopy::new(keys, random)?),
        "snapshot" => Box::new(snapshot::VolumeSnapshots::new(keys, random)?),
        "fileserver" => Box::new(fileserver::Fileserver::new(keys, random)?),
        "oltp" => Box::new(oltp::Oltp::new(keys, random)?),
        "ycsb" => Box::new(ycsb::Ycsb::new(keys, random)?),
        "predicted" => Box::new(read_dependent::generator_with_read_dependent_recurrence(keys, random)?),
        "fiu-homes" | "fiu-mail" | "fiu-web" => {
            Box::new(fiu::trace_substitute_generator(kind, keys, random)?)
        }
        "f1" | "f2" | "c3" | "c8" | "dap" | "msn" => {
            Box::new(delta_ftl::trace_substitute_generator(kind, keys, random)?)
        }
        "delta-load" => Box::new(delta_load::DeltaLoad::new(keys, random)?),
        "wksn" | "media" | "dvmt" => Box::new(lifetime::trace_substitute_generator(kind, keys, random)?),
        other => unreachable!("the grammar lists host model {other}, which nobody builds"),
    })
}

/// A host model (of a file system, database, ...) that generates requests step by step.
trait HostModel: fmt::Debug + Send {
    /// Appends the next requests of the host model to `script`. A model that appends no request has ended.
    fn plan_next_requests(&mut self, script: &mut RequestScript);
}

/// Generates the requests of a host model.
#[derive(Debug)]
pub struct HostRequestGenerator {
    /// Requests that the host model has planned, and the contents of its volume.
    script: RequestScript,
    /// Host model that plans further requests when the script is empty.
    model: Box<dyn HostModel>,
    /// Whether the host model chooses the contents of its pages itself, without the content model.
    chooses_contents: bool,
}

impl HostRequestGenerator {
    /// Creates the generator of a host model (of a file system, database, ...), before its first request.
    pub fn new(spec: &HostModelSpec) -> Self {
        spec.build_generator().expect("a specification is checked when it is parsed")
    }

    /// Writes the next request into `into` and returns true; after the last request returns false and leaves `into`
    /// unchanged. The generator takes 16 bytes of memory per page of the volume.
    pub fn next_request(&mut self, into: &mut Request) -> bool {
        if self.script.is_empty() {
            self.model.plan_next_requests(&mut self.script);
        }
        self.script.next_request(into)
    }

    /// Returns a sentence for reports that says how the contents of newly written pages are chosen, by the host model
    /// or by the content model.
    pub fn describe_content(&self) -> String {
        if self.chooses_contents {
            return "content is synthetic: dead pages come back as often as the trace's counts say".into();
        }
        self.script.describe_content()
    }
}
