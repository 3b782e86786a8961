//! Results as JSON text, and back.
//!
//! The code that writes and reads a type as JSON is generic, so the compiler repeats it in each crate that calls it.
//! For results it is large, because they contain the whole configuration. The functions of this module are not generic,
//! so that the code is compiled only once. It is compiled only for JSON in one line; the other forms are derived from
//! that text.

use serde_json::Value;

use crate::ablate::{Ablation, Ablations};
use crate::life::{LifeRecord, Lives};
use crate::profile::{Profile, Profiles};
use crate::record::RunRecord;
use crate::report::Comparison;
use crate::sweep::SweepResults;

/// A result that can be written as JSON.
pub trait ToJson {
    /// Returns the result as JSON in one line.
    fn to_json(&self) -> String;

    /// Returns the result as JSON with line breaks and indentation, for files that people read as well.
    fn to_pretty_json(&self) -> String {
        let mut pretty = serde_json::Serializer::pretty(Vec::new());
        serde_transcode::transcode(&mut serde_json::Deserializer::from_str(&self.to_json()), &mut pretty)
            .expect("what was just written is JSON");
        String::from_utf8(pretty.into_inner()).expect("JSON is UTF-8")
    }

    /// Returns the result as a JSON value.
    fn to_json_value(&self) -> Value {
        serde_json::from_str(&self.to_json()).expect("what was just written is JSON")
    }
}

/// A result that can be read from the JSON text that [`ToJson`] writes.
pub trait FromJson: Sized {
    /// Parses a result.
    ///
    /// # Errors
    /// The text is no JSON, or no result of this type.
    fn from_json(text: &str) -> serde_json::Result<Self>;
}

macro_rules! impl_to_json {
    ($($result:ty),*) => {$(
        impl ToJson for $result {
            /// Returns the result as JSON in one line.
            fn to_json(&self) -> String {
                serde_json::to_string(self).expect("results are plain data")
            }
        }
    )*};
}

macro_rules! impl_from_json {
    ($($result:ty),*) => {$(
        impl FromJson for $result {
            /// Parses a result from its JSON text.
            fn from_json(text: &str) -> serde_json::Result<Self> {
                serde_json::from_str(text)
            }
        }
    )*};
}

impl_to_json!(Ablation, Ablations, Comparison, LifeRecord, Lives, Profile, Profiles, RunRecord, SweepResults);
impl_from_json!(
    Ablation,
    Ablations,
    Comparison,
    LifeRecord,
    Lives,
    Profile,
    Profiles,
    RunRecord,
    SweepResults
);
